"""A target of the gateway in a process of its own, which keeps a record of all that it receives.

POST /submit/TARGET  record a submission, then answer; later if answers are held
GET /known/KEY       show the submission with this idempotency key, or answer 404
POST /hook           verify and record a webhook
GET /records         show every record, in order
POST /hold           hold the answers to submissions from now on
POST /release        send the answers that are held, and hold no more
GET /held?at_least=N answer once so many submissions are held
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

# The longest that an answer takes, in seconds.
SLOWEST = 0.1


class Target:
    """Appends each record to a file before it answers."""

    def __init__(self, file: Path, secret: str) -> None:
        self._file = file.open("a", encoding="utf-8")
        self._webhook = Webhook(secret)
        self._records: list[dict[str, Any]] = []
        self._known: set[str] = set()
        self._free = asyncio.Event()
        self._free.set()
        self._held = 0
        self._changed = asyncio.Condition()

    def make_application(self) -> web.Application:
        application = web.Application()
        application.add_routes(
            [
                web.post("/submit/{target}", self.submit),
                web.get("/known/{key}", self.find),
                web.post("/hook", self.hear),
                web.get("/records", self.show),
                web.post("/hold", self.hold),
                web.post("/release", self.release),
                web.get("/held", self.wait_until_held),
            ]
        )
        return application

    async def submit(self, request: web.Request) -> web.Response:
        key = request.headers["idempotency-key"]
        body = await request.text()
        target = request.match_info["target"]
        self._record({"kind": "submission", "key": key, "target": target, "body": body})
        self._known.add(key)
        if not self._free.is_set():
            async with self._changed:
                self._held += 1
                self._changed.notify_all()
            await self._free.wait()
        else:
            await asyncio.sleep(random.uniform(0, SLOWEST))  # noqa: S311 - no secret
        return web.json_response({"status": "success"})

    async def find(self, request: web.Request) -> web.Response:
        if request.match_info["key"] not in self._known:
            raise web.HTTPNotFound
        return web.json_response({"status": "success"})

    async def hear(self, request: web.Request) -> web.Response:
        body = await request.text()
        try:
            self._webhook.verify(body, dict(request.headers))
        except WebhookVerificationError:
            raise web.HTTPBadRequest from None
        self._record({"kind": "webhook", "id": request.headers["webhook-id"], "body": body})
        return web.Response()

    async def show(self, _: web.Request) -> web.Response:
        return web.json_response(self._records)

    async def hold(self, _: web.Request) -> web.Response:
        self._held = 0
        self._free.clear()
        return web.Response()

    async def release(self, _: web.Request) -> web.Response:
        self._free.set()
        return web.Response()

    async def wait_until_held(self, request: web.Request) -> web.Response:
        wanted = int(request.query["at_least"])
        async with self._changed:
            await self._changed.wait_for(lambda: self._held >= wanted)
        return web.Response()

    def _record(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._records.append(record)


async def main(file: Path, secret: str) -> None:
    runner = web.AppRunner(Target(file, secret).make_application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201 - read by the test
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
