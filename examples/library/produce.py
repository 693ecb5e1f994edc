"""Enqueues orders: python produce.py postgresql://… (or http://…)."""

from __future__ import annotations

import asyncio
import sys

import laneway


async def main(address: str) -> None:
    async with laneway.connect(address) as broker:
        await broker.install()
        await broker.admin.create_queue("orders", exist_ok=True)
        producer = broker.producer(
            "orders", rules=laneway.PayloadRules(required_keys=frozenset({"id"}))
        )
        ids = await producer.batch_enqueue(
            {"id": number, "total": 10 * number} for number in range(5)
        )
        print(f"pushed {ids[0]} to {ids[-1]}")


asyncio.run(main(sys.argv[1]))
