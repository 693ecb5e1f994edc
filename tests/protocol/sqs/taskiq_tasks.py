"""A taskiq broker and worker in one process: sends itself a task and waits for its result."""

from __future__ import annotations

import asyncio
import os
import sys

from taskiq.api import run_receiver_task
from taskiq_aio_sqs import SQSBroker

broker = SQSBroker(
    os.environ["QUEUE"],
    endpoint_url=os.environ["AWS_ENDPOINT_URL"],
    aws_access_key_id="any",
    aws_secret_access_key="any",  # noqa: S106 - none is asked for
    wait_time_seconds=1,
    max_number_of_messages=10,
)
finished = asyncio.Event()


@broker.task
async def add(a: int, b: int) -> None:
    sys.stdout.write(f"{a} + {b} = {a + b}\n")
    finished.set()


async def main() -> None:
    await broker.startup()
    receiver = asyncio.create_task(run_receiver_task(broker))
    await add.kiq(2, 3)
    await finished.wait()
    # Acknowledged after the task has ended.
    await asyncio.sleep(0.5)
    receiver.cancel()
    await asyncio.gather(receiver, return_exceptions=True)
    await broker.shutdown()


asyncio.run(main())
