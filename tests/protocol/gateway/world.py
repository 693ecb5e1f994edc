"""A gateway server and its target, and what tests ask of both."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.protocol.servers import RunningServer

# Secrets of webhooks: of the target's own, and two that clients know.
INBOUND = ("old-secret-of-the-target", "new-secret-of-the-target")
OUTBOUND = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + "QUJD" * 10)

SCHEMA = {
    "type": "object",
    "required": ["to", "amount"],
    "properties": {
        "to": {"type": "string", "pattern": "^[a-z]+$"},
        "amount": {"type": "integer", "minimum": 1},
        "items": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": False,
}


@asynccontextmanager
async def run_target() -> AsyncIterator[str]:
    """Start the faulty target in a process of its own; yield its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.protocol.gateway.target", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = (await process.stdout.readline()).decode().strip()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


def write_settings(
    folder: Path, targets: dict[str, dict[str, Any]], **gateway: Any
) -> tuple[str, str]:
    """Write a settings file; return the flags that name it."""
    lines = ["[gateway]", *_write(gateway)]
    for name, values in targets.items():
        tables = {key: value for key, value in values.items() if isinstance(value, dict)}
        plain = {key: value for key, value in values.items() if key not in tables}
        lines += [f"[gateway.targets.{name}]", *_write(plain)]
        for key, table in tables.items():
            lines += [f"[gateway.targets.{name}.{key}]", *_write(table)]
    file = folder / "laneway.toml"
    file.write_text("\n".join(lines))
    return "--config", str(file)


def _write(values: dict[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]


def make_target(target: str, path: str, **more: Any) -> dict[str, Any]:
    """Return a target that retries at once, and whose breaker never opens by itself."""
    return {
        "url": f"{target}/{path}",
        "retry_first_seconds": 0.001,
        "retry_cap_seconds": 0.001,
        "breaker_failures": 10_000,
    } | more


@dataclass(frozen=True)
class World:
    """keys: API keys by the names of who has them; empty: none is needed."""

    server: RunningServer
    dsn: str
    target: str
    keys: dict[str, str]


class Client:
    """A client of the gateway, which also commands the target. Use it as a context."""

    def __init__(self, server: str, target: str, key: str | None = None) -> None:
        headers = {} if key is None else {"X-API-KEY": key}
        self.http = httpx.AsyncClient(base_url=f"{server}/api/v1", headers=headers, timeout=90)
        self._control = httpx.AsyncClient(base_url=f"{target}/control", timeout=90)
        self.target = target

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.http)
            await stack.enter_async_context(self._control)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def send(self, target: str, request: Any = None, **headers: str) -> httpx.Response:
        """Send a request. headers: idempotency_key is Idempotency-Key."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(f"/relay/{target}", json=request or {}, headers=named)

    async def accept(self, target: str, request: Any = None, **headers: str) -> str:
        """Have a request accepted; return the transaction's id."""
        answer = await self.send(target, request, **headers)
        assert answer.status_code == 202, answer.text
        transaction_id: str = answer.json()["transactionId"]
        return transaction_id

    async def result(self, target: str, request: Any = None, **headers: str) -> dict[str, Any]:
        """Send a request and wait for its final status; return the transaction."""
        answer = await self.send(target, request, prefer="respond-async, wait=60", **headers)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def status(self, transaction_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"/relay/status/{transaction_id}")
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def until(self, transaction_id: str, status: str) -> dict[str, Any]:
        """Return a transaction once it has this status."""
        async with asyncio.timeout(60):
            while (shown := await self.status(transaction_id))["status"] != status:
                await asyncio.sleep(0.02)
        return shown

    async def calls(
        self, path: str, count: int = 0, *, key: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the target's calls of a path, once there are so many."""
        found: list[dict[str, Any]] = (await self._show(path, count, key))["calls"]
        return found

    async def most_at_once(self, path: str) -> int:
        most: int = (await self._show(path, 0, None))["most"]
        return most

    async def _show(self, path: str, count: int, key: str | None) -> dict[str, Any]:
        query = {"count": str(count)} | ({} if key is None else {"key": key})
        shown: dict[str, Any] = (await self._control.get(f"/calls/{path}", params=query)).json()
        return shown

    async def script(self, path: str, *answers: dict[str, Any]) -> None:
        """Have the target's calls of a path get these answers, in order, and the last from then on."""
        (await self._control.post(f"/script/{path}", json=answers)).raise_for_status()

    async def release(self, name: str) -> None:
        """Have the answers sent that are held under this name."""
        (await self._control.post(f"/release/{name}")).raise_for_status()


def answers(*script: dict[str, Any]) -> dict[str, Any]:
    """Return a request whose calls get these answers, in order."""
    return {"answers": list(script)}


def statuses(*numbers: int) -> Sequence[dict[str, Any]]:
    return [{"status": number} for number in numbers]
