"""A long-running consumer through failures, redrive and restarts; and the server's settings."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg

from tests.postgres import run_server
from tests.protocol.servers import run_laneway
from tests.protocol.sqs.clients import ACCOUNT, REGION, Refusal, bodies, connect, drain

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

    from tests.protocol.conftest import Shared

WORKER = Path(__file__).parents[3] / "examples" / "sqs" / "worker.py"
ROUNDS = ("--overdue-check-interval-ms", "100")


@asynccontextmanager
async def run_worker(url: str, **variables: str) -> AsyncIterator[Process]:
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        **variables,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, WORKER, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def read_until(process: Process, *texts: str) -> None:
    """Wait until each text was said, in any order."""
    assert process.stdout is not None
    wanted = set(texts)
    async with asyncio.timeout(60):
        while wanted:
            line = (await process.stdout.readline()).decode()
            assert line, f"ended without {wanted}"
            wanted = {text for text in wanted if text not in line}


async def test_unreachable_database_is_service_unavailable_until_it_answers() -> None:
    async with run_server() as postgres, run_laneway(postgres.dsn) as running:
        sqs = connect(running.url)
        url = sqs.create_queue(QueueName="away")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="kept")
        [message] = drain(sqs, url, 1)
        handle = message["ReceiptHandle"]
        await postgres.stop()
        async with asyncio.timeout(20), running.client() as plain:
            for call in (
                lambda: sqs.send_message(QueueUrl=url, MessageBody="lost"),
                lambda: sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20),
                lambda: sqs.delete_message(QueueUrl=url, ReceiptHandle=handle),
            ):
                with Refusal() as refusal:
                    await asyncio.to_thread(call)
                assert (refusal.code, refusal.status) == ("ServiceUnavailable", 503)
            form = await plain.post(url, data={"Action": "SendMessage", "MessageBody": "lost"})
            assert form.status_code == 503
            assert "<Code>ServiceUnavailable</Code>" in form.text
        await postgres.start()
        async with asyncio.timeout(30), running.client() as plain:
            while (await plain.get("/health")).status_code != 200:
                await asyncio.sleep(0.05)
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
        assert bodies(drain(sqs, url, 1)) == ["kept"]


async def test_worker_survives_failures_and_a_restart_of_the_server(database: str) -> None:
    async with run_laneway(database, *ROUNDS) as running:
        url = running.url
        sqs = connect(url)
        async with run_worker(url, POISON="poison") as worker:
            await read_until(worker, "working on")
            jobs = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
            dead = sqs.get_queue_url(QueueName="jobs-dead")["QueueUrl"]
            sqs.send_message(QueueUrl=jobs, MessageBody="good 1")
            sent = sqs.send_message(QueueUrl=jobs, MessageBody="poison 1")
            await read_until(worker, "done good 1 (1)", "failed poison 1 (3)")
            found = (await asyncio.to_thread(drain, sqs, dead, 1))[0]
        assert (found["MessageId"], found["Body"]) == (sent["MessageId"], "poison 1")
        sqs.change_message_visibility(
            QueueUrl=dead, ReceiptHandle=found["ReceiptHandle"], VisibilityTimeout=0
        )
        sqs.send_message(QueueUrl=jobs, MessageBody="good 2")
        # The worker that has just ended may have been handed it, and is found gone.
        handed = (await asyncio.to_thread(drain, sqs, jobs, 1))[0]
        await running.stop()
    port = str(urlsplit(url).port)
    async with run_laneway(database, *ROUNDS, "--port", port) as again:
        assert again.url == url
        # Messages in flight before the stop still are, under the same handle.
        sqs.change_message_visibility(
            QueueUrl=jobs, ReceiptHandle=handed["ReceiptHandle"], VisibilityTimeout=0
        )
        arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
        sqs.start_message_move_task(SourceArn=arn["Attributes"]["QueueArn"])
        async with run_worker(url) as worker:
            await read_until(worker, "done good 2 (2)", "done poison 1 (1)")


async def test_second_port_and_other_urls(database: str) -> None:
    flags = ("--sqs-port", "0", "--sqs-url-style", "region")
    more = ("--sqs-account", "111122223333", "--sqs-recreate-seconds", "0", "--workers", "2")
    async with run_laneway(database, *flags, *more) as running:
        second = running.log.partition(" and ")[2].split()[0]
        assert second != running.url
        sqs = connect(second, key="lw", region="eu-west-1")
        url = sqs.create_queue(QueueName="one")["QueueUrl"]
        # The region is the client's, the account the server's, for a key that is none.
        assert url == f"{second}/queue/eu-west-1/111122223333/one"
        sqs.send_message(QueueUrl=url, MessageBody="x")
        first = connect(running.url)
        assert first.list_queues().get("QueueUrls") is None
        assert bodies(drain(first, url, 1)) == ["x"]
        sqs.delete_queue(QueueUrl=url)
        sqs.create_queue(QueueName="one")


async def test_default_queue_appears_when_it_is_first_used(database: str) -> None:
    async with run_laneway(database) as running, running.client() as api:
        sqs = connect(running.url)
        assert "QueueUrls" not in sqs.list_queues()
        await api.post("/queue/message", json={"type": "a", "payload": 1})
        url = f"{running.url}/{ACCOUNT}/default"
        assert sqs.list_queues()["QueueUrls"] == [url]
        assert bodies(drain(sqs, url, 1)) == ["1"]
        # Deleted, it stays so.
        sqs.delete_queue(QueueUrl=url)
        with Refusal() as refusal:
            sqs.send_message(QueueUrl=url, MessageBody="x")
        assert refusal.name == "QueueDoesNotExist"
        assert (await api.get("/queue/message")).status_code == 404


async def test_queue_host_and_in_flight_limit(database: str) -> None:
    flags = ("--sqs-url-style", "host", "--sqs-host", "mq.example:80", "--sqs-in-flight", "3")
    async with run_laneway(database, *flags, "--sqs-purge-seconds", "0") as running:
        sqs = connect(running.url)
        url = sqs.create_queue(QueueName="one")["QueueUrl"]
        assert url == f"http://sqs.{REGION}.mq.example:80/{ACCOUNT}/one"
        url = f"{running.url}/{ACCOUNT}/one"
        for _ in range(5):
            sqs.send_message(QueueUrl=url, MessageBody="x")
        flying = drain(sqs, url, 3)
        with Refusal() as refusal:
            sqs.receive_message(QueueUrl=url)
        assert (refusal.code, refusal.status) == ("OverLimit", 403)
        began = time.monotonic()
        assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=2)
        assert time.monotonic() - began > 1.9  # the whole of it
        # A long poll that is waiting gets a message as soon as there is room.
        poll = asyncio.create_task(
            asyncio.to_thread(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        )
        sqs.delete_message(QueueUrl=url, ReceiptHandle=flying.pop()["ReceiptHandle"])
        assert len((await poll)["Messages"]) == 1
        # Each process accepts the receipt handles of the other.
        async with run_laneway(database, *flags) as other:
            beside = connect(other.url)
            with Refusal() as refusal:
                beside.receive_message(QueueUrl=url)
            assert refusal.code == "OverLimit"
            sqs.delete_message(QueueUrl=url, ReceiptHandle=flying[0]["ReceiptHandle"])
            assert len(beside.receive_message(QueueUrl=url)["Messages"]) == 1
        with Refusal() as refusal:
            sqs.receive_message(QueueUrl=url)
        assert refusal.code == "OverLimit"
        sqs.purge_queue(QueueUrl=url)
        sqs.purge_queue(QueueUrl=url)


async def test_message_past_retention_is_removed(shared: Shared, name: str) -> None:
    sqs = connect(shared.server.url)
    url = sqs.create_queue(QueueName=name, Attributes={"MessageRetentionPeriod": "60"})["QueueUrl"]
    for body in ("old", "new"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    connection = await asyncpg.connect(shared.dsn)
    await connection.execute(
        """
        update laneway.message m set created_at = m.created_at - interval '61 seconds'
          from laneway.lane l join laneway.queue q using (queue_id)
         where m.lane_id = l.lane_id and q.name = $1 and m.seq = 1
        """,
        name,
    )
    await connection.close()
    assert bodies(drain(sqs, url, 1)) == ["new"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
