"""The event loop reports no error that a caller has already got, or gave up on."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from laneway.domain.loops import fail, ignore_lost_connections


async def test_error_of_a_cancelled_call_is_not_reported() -> None:
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    future: asyncio.Future[None] = loop.create_future()
    fail(future, ConnectionError("lost"))
    del future
    gc.collect()
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert reported == []


async def test_lost_connections_are_not_reported(caplog: Any) -> None:
    loop = asyncio.get_running_loop()
    ignore_lost_connections(loop)
    lost = {"message": "Fatal error on transport", "exception": OSError(110, "timed out")}
    loop.call_exception_handler({**lost, "transport": object()})
    assert caplog.text == ""
    loop.call_exception_handler({"message": "a bug", "exception": ValueError("wrong")})
    loop.set_exception_handler(None)
    assert "a bug" in caplog.text
