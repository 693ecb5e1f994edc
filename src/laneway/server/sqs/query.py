"""AWS's query protocol: requests are forms with numbered lists and maps, answers are XML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from laneway.server.responses import Answer
from laneway.server.sqs.contents import NOT_IN_XML
from laneway.server.sqs.decoder import RequestDecoder
from laneway.server.sqs.digests import digest_body
from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from laneway.server.sqs.actions import Action
    from laneway.server.sqs.errors import Fault
    from laneway.server.sqs.wire import Request, Result

CONTENT_TYPE = b"text/xml"
NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
LARGEST_FORM = 2 * 1024 * 1024

_MOST_FIELDS = 1000
# More parts than any field name has: Entries.member.1.MessageAttributes.entry.1.Value.StringValue
_MOST_STEPS = 10

# List members, and the name of an item on the wire.
_LISTS = {
    "AttributeNames": "AttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "TagKeys": "TagKey",
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Messages": "Message",
    "Results": "ListMessageMoveTasksResultEntry",
    "Failed": "BatchResultErrorEntry",
}
# Map members, the name of an entry, and the name of its key.
MAPS = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "Tags": ("Tag", "Key"),
    "tags": ("Tag", "Key"),
}
# The name of these depends on the action.
_ENTRIES, _SUCCESSFUL = "Entries", "Successful"

# The number of an item in a list.
_NUMBER = re.compile("[0-9]{1,9}")

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#xD;"}
_SPECIAL = re.compile('[&<>"\r]')

_NOT_AT_QUEUES = frozenset({"CreateQueue", "ListQueues"})

UNKNOWN = Answer(404, b"<UnknownOperationException/>\n", content_type=CONTENT_TYPE)


class QueryCodec:
    def __init__(self, actions: dict[str, Action]) -> None:
        self._actions = {
            name: (action, RequestDecoder(action.request, lenient=True), _Reader(action))
            for name, action in actions.items()
        }

    def read(self, form: Mapping[str, str], *, at_queue: bool) -> tuple[Action, Request]:
        """Return the request of a form. at_queue: it was sent to a queue's URL."""
        name = form["Action"]
        found = self._actions.get(name)
        if found is None or (at_queue and name in _NOT_AT_QUEUES):
            raise Refusal.ACTION.fault(action=name)
        action, decoder, reader = found
        return action, decoder.decode(msgspec.json.encode(reader.read(form)))

    def write(self, action: Action, result: Result | None, request_id: bytes) -> Answer:
        inner = ""
        if result is not None:
            members = "".join(_write(msgspec.to_builtins(result), action.name))
            tag = f"{action.name}Result"
            inner = f"<{tag}>{members}</{tag}>" if members else f"<{tag}/>"
        return _answer(
            200,
            f'<{action.name}Response xmlns="{NAMESPACE}">{inner}<ResponseMetadata><RequestId>'
            f"{request_id.decode()}</RequestId></ResponseMetadata></{action.name}Response>",
            request_id,
        )

    def explain(self, fault: Fault, request_id: bytes) -> Answer:
        code = fault.code
        message = str(word_fault(fault))
        sender = "Sender" if fault.is_senders else "Receiver"
        return _answer(
            code.status,
            f'<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{sender}</Type>'
            f"<Code>{code.query}</Code><Message>{_escape(message)}</Message><Detail/></Error>"
            f"<RequestId>{_escape(request_id.decode())}</RequestId></ErrorResponse>",
            request_id,
            fault.headers,
        )


def word_fault(fault: Fault) -> Fault:
    """Return the fault as the query protocol words it."""
    return Refusal.WSDL_QUEUE.fault() if fault.name == "QueueDoesNotExist" else fault


def read_form(*sources: bytes) -> dict[str, str]:
    """Return the fields of a query string and a body."""
    form: dict[str, str] = {}
    for source in sources:
        if source:
            try:
                pairs = parse_qsl(
                    source.decode(),
                    keep_blank_values=True,
                    max_num_fields=_MOST_FIELDS,
                    errors="strict",
                )
            except ValueError:
                raise Refusal.FORM.fault() from None
            form.update(pairs)
    return form


