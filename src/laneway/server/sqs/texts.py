"""The refusals of SQS: code, text and case of each, in one table.

The texts are those of AWS, word for word, because clients match them: as recorded from AWS, or as
its documents and other implementations that follow it have them. Where AWS's wording is not known,
a comment says so.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from laneway.server.sqs.errors import NO_QUEUE, Fault

_PARAMETER = "InvalidParameterValueException"
_MISSING = "MissingRequiredParameterException"
_ATTRIBUTE_NAME = "InvalidAttributeName"
_ATTRIBUTE_VALUE = "InvalidAttributeValue"
_SERIALIZATION = "SerializationException"
_RESOURCE = "ResourceNotFoundException"
_SIGNATURE = "InvalidSignatureException"
_DENIED = "AccessDeniedException"

_CHARACTERS = (
    "the set of allowed characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | "
    "[#x10000-#x10FFFF]."
)
_OTHER_TYPE = "The request include parameter that is not valid for this queue type"
_REDRIVE = "Value {value} for parameter RedrivePolicy is invalid. Reason: "
_ALLOW = (
    "Value {value} for parameter RedriveAllowPolicy is invalid. Reason: Amazon SQS can't create the "
    "redrive allow policy. "
)
_RESERVED = (
    "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are "
    "reserved for internal use."
)


class Row(NamedTuple):
    """A fault's name in the table of codes, its text, and the case that raises it."""

    code: str
    text: str
    case: str


