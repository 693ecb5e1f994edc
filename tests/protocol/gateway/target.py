"""An HTTP API in a process of its own, with faults on command: what tests have the gateway call.

POST /ANYTHING answers as the request says: its field "answers" is a list of answers, of which the
call number n with one idempotency key gets the nth, and later calls the last one. For a path that
was scripted (POST /control/script/PATH), the script counts instead. An answer is an object:

status, headers, body: of the answer; body is sent as it is if it is text, else as JSON.
size: the body is that many bytes. drop: the connection is closed without an answer. raw: this text
is sent instead of HTTP. hold: the answer waits for POST /control/release/NAME.

GET /control/calls/PATH?count=N waits for N calls of a path, and returns them; with key=KEY, those
with this idempotency key.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from time import monotonic
from typing import Any

from aiohttp import web

OK = {"status": 200, "body": {"ok": True}}


class FaultyTarget:
    def __init__(self) -> None:
        self._calls: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._seen: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._scripts: dict[str, list[dict[str, Any]]] = {}
        self._released: set[str] = set()
        self._now: defaultdict[str, int] = defaultdict(int)
        self._most: defaultdict[str, int] = defaultdict(int)
        self._changed = asyncio.Condition()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        path = request.path
        key = request.headers.get("idempotency-key", "")
        self._seen[path, key] += 1
        self._now[path] += 1
        self._most[path] = max(self._most[path], self._now[path])
        async with self._changed:
            self._calls[path].append(
                {
                    "method": request.method,
                    "headers": {name.lower(): value for name, value in request.headers.items()},
                    "body": text,
                    "at": monotonic(),
                    "peer": request.transport and request.transport.get_extra_info("peername")[1],
                }
            )
            self._changed.notify_all()
        try:
            return await self._answer(request, self._choose(path, key, text))
        finally:
            self._now[path] -= 1

    def _choose(self, path: str, key: str, text: str) -> dict[str, Any]:
        if path in self._scripts:
            script, number = self._scripts[path], len(self._calls[path])
        else:
            try:
                script = json.loads(text)["answers"]
            except (ValueError, TypeError, KeyError):
                script = [OK]
            number = self._seen[path, key]
        return script[min(number, len(script)) - 1]

    async def _answer(self, request: web.Request, answer: dict[str, Any]) -> web.StreamResponse:
        if name := answer.get("hold"):
            async with self._changed:
                await self._changed.wait_for(lambda: name in self._released)
        transport = request.transport
        if answer.get("drop") or "raw" in answer:
            if transport is not None:
                transport.write(answer.get("raw", "").encode())
                transport.close()
            return web.Response()
        body = answer.get("body", "")
        if "size" in answer:
            body = "x" * answer["size"]
        return web.Response(
            status=answer.get("status", 200),
            headers=answer.get("headers"),
            text=body if isinstance(body, str) else json.dumps(body),
            content_type="application/json",
        )

    async def show_calls(self, request: web.Request) -> web.Response:
        path, count = f"/{request.match_info['path']}", int(request.query.get("count", "0"))
        key = request.query.get("key")

        def find() -> list[dict[str, Any]]:
            return [
                call
                for call in self._calls[path]
                if key is None or call["headers"].get("idempotency-key") == key
            ]

        async with self._changed:
            await self._changed.wait_for(lambda: len(find()) >= count)
        return web.json_response({"calls": find(), "most": self._most[path]})

    async def script(self, request: web.Request) -> web.Response:
        self._scripts[f"/{request.match_info['path']}"] = await request.json()
        return web.Response()

    async def release(self, request: web.Request) -> web.Response:
        async with self._changed:
            self._released.add(request.match_info["name"])
            self._changed.notify_all()
        return web.Response()


def make_application() -> web.Application:
    target = FaultyTarget()
    application = web.Application()
    application.router.add_get("/control/calls/{path:.*}", target.show_calls)
    application.router.add_post("/control/script/{path:.*}", target.script)
    application.router.add_post("/control/release/{name}", target.release)
    application.router.add_route("*", "/{path:.*}", target.answer)
    return application


async def main() -> None:
    runner = web.AppRunner(make_application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site.port, flush=True)  # noqa: T201 - the test reads it
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
