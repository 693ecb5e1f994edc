"""Input that is not valid text is refused in the format of its protocol."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from msgspec import inspect

from laneway.server.operations import Media
from laneway.server.server_process import make_surfaces
from laneway.server.settings import ServerSettings
from laneway.server.sqs.actions import ACTIONS
from tests.postgres import make_database
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from laneway.server.operations import Operation

# JSON strings that are no text: bytes that are no UTF-8, half a pair of surrogates as bytes and as
# an escape. A NUL is text, and no more than some text can be stored.
NO_JSON = (b'"\xff"', b'"a\xed\xa0\x80"', rb'"\ud800"', rb'"\u0000"')
NO_TEXT = (b"%FF", b"%ED%A0%80", b"%00", b"\xff", b"%")
NO_HEADER = b"\xff\xed\xa0\x80"
HEADERS = (b"X-API-KEY", b"Authorization", b"X-Request-ID", b"Origin", b"Accept-Encoding")
# What every other text says: a queue, partition, lane and key that are there.
MARK = "1"

SURFACES = {surface.name: surface for surface in make_surfaces(ServerSettings())}
_PARAMETER = re.compile(r"\{([A-Za-z_]+)\}")


class Sent(NamedTuple):
    method: bytes
    target: bytes
    body: bytes = b""
    headers: bytes = b""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(server: str) -> AsyncIterator[tuple[str, int]]:
    """Yield the host and port of a server that nobody else uses."""
    async with make_database(server, "unreadable") as dsn, run_laneway(dsn) as running:
        found = urlsplit(running.url)
        assert found.hostname is not None
        assert found.port is not None
        item = {"queue": MARK, "partition": MARK, "transactionId": MARK, "payload": MARK}
        async with running.client() as api:
            assert (await api.post("/v1/push", json={"items": [item]})).status_code == 201
        yield found.hostname, found.port
        log = running.log
    assert "Traceback" not in log


@pytest.mark.parametrize("name", SURFACES)
async def test_no_part_of_a_request_that_is_no_text_is_a_fault_of_the_server(
    place: tuple[str, int], name: str
) -> None:
    surface = SURFACES[name]
    sent = [
        spoiled
        for operation in surface.operations
        for spoiled in spoil(operation, surface.prefix.encode())
    ]
    assert len(sent) >= len(surface.operations)
    await send_all(place, sent)


async def test_no_body_of_sqs_that_is_no_text_is_a_fault_of_the_server(
    place: tuple[str, int],
) -> None:
    content = b"Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS.%b\r\n"
    sent = [
        Sent(b"POST", b"/", body, content % name.encode())
        for name, action in ACTIONS.items()
        for body in spoil_body(action.request)
    ]
    form = b"Content-Type: application/x-www-form-urlencoded\r\n"
    sent += [
        Sent(b"POST", b"/", b"Action=%b&%b=%b" % (name.encode(), field, wrong), form)
        for name, action in ACTIONS.items()
        for field in (item.encode_name.encode() for item in msgspec.structs.fields(action.request))
        for wrong in NO_TEXT
    ]
    sent += [Sent(b"POST", b"/", b"Action=" + wrong, form) for wrong in NO_TEXT]
    sent += [
        Sent(b"POST", b"/", b"{}", b"X-Amz-Target: AmazonSQS.%b\r\n" % wrong)
        for wrong in (NO_HEADER, *NO_TEXT)
    ]
    await send_all(place, sent)


async def send_all(place: tuple[str, int], requests: list[Sent]) -> None:
    """Send each on a connection of its own, a few at a time."""
    room = asyncio.Semaphore(8)

    async def send(request: Sent) -> tuple[int, Sent]:
        async with room:
            return await send_one(place, request), request

    async with asyncio.timeout(300):
        answers = await asyncio.gather(*map(send, requests))
    failed = [(status, request) for status, request in answers if status >= 500]
    assert not failed, failed


async def send_one(place: tuple[str, int], request: Sent) -> int:
    reader, writer = await asyncio.open_connection(*place)
    try:
        head = b"%b %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%b\r\n"
        writer.write(
            head % (request.method, request.target, len(request.body), request.headers)
            + request.body
        )
        line = await reader.readline()
        assert line.startswith(b"HTTP/1.1 "), (line, request)
        return int(line.split()[1])
    finally:
        writer.close()


def spoil(operation: Operation[Any, Any], prefix: bytes) -> Iterator[Sent]:
    """Yield requests of an operation, each with one thing in it that is no text."""
    method, path = operation.method.encode(), prefix + operation.path.encode()
    named = _PARAMETER.findall(operation.path)
    values = dict.fromkeys(named, MARK.encode())
    whole = fill(path, values) + b"?wait=false&timeout=1"
    for name in named:
        for wrong in NO_TEXT[:4]:
            yield Sent(method, fill(path, values | {name: wrong}))
    for name in list_names(operation.parameters) - set(named) | {"unheard-of"}:
        for wrong in NO_TEXT:
            yield Sent(method, b"%b&%b=%b" % (whole, name.encode(), wrong))
    for name in HEADERS:
        yield Sent(method, whole, headers=b"%b: %b\r\n" % (name, NO_HEADER))
    for body in spoil_body(operation.body):
        yield Sent(method, whole, body)


def fill(path: bytes, values: dict[str, bytes]) -> bytes:
    return re.sub(rb"\{([A-Za-z_]+)\}", lambda found: values[found[1].decode()], path)


def list_names(kind: type[Any] | None) -> set[str]:
    return set() if kind is None else {field.encode_name for field in msgspec.structs.fields(kind)}


def spoil_body(kind: Any) -> Iterator[bytes]:
    """Yield bodies that are right but for one text or value in them."""
    if kind is None:
        return
    if isinstance(kind, Media):
        yield from (b"[{%b:%b}]" % (wrong, wrong) for wrong in NO_JSON)
        yield from NO_JSON
        return
    parts = make(inspect.type_info(kind)).split(_HOLE)
    for hole in range(len(parts) - 1):
        for wrong in NO_JSON:
            texts = [b'"%b"' % MARK.encode()] * len(parts)
            texts[hole], texts[-1] = wrong, b""
            yield b"".join(part + text for part, text in zip(parts, texts, strict=True))
    yield b"\xff"


_HOLE = b"@hole@"
_MAKERS: dict[type[inspect.Type], Callable[[Any], bytes]] = {
    inspect.AnyType: lambda _: _HOLE,
    inspect.RawType: lambda _: _HOLE,
    inspect.StrType: lambda _: _HOLE,
    inspect.BytesType: lambda _: b'"AAAA"',
    inspect.BoolType: lambda _: b"false",
    inspect.NoneType: lambda _: b"null",
    inspect.IntType: lambda kind: b"%d" % (kind.ge or (kind.gt or 0) + 1),
    inspect.FloatType: lambda kind: b"%d" % (kind.ge or (kind.gt or 0) + 1),
    inspect.DateTimeType: lambda _: b'"2026-01-01T00:00:00Z"',
    inspect.TimeDeltaType: lambda _: b'"PT1S"',
    inspect.UUIDType: lambda _: b'"00000000-0000-4000-8000-000000000000"',
    inspect.LiteralType: lambda kind: msgspec.json.encode(kind.values[0]),
    inspect.EnumType: lambda kind: msgspec.json.encode(next(iter(kind.cls))),
    inspect.DictType: lambda kind: b"{%b:%b}" % (_HOLE, make(kind.value_type)),
    inspect.ListType: lambda kind: b"[%b]" % make(kind.item_type),
    inspect.VarTupleType: lambda kind: b"[%b]" % make(kind.item_type),
    inspect.TupleType: lambda kind: b"[%b]" % b",".join(map(make, kind.item_types)),
    inspect.NamedTupleType: lambda kind: (
        b"[%b]" % b",".join(make(field.type) for field in kind.fields)
    ),
    inspect.DataclassType: lambda kind: make_object(kind.fields),
    inspect.TypedDictType: lambda kind: make_object(kind.fields),
    inspect.Metadata: lambda kind: make(kind.type),
    inspect.CustomType: lambda _: _HOLE,
}


def make(kind: inspect.Type) -> bytes:
    """Return JSON of a kind, with all that may be in it, and a hole for each text."""
    if isinstance(kind, inspect.UnionType):
        rest = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        return make(next((each for each in rest if type(each) is not inspect.CustomType), rest[0]))
    if isinstance(kind, inspect.StructType):
        tag = {} if kind.tag_field is None else {kind.tag_field: kind.tag}
        return make_object(kind.fields, [msgspec.json.encode(tag)[1:-1]] if tag else [])
    return _MAKERS[type(kind)](kind)


def make_object(fields: Iterable[inspect.Field], members: Iterable[bytes] = ()) -> bytes:
    named = [b'"%b":%b' % (field.encode_name.encode(), make(field.type)) for field in fields]
    return b"{%b}" % b",".join([*members, *named])
