"""Handles orders, and starts a workflow for each: python worker.py postgresql://… (or http://…)."""

from __future__ import annotations

import sys
from datetime import timedelta

import laneway

app = laneway.App(sys.argv[1])


@app.handler("orders", concurrency=5, retry=laneway.Retry(max_attempts=3))
async def handle(message: laneway.Message) -> None:
    # With a run id, handling an order twice starts one run.
    await app.connection.start("checkout", message.payload, run_id=f"order-{message.payload['id']}")


@laneway.step
async def charge(order: dict[str, int]) -> str:
    print(f"charging {order['total']} for order {order['id']}", flush=True)
    return f"receipt-{order['id']}"


@app.workflow()
async def checkout(order: dict[str, int]) -> str:
    receipt = await charge(order)
    await laneway.sleep(timedelta(seconds=0.1))
    print(f"order {order['id']} is done: {receipt}", flush=True)
    return receipt


if __name__ == "__main__":
    app.run()
