"""The query protocol's answers in JSON, for clients that accept that only.

They have the shapes of the XML: every member is there, null if it is not set, and maps are lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from laneway.server.responses import JSON, Answer, encode
from laneway.server.sqs.query import MAPS, word_fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.sqs.actions import Action
    from laneway.server.sqs.errors import Fault
    from laneway.server.sqs.wire import Result

# Lists that begin with a small letter here.
_SMALL = {"Messages": "messages", "QueueUrls": "queueUrls"}


class DescribedCodec:
    def write(self, action: Action, result: Result | None, request_id: bytes) -> Answer:
        content: dict[str, Any] = {"ResponseMetadata": {"RequestId": request_id.decode()}}
        if result is not None:
            content[f"{action.name}Result"] = _show(result)
        return _answer(200, {f"{action.name}Response": content}, request_id)

    def explain(self, fault: Fault, request_id: bytes) -> Answer:
        error = {
            "Code": fault.code.query,
            "Message": str(word_fault(fault)),
            "Type": "Sender" if fault.is_senders else "Receiver",
        }
        content = {"Error": error, "RequestId": request_id.decode()}
        return _answer(fault.code.status, content, request_id, fault.headers)


def accepts_json(accept: bytes) -> bool:
    """Return whether a client asks for JSON in the first place."""
    return accept.lstrip().startswith(JSON)


def _show(value: Any) -> Any:
    match value:
        case msgspec.Struct():
            members = {
                field.encode_name: getattr(value, field.name)
                for field in msgspec.structs.fields(value)
            }
            return {
                _SMALL.get(name, name): _show_map(name, content)
                if isinstance(content, dict)
                else _show(content)
                for name, content in members.items()
            }
        case list():
            return [_show(item) for item in value]
        case _:
            return value


def _show_map(member: str, content: dict[str, Any]) -> list[dict[str, Any]]:
    _, key = MAPS[member]
    return [{key: name, "Value": _show(item)} for name, item in content.items()]


def _answer(
    status: int,
    content: dict[str, Any],
    request_id: bytes,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> Answer:
    return Answer(
        status,
        encode(content),
        content_type=JSON,
        headers=((b"x-amzn-requestid", request_id), *headers),
    )
