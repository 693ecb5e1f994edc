"""The parent of several server processes survives the death of any of them."""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

import msgspec
import uvloop

from laneway.gateway.settings import GatewaySettings
from laneway.gateway.targets import Callback, Target
from laneway.server.settings import ServerSettings
from laneway.server.supervision import Orders, _start

if TYPE_CHECKING:
    import pytest


def test_worker_that_dies_before_its_input_is_written_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    async def start_often(orders: Orders) -> None:
        # The pipe closes before or after the orders are written: both happen in this many tries.
        for _ in range(200):
            process = await _start(orders)
            assert await process.wait() == 1

    with tempfile.TemporaryFile() as sheet:
        orders = Orders(
            dsn="", settings=ServerSettings(), listeners=(), sheet=sheet.fileno(), worker=0
        )
        uvloop.run(start_often(orders))


def test_worker_reads_the_orders_that_its_parent_writes() -> None:
    target = Target(
        name="pay",
        kind="http",
        urls=("http://127.0.0.1/pay",),
        headers=(("authorization", "secret"),),
        permanent_statuses=frozenset({402}),
        callback=Callback(url="http://127.0.0.1/done", secrets=("secret",)),
        options={"statuses": {"paid": "confirmed"}},
    )
    settings = ServerSettings(gateway=GatewaySettings(targets=(target,)))
    orders = Orders(dsn="", settings=settings, listeners=(3,), sheet=4, worker=1)
    assert msgspec.json.decode(msgspec.json.encode(orders), type=Orders) == orders
