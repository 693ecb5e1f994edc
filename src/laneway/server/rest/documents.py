"""The routes of the OpenAPI document and the reference page."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from laneway.server.access import nothing
from laneway.server.compression import accepts_gzip
from laneway.server.openapi import make_document
from laneway.server.operations import Media, Operation, Response
from laneway.server.responses import JSON, Answer, encode

if TYPE_CHECKING:
    from laneway.server.calls import Call
    from laneway.server.router import Route

_PAGE = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Laneway API</title>
</head>
<body>
<script id="api-reference" data-url="doc" data-configuration='{"withDefaultFonts":false,
 "telemetry":false,"agent":{"disabled":true},"showDeveloperTools":"never"}'></script>
<script src="reference/scalar.js"></script>
</body>
</html>
"""

# The page may send requests to this server only.
_POLICY = (
    b"content-security-policy",
    (
        b"default-src 'self'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
        b"frame-ancestors 'none'"
    ),
)


class Page(NamedTuple):
    """A document, plain and compressed; all answers share it."""

    plain: bytes
    packed: bytes

    def answer(
        self, call: Call[None, None], content_type: bytes, *headers: tuple[bytes, bytes]
    ) -> Answer:
        headers = (*headers, (b"vary", b"Accept-Encoding"))
        if not accepts_gzip(call.request.headers):
            return Answer(200, self.plain, content_type=content_type, headers=headers)
        headers = (*headers, (b"content-encoding", b"gzip"))
        return Answer(200, self.packed, content_type=content_type, headers=headers)


async def show_openapi(call: Call[None, None]) -> Answer:
    highest = call.service.settings.priority_levels - 1
    return _write_document(call.service.routes, highest).answer(call, JSON)


async def show_reference(_: Call[None, None]) -> Answer:
    return Answer(200, _PAGE, content_type=b"text/html; charset=utf-8", headers=(_POLICY,))


async def show_script(call: Call[None, None]) -> Answer:
    cached = (b"cache-control", b"public, max-age=86400")
    return _read_script().answer(call, b"text/javascript; charset=utf-8", cached)


@cache
def _write_document(routes: tuple[Route, ...], highest_priority: int) -> Page:
    plain = encode(
        make_document(
            routes, version=version("laneway"), limits={"highest_priority": highest_priority}
        )
    )
    return Page(plain, gzip.compress(plain, mtime=0))


@cache
def _read_script() -> Page:
    packed = files("laneway.server").joinpath("static/scalar.js.gz").read_bytes()
    return Page(gzip.decompress(packed), packed)


OPERATIONS = (
    *(
        Operation(
            method="GET",
            path=path,
            handler=show_openapi,
            summary="Show this OpenAPI document",
            description=(
                "Returns the description of every operation in OpenAPI 3.1. It is generated "
                "from the declarations that the server itself decodes requests with. It needs "
                "no API key."
            ),
            answers={200: Response(Media("application/json"), "The OpenAPI document.")},
            role=None,
            reach=nothing,
            kind="document",
            hidden=path != "/doc",
            tag="documents",
        )
        for path in ("/doc", "/docs")
    ),
    Operation(
        method="GET",
        path="/reference",
        handler=show_reference,
        summary="Show the API reference page",
        description=(
            "Returns an HTML page that shows this document and can send requests to this "
            "server. It loads nothing from other hosts."
        ),
        answers={200: Response(Media("text/html"), "The page.")},
        role=None,
        reach=nothing,
        kind="document",
        tag="documents",
    ),
    Operation(
        method="GET",
        path="/reference/scalar.js",
        handler=show_script,
        summary="Load the script of the API reference page",
        description="Returns the script that the reference page runs.",
        answers={200: Response(Media("text/javascript"), "The script.")},
        role=None,
        reach=nothing,
        kind="document",
        hidden=True,
        tag="documents",
    ),
)
