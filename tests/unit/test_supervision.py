"""The parent of several server processes survives the death of any of them."""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

import uvloop

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
