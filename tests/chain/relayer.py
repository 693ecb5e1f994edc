"""A relayer with the HTTP API of OpenZeppelin Relayer, as a program: it signs, and submits to a chain.

Its argument is JSON: port, rpc_url, private_key, relayer_id, api_key, and journal, a file from which
a relayer that starts again knows what it has accepted. Under /test are faults on command, and what
it has done.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
from aiohttp import web
from eth_account import Account

SPEEDS = {"safeLow", "average", "fast", "fastest"}
FINAL = {"confirmed", "failed"}
_U64 = 2**64


class ChainError(Exception):
    pass


class Relayer:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._account = Account.from_key(settings["private_key"])
        self._journal = Path(settings["journal"])
        self._transactions: dict[str, dict[str, Any]] = {}
        # Ids by idempotency key.
        self._keys: dict[str, str] = {}
        self._calls = 0
        self._notices: list[dict[str, str]] = []
        # What the test has set: paused, held, die, refuse, webhook_url, webhook_key.
        self._wishes: dict[str, Any] = {}
        self._free = asyncio.Event()
        self._free.set()
        self._order = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        if self._journal.exists():
            for line in self._journal.read_text().splitlines():
                entry = json.loads(line)
                self._transactions[entry["data"]["id"]] = entry["data"]
                self._keys[entry["key"]] = entry["data"]["id"]

    def make_application(self) -> web.Application:
        place = f"/api/v1/relayers/{self._settings['relayer_id']}"
        application = web.Application(middlewares=[self._authorize])
        application.add_routes(
            [
                web.post(f"{place}/transactions", self._accept),
                web.get(f"{place}/transactions/{{id}}", self._show),
                web.get(f"{place}/status", self._show_status),
                web.get("/lookup/{key}", self._look_up),
                web.post("/test/wishes", self._set_wishes),
                web.get("/test/done", self._show_done),
            ]
        )
        application.cleanup_ctx.append(self._run)
        return application

    async def _run(self, _: web.Application) -> Any:
        async with aiohttp.ClientSession() as self._http:
            # Those that another process has begun.
            for data in self._transactions.values():
                if data["status"] not in FINAL:
                    self._start(data)
            yield
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Any) -> web.StreamResponse:
        wanted = f"Bearer {self._settings['api_key']}"
        if request.path.startswith("/api") and request.headers.get("authorization") != wanted:
            return _refuse(401, "Unauthorized")
        response: web.StreamResponse = await handler(request)
        return response

    async def _accept(self, request: web.Request) -> web.Response:
        self._calls += 1
        if refusal := self._wishes.get("refuse"):
            return _refuse(*refusal)
        if self._wishes.get("paused"):
            return _refuse(403, "Relayer is paused")
        body = await request.json()
        if problem := _check(body):
            return _refuse(400, problem)
        data = {
            "id": str(uuid4()),
            "hash": None,
            "status": "pending",
            "status_reason": None,
            "created_at": _now(),
            "sent_at": None,
            "confirmed_at": None,
            "gas_limit": body.get("gas_limit"),
            "value": str(_read_number(body["value"])),
            "from": self._account.address,
            "to": body["to"],
            "data": body["data"],
            "relayer_id": self._settings["relayer_id"],
            "speed": body["speed"],
        }
        self._transactions[data["id"]] = data
        self._keys[request.headers["idempotency-key"]] = data["id"]
        self._write(request.headers["idempotency-key"], data)
        task = self._start(data)
        if self._wishes.get("die"):
            await task
            self._write(request.headers["idempotency-key"], data)
            os.kill(os.getpid(), signal.SIGKILL)
        return _answer(data, 201)

    async def _show(self, request: web.Request) -> web.Response:
        data = self._transactions.get(request.match_info["id"])
        return _refuse(404, "Transaction not found") if data is None else _answer(data)

    async def _show_status(self, _: web.Request) -> web.Response:
        open_ones = [each for each in self._transactions.values() if each["status"] not in FINAL]
        return _answer(
            {
                "network_type": "evm",
                "balance": "1",
                "nonce": "0",
                "pending_transactions_count": len(open_ones),
                "paused": bool(self._wishes.get("paused")),
                "system_disabled": bool(self._wishes.get("disabled")),
            }
        )

    async def _look_up(self, request: web.Request) -> web.Response:
        known = self._keys.get(request.match_info["key"])
        return _refuse(404, "unknown") if known is None else _answer(self._transactions[known])

    async def _set_wishes(self, request: web.Request) -> web.Response:
        self._wishes |= await request.json()
        if self._wishes.get("held"):
            self._free.clear()
        else:
            self._free.set()
        return web.json_response({})

    async def _show_done(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "calls": self._calls,
                "transactions": list(self._transactions.values()),
                "notices": self._notices,
            }
        )

    def _start(self, data: dict[str, Any]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._relay(data))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _relay(self, data: dict[str, Any]) -> None:
        await self._free.wait()
        try:
            if data["hash"] is None:
                async with self._order:
                    await self._submit(data)
            receipt = await self._ask("eth_getTransactionReceipt", data["hash"])
        except ChainError as error:
            await self._change(data, status="failed", status_reason=str(error))
            return
        await self._change(data, status="mined")
        if receipt["status"] == "0x1":
            await self._change(data, status="confirmed", confirmed_at=_now())
        else:
            await self._change(data, status="failed", status_reason="execution reverted")

    async def _submit(self, data: dict[str, Any]) -> None:
        address = self._account.address
        call = {"from": address, "to": data["to"], "data": data["data"]}
        call["value"] = hex(int(data["value"]))
        gas = data["gas_limit"] or int(await self._ask("eth_estimateGas", call), 16)
        signed = self._account.sign_transaction(
            {
                "to": bytes.fromhex(data["to"].removeprefix("0x")),
                "data": data["data"],
                "value": int(data["value"]),
                "gas": gas,
                "gasPrice": int(await self._ask("eth_gasPrice"), 16),
                "nonce": int(await self._ask("eth_getTransactionCount", address, "pending"), 16),
                "chainId": int(await self._ask("eth_chainId"), 16),
            }
        )
        raw = "0x" + bytes(signed.raw_transaction).hex()
        data["hash"] = "0x" + bytes(signed.hash).hex()
        # The node mines at once, and also reports here that the transaction was reverted.
        with suppress(ChainError):
            await self._ask("eth_sendRawTransaction", raw)
        await self._change(data, status="submitted", sent_at=_now())

    async def _ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self._http.post(self._settings["rpc_url"], json=question) as response:
            answer = await response.json()
        if "error" in answer:
            raise ChainError(answer["error"]["message"])
        return answer["result"]

    async def _change(self, data: dict[str, Any], **fields: str) -> None:
        data |= fields
        url = self._wishes.get("webhook_url")
        if url is None:
            return
        notice = {
            "id": str(uuid4()),
            "event": "transaction_update",
            "payload": {"payload_type": "transaction", **data},
            "timestamp": _now(),
        }
        body = json.dumps(notice)
        digest = hmac.digest(self._wishes["webhook_key"].encode(), body.encode(), hashlib.sha256)
        signature = base64.b64encode(digest).decode()
        self._notices.append({"body": body, "signature": signature})
        headers = {"content-type": "application/json", "x-signature": signature}
        # The gateway may not have stored the id yet. A relayer tells again, too.
        for _ in range(100):
            async with self._http.post(url, data=body, headers=headers) as response:
                if response.ok:
                    return
            await asyncio.sleep(0.1)

    def _write(self, key: str, data: dict[str, Any]) -> None:
        with self._journal.open("a") as file:
            file.write(json.dumps({"key": key, "data": data}) + "\n")


def _check(body: Any) -> str | None:
    """Return what is wrong with a request, read as strictly as the relayer reads it."""
    if not isinstance(body, dict) or body.keys() - {"to", "data", "value", "gas_limit", "speed"}:
        return "unknown fields"
    gas = body.get("gas_limit", 21_000)
    if type(gas) is not int or not 0 <= gas < _U64:
        return "gas_limit is not a u64"
    if _read_number(body.get("value")) is None:
        return "value is not a U256"
    if body.get("speed") not in SPEEDS:
        return "speed is missing or unknown"
    return None


def _read_number(value: Any) -> int | None:
    """Return a number of 256 bits: a string, or a number of JSON that is not rounded."""
    number = int(value, 0) if isinstance(value, str) else value
    if type(number) is not int or not 0 <= number < (2**256 if isinstance(value, str) else _U64):
        return None
    return number


def _answer(data: Any, status: int = 200) -> web.Response:
    return web.json_response({"success": True, "data": data, "error": None}, status=status)


def _refuse(status: int, error: str) -> web.Response:
    return web.json_response({"success": False, "data": None, "error": error}, status=status)


def _now() -> str:
    return datetime.now(UTC).isoformat()


async def main() -> None:
    settings = json.loads(sys.argv[1])
    runner = web.AppRunner(Relayer(settings).make_application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", settings["port"])
    await site.start()
    port = runner.addresses[0][1]
    print(f"The relayer listens on http://127.0.0.1:{port}", flush=True)  # noqa: T201 - a program
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
