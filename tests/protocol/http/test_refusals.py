"""Input that is no request, or two at once: refused with one response, and nothing behind it is served."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.protocol.http.servers import CHUNKED, GET, LAST, echo, read_bodies, run_http_server

if TYPE_CHECKING:
    from laneway.server.http import Exchange
    from tests.protocol.http.servers import RunningHttpServer

HEAD = b"POST /outer HTTP/1.1\r\nHost: a\r\n"
SMUGGLED = GET % b"smuggled"
CHUNKS = CHUNKED % b"outer"

MALFORMED = {
    "nonsense": b"nonsense\r\n\r\n",
    "no method": b" / HTTP/1.1\r\nHost: a\r\n\r\n",
    "unknown method": b"FETCH / HTTP/1.1\r\nHost: a\r\n\r\n",
    "method in lower case": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "tabs in the first line": b"GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n",
    "space in the address": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "address that is not ASCII": b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "no version": b"GET / HTTPS\r\n\r\n",
    "unknown version": b"GET / HTTP/1.2\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "CONNECT": b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "no host": b"POST /outer HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "two hosts": HEAD + b"Content-Length: 0\r\nHost: b\r\n\r\n",
    "the same host twice": HEAD + b"Content-Length: 0\r\nhost: a\r\n\r\n",
    "two hosts in HTTP/1.0": b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
    "two hosts and upgrade": HEAD
    + b"Connection: upgrade\r\nUpgrade: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
    "line ends without CR": b"GET / HTTP/1.1\nHost: a\n\n",
    "header end without CR": HEAD + b"X-A: a\nX-B: b\r\n\r\n",
    "last line end without CR": HEAD + b"X-A: a\r\n\n",
    "CR alone": HEAD + b"X-A: a\rX-B: b\r\n\r\n",
    "NUL in a header": HEAD + b"X-A: a\x00b\r\n\r\n",
    "header without a name": HEAD + b": a\r\n\r\n",
    "header without a colon": HEAD + b"X-A\r\n\r\n",
    "space before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "folded header": HEAD + b"X-A: a\r\n b\r\n\r\n",
    "folded framing": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "fold after the first line": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "length and chunks": HEAD + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n",
    "length twice": HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "list of lengths": HEAD + b"Content-Length: 5, 5\r\n\r\nhello",
    "length with a sign": HEAD + b"Content-Length: +5\r\n\r\nhello",
    "negative length": HEAD + b"Content-Length: -5\r\n\r\nhello",
    "hexadecimal length": HEAD + b"Content-Length: 0x5\r\n\r\nhello",
    "empty length": HEAD + b"Content-Length: \r\n\r\nhello",
    "length beyond 64 bits": HEAD + b"Content-Length: 18446744073709551621\r\n\r\nhello",
    "unknown transfer encoding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity": HEAD + b"Transfer-Encoding: identity\r\n\r\n",
    "chunked is not last": HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "unknown transfer encoding and upgrade": HEAD
    + b"Connection: upgrade\r\nUpgrade: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "chunked twice": HEAD + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
    "chunked behind a control": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunk size of no digits": CHUNKS + b"zz\r\n\r\n",
    "negative chunk size": CHUNKS + b"-1\r\n\r\n",
    "chunk size with a prefix": CHUNKS + b"0x5\r\nhello\r\n0\r\n\r\n",
    "chunk size and a space": CHUNKS + b"5 \r\nhello\r\n0\r\n\r\n",
    "chunk size beyond 64 bits": CHUNKS + b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "chunk size without CR": CHUNKS + b"5\nhello\r\n0\r\n\r\n",
    "chunk extension without CR": CHUNKS + b"5;a\nhello\r\n0\r\n\r\n",
    "chunk longer than its size": CHUNKS + b"3\r\nhello\r\n0\r\n\r\n",
    "chunk without its end": CHUNKS + b"5\r\nhello0\r\n\r\n",
    "length among the trailers": CHUNKS + b"0\r\nContent-Length: 5\r\n\r\n",
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
async def test_malformed_request_is_400(
    http: RunningHttpServer, sent: bytes, *, split: bool
) -> None:
    whole = sent + SMUGGLED
    pieces = [whole[place : place + 1] for place in range(len(whole))] if split else [whole]
    said = await http.talk(*pieces)
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert head.endswith(b"connection: close")
    assert json.loads(body) == {"message": "Bad Request - not a valid HTTP/1.1 request"}
    # Where the body is malformed, the application may have been called for the request itself.
    assert http.targets in ([], ["POST /outer"])


async def test_request_behind_a_refused_one_is_not_served(http: RunningHttpServer) -> None:
    async with http.connect() as client:
        await client.send(GET % b"a")
        assert (await client.read_response()).endswith(b"GET /a? ")
        await client.send(b"nonsense\r\n\r\n" + SMUGGLED)
        assert (await client.reader.read()).startswith(b"HTTP/1.1 400 ")
    assert http.targets == ["GET /a"]


async def test_refusal_does_not_overtake_earlier_responses() -> None:
    async def wait(exchange: Exchange) -> None:
        await exchange.wait_until_lost()

    async with run_http_server(wait) as http:
        assert await http.talk(GET % b"a" + b"nonsense\r\n\r\n") == b""
        assert await http.talk(GET % b"a" + GET % b"b" + b"nonsense\r\n\r\n") == b""
    assert all(exchange.lost for exchange in http.exchanges)


async def test_smuggled_request_in_a_body_stays_a_body(http: RunningHttpServer) -> None:
    said = await http.talk(HEAD + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED + LAST)
    assert read_bodies(said) == [b"POST /outer? " + SMUGGLED, b"GET /last? "]


LONG = b"x" * 40_000


async def test_headers_beyond_the_limit_in_one_read_are_431(http: RunningHttpServer) -> None:
    said = await http.talk(
        b"GET /a HTTP/1.1\r\nHost: a\r\nX-Long: " + LONG + b"\r\n\r\n" + SMUGGLED
    )
    assert said.startswith(b"HTTP/1.1 431 ")
    assert http.targets == []


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + LONG,
        b"GET /a HTTP/1.1\r\nHost: a\r\nX-Long: " + LONG,
        b"GET /a HTTP/1.1\r\nHost: a\r\nX-Long: " + LONG + b"\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
        b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: a\r\nX: "
        + LONG
        + b"\r\n\r\n",
        CHUNKS + b"0\r\nX-Trailer: " + LONG,
        CHUNKS + b"0\r\n" + b"X: y\r\n" * 10_000,
        CHUNKS + b"5;extension=" + LONG,
    ],
    ids=[
        "address",
        "incomplete header",
        "header",
        "many headers",
        "upgrade",
        "trailer",
        "many trailers",
        "chunk extension",
    ],
)
async def test_headers_beyond_the_limit_are_431(http: RunningHttpServer, sent: bytes) -> None:
    said = await http.talk(*(sent[place : place + 1000] for place in range(0, len(sent), 1000)))
    assert said.startswith(b"HTTP/1.1 431 ")
    assert said.count(b"HTTP/1.1") == 1


async def test_headers_of_a_pipelined_request_have_the_same_limit(
    http: RunningHttpServer,
) -> None:
    said = await http.talk(
        GET % b"a" + b"GET /b HTTP/1.1\r\nHost: a\r\nX-Long: " + LONG + b"\r\n\r\n"
    )
    assert http.targets in ([], ["GET /a"])
    assert b"/b" not in said


async def test_large_bodies_do_not_count_as_headers() -> None:
    async with run_http_server(echo) as http:
        chunk = b"%x\r\n%b\r\n" % (len(LONG), LONG)
        said = await http.talk(CHUNKS + chunk * 10 + b"0\r\n\r\n" + GET % b"a" + LAST)
    assert [len(body) for body in read_bodies(said)] == [400_013, 8, 11]
