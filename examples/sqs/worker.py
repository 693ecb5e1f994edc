"""A worker on SQS with boto3: long polls of 20 s, ten messages at a time, 60 s for each, three attempts.

    AWS_ENDPOINT_URL=http://127.0.0.1:3001 python worker.py               processes messages
    AWS_ENDPOINT_URL=http://127.0.0.1:3001 python worker.py one two       sends messages

boto3 reads the endpoint, the region and the keys from the environment, as for AWS.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

NAME = os.environ.get("QUEUE", "jobs")
# The handler fails on bodies that contain this text, to show dead-lettering.
POISON = os.environ.get("POISON", "")


def main() -> None:
    sqs = boto3.client("sqs", region_name=os.environ.get("AWS_REGION", "us-east-1"))
    url = make_queues(sqs)
    if len(sys.argv) > 1:
        for body in sys.argv[1:]:
            say(f"sent {sqs.send_message(QueueUrl=url, MessageBody=body)['MessageId']}")
        return
    say(f"working on {url}")
    while True:
        try:
            answer = sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=10,
                WaitTimeSeconds=20,
                VisibilityTimeout=60,
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
            work(sqs, url, answer.get("Messages", []))
        except (BotoCoreError, ClientError) as error:
            say(f"lost: {type(error).__name__}")


def make_queues(sqs: Any) -> str:
    """Create the queue and its dead-letter queue, unless they exist."""
    dead = sqs.create_queue(QueueName=f"{NAME}-dead")["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": found["Attributes"]["QueueArn"], "maxReceiveCount": 3}
    url: str = sqs.create_queue(
        QueueName=NAME, Attributes={"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": "60"}
    )["QueueUrl"]
    return url


def work(sqs: Any, url: str, messages: list[dict[str, Any]]) -> None:
    done = []
    for message in messages:
        count = message["Attributes"]["ApproximateReceiveCount"]
        try:
            handle(message["Body"])
        except ValueError as error:
            # Make the message visible at once instead of after its visibility timeout.
            sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )
            say(f"failed {message['Body']} ({count}): {error}")
        else:
            say(f"done {message['Body']} ({count})")
            done.append({"Id": message["MessageId"], "ReceiptHandle": message["ReceiptHandle"]})
    if done:
        sqs.delete_message_batch(QueueUrl=url, Entries=done)


def handle(body: str) -> None:
    if POISON and POISON in body:
        raise ValueError(f"{POISON} cannot be handled")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
