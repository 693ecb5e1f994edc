"""Parts of requests and answers that several actions share, by their names in SQS's model."""

from __future__ import annotations

from base64 import b64decode
from functools import lru_cache
from typing import Protocol

import msgspec

from laneway.server.sqs.texts import Refusal

_CAPITALS = {"md5": "MD5", "aws": "AWS", "s3": "S3"}


@lru_cache(maxsize=512)
def name_member(field: str) -> str:
    """Return a member's wire name: queue_url is QueueUrl, md5_of_body is MD5OfBody."""
    return "".join(_CAPITALS.get(part, part.capitalize()) for part in field.split("_"))


class Request(msgspec.Struct, rename=name_member, kw_only=True):
    """The request of an action."""


class QueueRequest(Request, kw_only=True):
    """The request of an action on a queue; without a URL, the path names the queue."""

    queue_url: str = ""


class Addressed(Protocol):
    """Any request that names a queue."""

    queue_url: str


class Named(Protocol):
    """Any entry of a batch."""

    id: str


class Result(msgspec.Struct, rename=name_member, kw_only=True, omit_defaults=True):
    """The result of an action; members that are not set are left out."""


class AttributeValue(msgspec.Struct, rename=name_member, kw_only=True, omit_defaults=True):
    """A message attribute; binary_value is Base64, as in both wire protocols.

    Lists of values are in AWS's model, but no message may have one.
    """

    data_type: str = ""
    string_value: str | None = None
    binary_value: str | None = None
    string_list_values: list[str] = msgspec.field(default_factory=list)
    binary_list_values: list[str] = msgspec.field(default_factory=list)

    @property
    def is_binary(self) -> bool:
        return self.data_type.startswith("Binary")

    @property
    def content(self) -> bytes:
        if not self.is_binary:
            return (self.string_value or "").encode()
        try:
            return b64decode(self.binary_value or "", validate=True)
        except ValueError:
            raise Refusal.ATTRIBUTE_BASE64.fault() from None


class BatchEntry(Request, kw_only=True):
    id: str


class BatchFailure(Result, kw_only=True):
    id: str
    sender_fault: bool
    code: str
    message: str