class _Reader:
    """Collects the numbered fields of one action's form into lists and maps."""

    def __init__(self, action: Action) -> None:
        names = {
            field.encode_name: field.encode_name for field in msgspec.structs.fields(action.request)
        }
        # By the first part of a field: the item's name, or the member's own.
        self._members = dict(names)
        for member in names:
            if member in _LISTS:
                self._members[_LISTS[member]] = member
            elif member in MAPS:
                self._members[MAPS[member][0]] = member
                self._members["Tags" if member == "tags" else member] = member
            elif member == _ENTRIES:
                self._members[f"{action.name}RequestEntry"] = member

    def read(self, form: Mapping[str, str]) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for name, value in form.items():
            _plant(tree, name.split("."), value)
        request: dict[str, Any] = {}
        for name, value in tree.items():
            member = self._members.get(name)
            if member is not None:
                request[member] = _shape(member, value)
        if "AttributeNames" in request:
            # As AWS does in this protocol only: the older parameter wins.
            request.pop("MessageSystemAttributeNames", None)
        return request


def _plant(tree: dict[str, Any], path: list[str], value: str) -> None:
    *steps, last = path
    if len(path) > _MOST_STEPS:
        raise Refusal.FORM_DEPTH.fault(field=path[0], count=len(path))
    for step in steps:
        branch = tree.setdefault(step, {})
        if not isinstance(branch, dict):
            raise Refusal.FORM_TWICE.fault(field=".".join(path))
        tree = branch
    tree[last] = value


def _shape(member: str, value: Any) -> Any:
    if not isinstance(value, dict):
        if member in _LISTS:
            # One item may come without a number, and an empty list as an empty field.
            return [value] if value else []
        return [] if member == _ENTRIES and not value else value
    for wrapper in ("member", "entry"):
        if set(value) == {wrapper} and isinstance(value[wrapper], dict):
            value = value[wrapper]
    if member in _LISTS:
        return list(_in_order(value))
    if member == _ENTRIES:
        return [_shape_entry(entry) for entry in _in_order(value) if isinstance(entry, dict)]
    if member in MAPS:
        return _read_map(member, value)
    return value


def _shape_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    named = {_ENTRY_MEMBERS.get(name, name): value for name, value in entry.items()}
    return {name: _shape(name, value) for name, value in named.items()}


# The same for a batch's entry.
_ENTRY_MEMBERS = {
    MAPS[member][0]: member for member in ("MessageAttributes", "MessageSystemAttributes")
}


def _read_map(member: str, value: Mapping[str, Any]) -> dict[str, Any]:
    _, key = MAPS[member]
    entries = {}
    for entry in _in_order(value):
        if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
            raise Refusal.FORM_KEY.fault(member=member, key=key)
        content = entry.get("Value", "")
        entries[entry[key]] = content
    return entries


def _in_order(value: Mapping[str, Any]) -> Iterator[Any]:
    for number in value:
        if not _NUMBER.fullmatch(number):
            raise Refusal.FORM_NUMBER.fault(number=number)
    for number in sorted(value, key=int):
        yield value[number]


def _write(members: Mapping[str, Any], action: str) -> Iterator[str]:
    for name, value in members.items():
        match value:
            case list():
                item = f"{action}ResultEntry" if name == _SUCCESSFUL else _LISTS[name]
                yield from _write_items(item, value, action)
            case dict() if name in MAPS:
                entry, key = MAPS[name]
                for each, content in value.items():
                    inner = "".join(_write({key: each, "Value": content}, action))
                    yield f"<{entry}>{inner}</{entry}>"
            case dict():
                yield f"<{name}>{''.join(_write(value, action))}</{name}>"
            case bool():
                yield f"<{name}>{str(value).lower()}</{name}>"
            case _:
                yield f"<{name}>{_escape(str(value))}</{name}>"


def _write_items(item: str, values: Iterable[Any], action: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict):
            yield f"<{item}>{''.join(_write(_digest_shown(value), action))}</{item}>"
        else:
            yield f"<{item}>{_escape(str(value))}</{item}>"


def _digest_shown(members: dict[str, Any]) -> dict[str, Any]:
    """Return a message with the digest of its body as XML: clients verify it."""
    body = members.get("Body", "")
    shown = NOT_IN_XML.sub("\ufffd", body)
    return members if shown == body else members | {"MD5OfBody": digest_body(shown.encode())}


def _escape(text: str) -> str:
    """Return the text as XML, without the characters that XML does not allow."""
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], NOT_IN_XML.sub("\ufffd", text))


def _answer(
    status: int, document: str, request_id: bytes, headers: Sequence[tuple[bytes, bytes]] = ()
) -> Answer:
    return Answer(
        status,
        b'<?xml version="1.0"?>' + document.encode(),
        content_type=CONTENT_TYPE,
        headers=((b"x-amzn-requestid", request_id), *headers),
    )
