// Sends, receives and deletes messages with the AWS SDK for JavaScript v3, which checks every MD5.
//
//   npm ci && AWS_ENDPOINT_URL=http://127.0.0.1:3001 node example.mjs
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";

const sqs = new SQSClient({
  endpoint: process.env.AWS_ENDPOINT_URL ?? "http://127.0.0.1:3001",
  region: "us-east-1",
  credentials: {
    accessKeyId: process.env.AWS_ACCESS_KEY_ID ?? "any",
    secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY ?? "any",
  },
});

const name = process.argv[2] ?? "example-node";
const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: name }));

const sent = await sqs.send(
  new SendMessageCommand({
    QueueUrl,
    MessageBody: "snö ☃ \"quoted\"\n",
    MessageAttributes: {
      kind: { DataType: "String", StringValue: "greeting" },
      count: { DataType: "Number", StringValue: "3" },
      blob: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255, 7]) },
    },
  }),
);
const batch = await sqs.send(
  new SendMessageBatchCommand({
    QueueUrl,
    Entries: [1, 2, 3].map((n) => ({ Id: `m${n}`, MessageBody: `message ${n}` })),
  }),
);

const received = [];
while (received.length < 4) {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 20,
      MessageAttributeNames: ["All"],
      MessageSystemAttributeNames: ["All"],
    }),
  );
  received.push(...Messages);
}
const deleted = await sqs.send(
  new DeleteMessageBatchCommand({
    QueueUrl,
    Entries: received.map(({ ReceiptHandle }, n) => ({ Id: `${n}`, ReceiptHandle })),
  }),
);
sqs.destroy();

const greeting = received.find(({ MessageId }) => MessageId === sent.MessageId);
console.log(
  JSON.stringify({
    queue: QueueUrl,
    bodies: received.map(({ Body }) => Body).sort(),
    sent: batch.Successful.length + 1,
    kind: greeting.MessageAttributes.kind.StringValue,
    blob: [...greeting.MessageAttributes.blob.BinaryValue],
    deleted: deleted.Successful.length,
  }),
);
