"""SQS's service model of the query protocol, for botocore.

What the JSON protocol has no use for was taken out of the model: the names of items on the wire.
They are as in the models before it, which are the reference for both sides here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.loaders import Loader

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "2012-11-05"

_ITEMS = {
    "AWSAccountIdList": "AWSAccountId",
    "ActionNameList": "ActionName",
    "AttributeNameList": "AttributeName",
    "BatchResultErrorEntryList": "BatchResultErrorEntry",
    "ChangeMessageVisibilityBatchRequestEntryList": "ChangeMessageVisibilityBatchRequestEntry",
    "ChangeMessageVisibilityBatchResultEntryList": "ChangeMessageVisibilityBatchResultEntry",
    "DeleteMessageBatchRequestEntryList": "DeleteMessageBatchRequestEntry",
    "DeleteMessageBatchResultEntryList": "DeleteMessageBatchResultEntry",
    "ListMessageMoveTasksResultEntryList": "ListMessageMoveTasksResultEntry",
    "MessageAttributeNameList": "MessageAttributeName",
    "MessageList": "Message",
    "MessageSystemAttributeList": "MessageSystemAttributeName",
    "QueueUrlList": "QueueUrl",
    "SendMessageBatchRequestEntryList": "SendMessageBatchRequestEntry",
    "SendMessageBatchResultEntryList": "SendMessageBatchResultEntry",
    "TagKeyList": "TagKey",
}
_KEYS = {
    "MessageBodyAttributeMap": "Name",
    "MessageBodySystemAttributeMap": "Name",
    "MessageSystemAttributeMap": "Name",
    "QueueAttributeMap": "Name",
    "TagMap": "Key",
}
_MEMBERS = {
    "Attributes": "Attribute",
    "MessageAttributes": "MessageAttribute",
    "MessageSystemAttributes": "MessageSystemAttribute",
    "tags": "Tag",
}
_PLURAL = {"TagQueueRequest"}
_CODES = {
    "QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    **{
        name: f"AWS.SimpleQueueService.{name}"
        for name in (
            "BatchEntryIdsNotDistinct",
            "BatchRequestTooLong",
            "EmptyBatchRequest",
            "InvalidBatchEntryId",
            "MessageNotInflight",
            "PurgeQueueInProgress",
            "QueueDeletedRecently",
            "TooManyEntriesInBatchRequest",
            "UnsupportedOperation",
        )
    },
}


def write_query_model(folder: Path) -> None:
    """Write the model where a loader with that folder finds it."""
    model = Loader().load_service_model("sqs", "service-2", VERSION)
    metadata = {**model["metadata"], "protocol": "query", "protocols": ["query"]}
    for name in ("awsQueryCompatible", "jsonVersion", "targetPrefix"):
        del metadata[name]
    metadata["xmlNamespace"] = f"http://queue.amazonaws.com/doc/{VERSION}/"
    model["metadata"] = metadata
    for name, operation in model["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"
    for name, shape in model["shapes"].items():
        _name_items(name, shape)
    target = folder / "sqs" / VERSION
    target.mkdir(parents=True)
    (target / "service-2.json").write_text(json.dumps(model))


def _name_items(name: str, shape: dict[str, Any]) -> None:
    if name in _CODES:
        shape["error"] = {"code": _CODES[name]}
    if name in _ITEMS:
        shape["member"]["locationName"] = _ITEMS[name]
    if name in _KEYS:
        shape["key"]["locationName"] = _KEYS[name]
        shape["value"]["locationName"] = "Value"
    for member, content in shape.get("members", {}).items():
        if member in _MEMBERS:
            content["locationName"] = _MEMBERS[member]
        elif member == "Tags" and name not in _PLURAL:
            content["locationName"] = "Tag"