class Refusal(Enum):
    """Every refusal of a request."""

    # Signatures and API keys.
    UNSIGNED = Row(
        "MissingAuthenticationTokenException",
        "Request is missing Authentication Token",
        "a request has no signature and no API key, and the server requires one",
    )
    # Our wording.
    SIGNATURE_PARTS = Row(
        "IncompleteSignatureException",
        "Authorization must be AWS4-HMAC-SHA256 with Credential, SignedHeaders and Signature.",
        "the Authorization header is of another kind, or lacks a part",
    )
    UNKNOWN_KEY = Row(
        "UnrecognizedClientException",
        "The security token included in the request is invalid.",
        "no API key has the access key id",
    )
    SIGNATURE = Row(
        _SIGNATURE,
        "The request signature we calculated does not match the signature you provided. Check your "
        "AWS Secret Access Key and signing method. Consult the service documentation for details.",
        "the signature was made with another secret, or of another request",
    )
    SIGNATURE_EXPIRED = Row(
        _SIGNATURE,
        "Signature expired: {at} is now earlier than {limit} ({now} - 15 min.)",
        "the request was signed more than 15 minutes ago",
    )
    SIGNATURE_EARLY = Row(
        _SIGNATURE,
        "Signature not yet current: {at} is still later than {limit} ({now} + 15 min.)",
        "the time of the signature is more than 15 minutes ahead",
    )
    URL_EXPIRED = Row(_DENIED, "Request has expired.", "a presigned URL is used after its lifetime")
    # Our wording.
    URL_LIFETIME = Row(
        _SIGNATURE,
        "X-Amz-Expires must be between 1 second and 7 days.",
        "a presigned URL has no lifetime, or too long a one",
    )
    UNSIGNED_HEADER = Row(
        _SIGNATURE,
        "'{header}' must be a 'SignedHeader' in the AWS Authorization.",
        "the signature does not cover Host, or X-Amz-Target if the request has it",
    )
    # Our wording.
    SIGNATURE_DATE = Row(
        _SIGNATURE,
        "The request has no X-Amz-Date in the format 20300131T235959Z.",
        "a signed request has no date, or one in another format",
    )
    # Our wording.
    SIGNATURE_SCOPE = Row(
        _SIGNATURE,
        "Credential should be scoped to {date}/region/sqs/aws4_request.",
        "the credential is for another date or service",
    )
    SIGNATURE_REGION = Row(
        _SIGNATURE,
        "Credential should be scoped to a valid region.",
        "the region of the credential has characters that no region has",
    )
    # Our wording.
    SIGNED_BODY = Row(
        _SIGNATURE,
        "The body does not match the signed hash.",
        "the body is not the one that X-Amz-Content-SHA256 is of",
    )
    # Our wording, as are the next two: keys with roles and patterns are ours.
    ROLE = Row(
        _DENIED,
        'The key "{key}" has the role {role}: {action} requires {required}.',
        "the key's role does not allow the action",
    )
    OTHER_QUEUE = Row(
        _DENIED,
        'The key "{key}" is limited to queues like "{pattern}": it may not use queue "{queue}".',
        "the key is limited to other queues",
    )
    NO_DESTINATION = Row(
        _DENIED,
        'The key "{key}" is limited to queues like "{pattern}", and messages may have come from '
        "others: name the destination in DestinationArn.",
        "a key that is limited to some queues starts a move task without a destination",
    )

    # Requests that cannot be read. Our wording, except that of the types.
    OPERATION = Row(
        "UnknownOperationException",
        "There is no operation {name}.",
        "X-Amz-Target names no action of SQS",
    )
    NOT_JSON = Row(_SERIALIZATION, "The request body is not valid JSON.", "a body is not JSON")
    STRUCTURE = Row(_SERIALIZATION, "{reason}", "the request has another structure")
    NOT_UTF8 = Row(_SERIALIZATION, "MessageBody is not UTF-8.", "a message body is not UTF-8")
    FORM = Row(
        _SERIALIZATION,
        "The form cannot be read.",
        "a form is not UTF-8, or has more than 1000 fields",
    )
    FORM_DEPTH = Row(
        _SERIALIZATION,
        "{field} has no field of {count} parts.",
        "a form's field has more parts than any that there is",
    )
    FORM_TWICE = Row(
        _SERIALIZATION,
        "{field} is both a value and a list.",
        "a form gives a value to a field and to its parts",
    )
    FORM_KEY = Row(
        _SERIALIZATION,
        "An entry of {member} has no {key}.",
        "an entry of a map in a form lacks its key",
    )
    FORM_NUMBER = Row(
        _SERIALIZATION,
        "{number} is not a number in a list.",
        "the items of a list in a form are not numbered",
    )
    NOT_AN_INTEGER = Row(
        _SERIALIZATION,
        "{kind}_VALUE can not be converted to an Integer",
        "a number is given as text or as a flag",
    )
    NOT_A_STRING = Row(
        _SERIALIZATION,
        "{kind}_VALUE can not be converted to a String",
        "a text is given as a number or as a flag",
    )
    MAP_UNEXPECTED = Row(
        _SERIALIZATION,
        "Start of structure or map found where not expected.",
        "a parameter that takes another type is an object",
    )
    LIST_UNEXPECTED = Row(
        _SERIALIZATION,
        "Start of list found where not expected",
        "a parameter that takes another type is a list",
    )

    # Any request.
    MISSING = Row(
        _MISSING,
        "The request must contain the parameter {parameter}.",
        "a required parameter is absent or empty",
    )
    ACTION = Row(
        "InvalidAction",
        "The action {action} is not valid for this endpoint.",
        "the action is unknown, or CreateQueue or ListQueues is sent to a queue's URL",
    )
    QUEUE = Row(
        "QueueDoesNotExist",
        NO_QUEUE,
        "the queue's name or URL names no queue; in the query protocol, WSDL_QUEUE",
    )
    WSDL_QUEUE = Row(
        "QueueDoesNotExist",
        "The specified queue does not exist for this wsdl version.",
        "the queue's name or URL names no queue, in the query protocol",
    )
    RESULTS = Row(
        _PARAMETER,
        "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 "
        "and 1000.",
        "MaxResults of a list of queues is not from 1 to 1000",
    )
    NEXT_TOKEN = Row(
        _PARAMETER,
        "Invalid or expired next token.",
        "NextToken is not one that a list returned",
    )

    # Queues.
    NO_NAME = Row(
        _PARAMETER,
        "Value for parameter QueueName is invalid. Reason: Must specify a queue name.",
        "GetQueueUrl names no queue",
    )
    EMPTY_NAME = Row(_PARAMETER, "Queue name cannot be empty", "CreateQueue names no queue")
    NAME = Row(
        _PARAMETER,
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        "a standard queue is created with a name that is not valid",
    )
    FIFO_NAME = Row(
        _PARAMETER,
        "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
        "must end with .fifo suffix and be 1 to 80 in length.",
        "a FIFO queue is created with a name that is not valid",
    )
    EXISTS = Row(
        "QueueNameExists",
        "A queue already exists with the same name and a different value for attribute {name}",
        "a queue is created again with another value of an attribute",
    )
    DELETED_RECENTLY = Row(
        "QueueDeletedRecently",
        "You must wait {seconds:.0f} seconds after deleting a queue before you can create another "
        "with the same name.",
        "a queue is created too soon after one of its name was deleted",
    )
    PURGED_RECENTLY = Row(
        "PurgeQueueInProgress",
        "Only one PurgeQueue operation on {queue} is allowed every {seconds:.0f} seconds.",
        "a queue is purged too soon after the last time",
    )

    # Queue attributes.
    ATTRIBUTE = Row(_ATTRIBUTE_NAME, "Unknown Attribute {name}.", "an attribute is unknown here")
    VALUE = Row(
        _ATTRIBUTE_VALUE,
        "Invalid value for the parameter {name}.",
        "a queue attribute has a value that is not valid",
    )
    FIFO_ATTRIBUTE = Row(
        _ATTRIBUTE_NAME,
        "You can specify the {name} only when FifoQueue is set to true.",
        "a standard queue gets an attribute of FIFO queues",
    )
    QUEUE_TYPE = Row(
        _ATTRIBUTE_VALUE,
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        "FifoQueue of a FIFO queue is set to false",
    )
    THROUGHPUT = Row(
        _ATTRIBUTE_VALUE,
        "The perMessageGroupId value is allowed only when the value for DeduplicationScope is "
        "messageGroup",
        "FifoThroughputLimit is perMessageGroupId while deduplication covers the queue",
    )
    ENCRYPTION = Row(
        _ATTRIBUTE_NAME,
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS "
        "SSE or SQS SSE.",
        "KmsMasterKeyId is set together with SqsManagedSseEnabled",
    )
    STATEMENTS = Row(
        "OverLimit",
        "{count} statements were found in the submitted policy, max allowed is 20",
        "a Policy has more than 20 statements",
    )
    REDRIVE_JSON = Row(
        _ATTRIBUTE_VALUE,
        "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON "
        "map.",
        "RedrivePolicy is not a JSON object",
    )
    REDRIVE_MEMBER = Row(
        _PARAMETER,
        _REDRIVE + "Redrive policy does not contain mandatory attribute: {member}.",
        "RedrivePolicy lacks maxReceiveCount or deadLetterTargetArn",
    )
    REDRIVE_UNKNOWN = Row(
        _PARAMETER,
        _REDRIVE
        + "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].",
        "RedrivePolicy has other members",
    )
    REDRIVE_COUNT = Row(
        _PARAMETER,
        _REDRIVE
        + "Invalid value for maxReceiveCount: {count}, valid values are from 1 to 1000 both "
        "inclusive.",
        "maxReceiveCount is not from 1 to 1000",
    )
    REDRIVE_ARN = Row(
        _PARAMETER,
        _REDRIVE + "Invalid value for deadLetterTargetArn.",
        "deadLetterTargetArn is not an ARN",
    )
    REDRIVE_SERVICE = Row(
        _PARAMETER,
        _REDRIVE + "Only SQS queues are valid resources for deadLetterTargetArn.",
        "deadLetterTargetArn is of another service",
    )
    REDRIVE_TARGET = Row(
        _PARAMETER,
        _REDRIVE + "Dead letter target does not exist.",
        "there is no queue of that ARN",
    )
    REDRIVE_OWNER = Row(
        _PARAMETER,
        _REDRIVE + "Dead-letter target owner should be same as the source.",
        "the dead-letter queue is of another region or account",
    )
    REDRIVE_TYPE = Row(
        _PARAMETER,
        _REDRIVE + "Dead-letter queue must be same type of queue as the source..",
        "a FIFO queue is to have a standard dead-letter queue, or the other way round",
    )
    # Our wording.
    REDRIVE_REFUSED = Row(
        _PARAMETER,
        _REDRIVE + "The redrive allow policy of the dead-letter queue does not allow this queue.",
        "the target's RedriveAllowPolicy does not allow the source",
    )
    ALLOW_FORMAT = Row(
        _ATTRIBUTE_VALUE,
        "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create the "
        "redrive allow policy, as it\u2019s in an unsupported format.",
        "RedriveAllowPolicy is not JSON, has unknown members or members of another type",
    )
    ALLOW_NO_SOURCE = Row(
        _PARAMETER,
        _ALLOW + "When you specify the byQueue permission type, you must also specify one or more "
        "sourceQueueArns values.",
        "redrivePermission is byQueue without sourceQueueArns",
    )
    ALLOW_SOURCES = Row(
        _PARAMETER,
        _ALLOW
        + "To specify one or more source queue ARNs, you must set redrivePermission to byQueue.",
        "sourceQueueArns are given with allowAll or denyAll",
    )
    ALLOW_MANY_SOURCES = Row(
        _PARAMETER,
        _ALLOW + "The maximum number of source queue ARNs you can specify is 10.",
        "more than ten sourceQueueArns are given",
    )

    # Tags.
    TAG_KEY = Row(
        _PARAMETER,
        "Tag keys must be between 1 and 128 characters in length.",
        "a tag's key is empty or longer than 128 characters",
    )
    TAG_VALUE = Row(
        _PARAMETER,
        "Tag values must be between 0 and 256 characters in length.",
        "a tag's value is longer than 256 characters",
    )
    # Our wording.
    TAG_RESERVED = Row(
        _PARAMETER,
        "aws: prefixed tag key names are not allowed for external use.",
        "a tag's key begins with aws:",
    )
    # Our wording.
    TAG_CHARACTER = Row(
        _PARAMETER,
        "Tags must not contain null characters.",
        "a tag contains a null character",
    )
    TAGS = Row(
        _PARAMETER,
        "Too many tags added for queue {queue}.",
        "a queue would have more than 50 tags",
    )

    # Permissions.
    # Our wording.
    LABEL = Row(
        _PARAMETER,
        "Value {value} for parameter Label is invalid. Reason: Can only include alphanumeric "
        "characters, hyphens, or underscores. 1 to 80 in length.",
        "a permission's label has other characters, or too many",
    )
    LABEL_EXISTS = Row(
        _PARAMETER,
        "Value {value} for parameter Label is invalid. Reason: Already exists.",
        "the policy has a statement with the label",
    )
    LABEL_UNKNOWN = Row(
        _PARAMETER,
        "Value {value} for parameter Label is invalid. Reason: can't find label.",
        "the policy has no statement with the label",
    )
    ACTIONS = Row(
        "OverLimit",
        "{count} Actions were found, maximum allowed is 7.",
        "a permission names more than seven actions",
    )
    ACTION_NAME = Row(
        _PARAMETER,
        "Value SQS:{action} for parameter ActionName is invalid. Reason: Please refer to the "
        "appropriate WSDL for a list of valid actions. ",
        "a permission names an action that does not exist",
    )
    OWNERS_ACTION = Row(
        _PARAMETER,
        "Value SQS:{action} for parameter ActionName is invalid. Reason: Only the queue owner is "
        "allowed to invoke this action.",
        "a permission names an action that only the owner may run",
    )
    PRINCIPAL = Row(
        _PARAMETER,
        "Value [{value}] for parameter PrincipalId is invalid. Reason: Unable to verify.",
        "a permission names no account, or one that is not twelve digits",
    )

    # Messages.
    BODY_CHARACTER = Row(
        "InvalidMessageContents",
        "Invalid binary character '#x{code:X}' was found in the message body, " + _CHARACTERS,
        "a body has a character that XML 1.0 does not allow",
    )
    # Our wording.
    EMPTY_BODY = Row(
        "EmptyValue",
        "The request must contain the parameter SendMessageBatchRequestEntry.{number}.MessageBody.",
        "the body of a batch's entry is absent or empty",
    )
    MESSAGE_LENGTH = Row(
        _PARAMETER,
        "One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes.",
        "a message is larger than MaximumMessageSize",
    )
    ENTRY_LENGTH = Row(
        _PARAMETER,
        "One or more parameters cannot be validated. Reason: Message must be shorter than {limit} "
        "bytes.",
        "a message of a batch is larger than MaximumMessageSize",
    )
    DELAY = Row(
        _PARAMETER,
        "Value {value} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and "
        "<= 900.",
        "DelaySeconds is not from 0 to 900",
    )
    OTHER_TYPE = Row(
        _PARAMETER,
        "Value {value} for parameter {parameter} is invalid. Reason: " + _OTHER_TYPE + ".",
        "a message has DelaySeconds in a FIFO queue, or MessageDeduplicationId in a standard one",
    )
    ENTRY_OTHER_TYPE = Row(_PARAMETER, _OTHER_TYPE, "the same in an entry of a batch")
    ID = Row(
        _PARAMETER,
        "Value {value} for parameter {parameter} is invalid. Reason: {parameter} can only include "
        "alphanumeric and punctuation characters. 1 to 128 in length.",
        "MessageGroupId, MessageDeduplicationId or ReceiveRequestAttemptId has other characters",
    )
    NO_DEDUPLICATION_ID = Row(
        _PARAMETER,
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
        "provided explicitly",
        "a message of a FIFO queue has no deduplication id",
    )
    NO_GROUP = Row(
        _PARAMETER,
        "The request must contain the parameter MessageGroupId.",
        "an entry of a batch for a FIFO queue has no message group; alone, MISSING",
    )

    # Message attributes.
    ATTRIBUTES = Row(
        _PARAMETER,
        "Number of message attributes [{count}] exceeds the allowed maximum [10].",
        "a message has more than ten attributes",
    )
    NO_ATTRIBUTE_NAME = Row(
        _PARAMETER,
        "The request must contain non-empty message (user) attribute names.",
        "a message attribute has no name",
    )
    ATTRIBUTE_NAME_LENGTH = Row(
        _PARAMETER,
        "Message (user) attribute name must be shorter than 256 bytes.",
        "a message attribute's name has 256 bytes or more",
    )
    ATTRIBUTE_NAME_CHARACTER = Row(
        _PARAMETER,
        "Message (user) attributes name can only contain upper and lower score characters, digits, "
        "periods, hyphens and underscores. ",
        "a message attribute's name has other characters",
    )
    ATTRIBUTE_NAME_RESERVED = Row(
        _PARAMETER,
        _RESERVED,
        "a message attribute's name begins with AWS. or Amazon.",
    )
    # Our wording.
    ATTRIBUTE_NAME_END = Row(
        _PARAMETER,
        _RESERVED + " Additionally, they cannot start or end with '.'.",
        "a message attribute's name begins or ends with a period",
    )
    # Our wording.
    ATTRIBUTE_NAME_PERIODS = Row(
        _PARAMETER,
        "Message (user) attribute name can not have successive '.' characters.",
        "a message attribute's name has two periods in a row",
    )
    NO_ATTRIBUTE = Row(
        _PARAMETER,
        "The message (user) attribute '{name}' must contain a non-empty message attribute value.",
        "a message attribute has neither type nor value",
    )
    NO_ATTRIBUTE_TYPE = Row(
        _PARAMETER,
        "Message (user) attribute '{name}' must contain a non-empty attribute type.",
        "a message attribute has a value and no type",
    )
    ATTRIBUTE_TYPE_LENGTH = Row(
        _PARAMETER,
        "Message (user) attribute type must be shorter than 256 bytes.",
        "a message attribute's type has 256 bytes or more",
    )
    ATTRIBUTE_TYPE = Row(
        _PARAMETER,
        "The type of message (user) attribute '{name}' is invalid. You must use only the following "
        "supported type prefixes: Binary, Number, String.",
        "a message attribute's type has another prefix",
    )
    ATTRIBUTE_LIST = Row(
        "UnsupportedOperation",
        "Message attribute list values in SendMessage operation are not supported.",
        "a message attribute has a list of values",
    )
    NO_ATTRIBUTE_VALUE = Row(
        _PARAMETER,
        "Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'.",
        "a message attribute has a type and no value of it",
    )
    # Our wording.
    ATTRIBUTE_VALUES = Row(
        _PARAMETER,
        "Message (user) attribute '{name}' has multiple values.",
        "a message attribute has a value of each kind",
    )
    # Our wording.
    ATTRIBUTE_CHARACTER = Row(
        _PARAMETER,
        "Invalid binary character '#x{code:X}' was found in the message (user) attribute '{name}' "
        "value, " + _CHARACTERS,
        "a message attribute's value has a character that XML 1.0 does not allow",
    )
    ATTRIBUTE_NUMBER = Row(
        _PARAMETER,
        "Can't cast the value of message (user) attribute '{name}' to a number.",
        "the value of an attribute of type Number is not a number of SQS",
    )
    # Our wording.
    ATTRIBUTE_BASE64 = Row(
        _PARAMETER,
        "The value of a message (user) attribute of type Binary must be Base64.",
        "the value of an attribute of type Binary is not Base64",
    )
    SYSTEM_ATTRIBUTE = Row(
        _PARAMETER,
        "Message system attribute name '{name}' is invalid.",
        "a system attribute is not AWSTraceHeader",
    )
    # Our wording.
    SYSTEM_ATTRIBUTE_TYPE = Row(
        _PARAMETER,
        "Message system attribute '{name}' must contain a value of type 'String'.",
        "AWSTraceHeader is not of type String",
    )

    # Batches.
    NO_ENTRIES = Row(
        "EmptyBatchRequest",
        "There should be at least one {action}RequestEntry in the request.",
        "a batch has no entry",
    )
    ENTRIES = Row(
        "TooManyEntriesInBatchRequest",
        "Maximum number of entries per request are 10. You have sent {count}.",
        "a batch has more than ten entries",
    )
    ENTRY_ID = Row(
        "InvalidBatchEntryId",
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can "
        "be at most 80 letters long.",
        "the id of an entry has other characters, none or too many",
    )
    REPEATED_ID = Row(
        "BatchEntryIdsNotDistinct",
        "Id {id} repeated.",
        "two entries of a batch have the same id",
    )
    BATCH_LENGTH = Row(
        "BatchRequestTooLong",
        "Batch requests cannot be longer than {limit} bytes. You have sent {size} bytes.",
        "the messages of a batch have more than 1 MiB in all",
    )

    # Receiving.
    COUNT = Row(
        _PARAMETER,
        "Value {value} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and "
        "10, if provided.",
        "MaxNumberOfMessages is not from 1 to 10",
    )
    WAIT = Row(
        _PARAMETER,
        "Value {value} for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if "
        "provided.",
        "WaitTimeSeconds is not from 0 to 20",
    )
    VISIBILITY = Row(
        _PARAMETER,
        "Value {value} for parameter VisibilityTimeout is invalid. Reason: Must be >= 0 and <= "
        "43200, if provided.",
        "VisibilityTimeout of a receive is not from 0 to 43200",
    )
    # Our wording.
    IN_FLIGHT = Row(
        "OverLimit",
        "Too many messages of {queue} are in flight: delete some first.",
        "a short poll comes while the queue has as many messages in flight as it may",
    )

    # Receipt handles.
    HANDLE = Row(
        "ReceiptHandleIsInvalid",
        'The input receipt handle "{handle}" is not a valid receipt handle.',
        "a receipt handle is not one of the queue's",
    )
    EXPIRED_HANDLE = Row(
        _PARAMETER,
        "Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has "
        "expired.",
        "a message of a FIFO queue is deleted by a handle whose visibility timeout has ended",
    )
    GONE = Row(
        _PARAMETER,
        "Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is "
        "not available for visibility timeout change.",
        "the visibility of a deleted message is changed",
    )
    CHANGED_VISIBILITY = Row(
        _PARAMETER,
        "Value {value} for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout must be "
        "an integer between 0 and 43200.",
        "VisibilityTimeout of a change is not from 0 to 43200",
    )
    TOTAL_VISIBILITY = Row(
        _PARAMETER,
        "Value {value} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout "
        "for the message is beyond the limit [43200 seconds].",
        "a message would be invisible for more than twelve hours since its receive",
    )

    # Message move tasks.
    ARN = Row(
        _PARAMETER,
        "You must use this format to specify the {parameter}: "
        "arn:<partition>:<service>:<region>:<account-id>:<resource-id>",
        "an ARN of a move task is not an ARN",
    )
    RESOURCE = Row(
        _RESOURCE,
        "The resource that you specified for the {parameter} parameter doesn't exist.",
        "there is no queue of an ARN of a move task",
    )
    SOURCE = Row(
        _PARAMETER,
        "Source queue must be configured as a Dead Letter Queue.",
        "the source of a move task is no queue's dead-letter queue",
    )
    SAME_QUEUE = Row(
        _PARAMETER,
        "Source queue arn and destination queue arn cannot be the same.",
        "the destination of a move task is its source",
    )
    OTHER_QUEUE_TYPE = Row(
        _PARAMETER,
        "The source queue and destination queue must be of the same queue type.",
        "only one of a move task's queues is FIFO",
    )
    RATE = Row(
        _PARAMETER,
        "Value for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: You must enter a "
        "number that's between 1 and 500.",
        "MaxNumberOfMessagesPerSecond is not from 1 to 500",
    )
    RUNNING = Row(
        _PARAMETER,
        "There is already a task running. Only one active task is allowed for a source queue arn at "
        "a given time.",
        "a move task is started while one of the same source runs",
    )
    TASK_HANDLE = Row(
        _PARAMETER,
        "Value for parameter TaskHandle is invalid.",
        "a task handle is not one that StartMessageMoveTask returned",
    )
    TASK = Row(_RESOURCE, "Task does not exist.", "a task does not exist or does not run any more")
    # Our wording.
    TASK_RESULTS = Row(
        _PARAMETER,
        "Value for parameter MaxResults is invalid. Reason: You must enter a number that's between 1 "
        "and 10.",
        "MaxResults of a list of move tasks is not from 1 to 10",
    )

    def fault(self, **values: object) -> Fault:
        """Return the fault, with these values in its text."""
        return Fault(self.value.code, self.value.text.format(**values))
