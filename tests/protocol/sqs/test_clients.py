"""Unmodified SQS clients: aws-cli, the AWS SDK for Node.js, Celery, taskiq."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.sqs.clients import connect

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.conftest import Shared

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "sqs"
CLIENTS = ROOT / ".venv-clients" / "bin"


@pytest.fixture(scope="module")
def installed() -> None:
    if not (CLIENTS / "celery").exists() or not (EXAMPLES / "node" / "node_modules").exists():
        pytest.fail("the clients are not on this machine: run tests/install/sqs-clients")


@pytest.fixture
def plain(shared: Shared) -> SQSClient:
    return connect(shared.server.url)


@asynccontextmanager
async def start(
    shared: Shared, *command: str | Path, stderr: int | None = None, **variables: str
) -> AsyncIterator[Process]:
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": shared.server.url,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "LANEWAY": shared.server.url.removeprefix("http://"),
        **variables,
    }
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=EXAMPLES,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def read_until(process: Process, text: str) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while text.encode() not in (line := await process.stdout.readline()):
            assert line, f"ended without {text!r}"


def count(sqs: SQSClient, queue: str) -> int:
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return int(shown["ApproximateNumberOfMessages"]) + int(
        shown["ApproximateNumberOfMessagesNotVisible"]
    )


async def wait_until_settled(sqs: SQSClient, queue: str) -> None:
    async with asyncio.timeout(30):
        while await asyncio.to_thread(count, sqs, queue):
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("installed")
async def test_node_sends_and_receives_with_its_checks_on(shared: Shared, name: str) -> None:
    node = shutil.which(os.environ.get("LANEWAY_NODE", "node"))
    assert node is not None, "run tests/install/node"
    async with start(shared, node, "node/example.mjs", name) as process:
        output, _ = await process.communicate()
    assert json.loads(output) == {
        "queue": f"{shared.server.url}/000000000000/{name}",
        "bodies": ["message 1", "message 2", "message 3", 'snö ☃ "quoted"\n'],
        "sent": 4,
        "kind": "greeting",
        "blob": [0, 255, 7],
        "deleted": 4,
    }


@pytest.mark.usefixtures("installed")
async def test_aws_cli_works(shared: Shared, name: str) -> None:
    async def ask(*words: str) -> tuple[int, Any]:
        """Return the exit code and the answer, or the error."""
        command: list[str | Path] = [CLIENTS / "aws", "--endpoint-url", shared.server.url]
        command += ["sqs", *words]
        settings = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_DEFAULT_OUTPUT": "json"}
        async with start(shared, *command, stderr=asyncio.subprocess.PIPE, **settings) as process:
            output, errors = await process.communicate()
        assert process.returncode is not None
        return process.returncode, json.loads(output or "null") or errors.decode()

    _, made = await ask("create-queue", "--queue-name", name, "--attributes", "DelaySeconds=0")
    url = made["QueueUrl"]
    of_queue = ("--queue-url", url)
    attributes = json.dumps({"kind": {"DataType": "String", "StringValue": "a"}})
    _, sent = await ask(
        "send-message", *of_queue, "--message-body", "one", "--message-attributes", attributes
    )
    entries = json.dumps([{"Id": "a", "MessageBody": "two"}, {"Id": "b", "MessageBody": ""}])
    _, batch = await ask("send-message-batch", *of_queue, "--entries", entries)
    assert [entry["Id"] for entry in batch["Successful"]] == ["a"]
    assert [entry["Code"] for entry in batch["Failed"]] == ["EmptyValue"]
    _, received = await ask(
        "receive-message", *of_queue, "--attribute-names", "All",
        "--message-attribute-names", "k.*", "--max-number-of-messages", "1",
    )  # fmt: skip
    message = received["Messages"][0]
    assert message["MessageId"] == sent["MessageId"]
    assert message["MessageAttributes"]["kind"]["StringValue"] == "a"
    of_message = (*of_queue, "--receipt-handle", message["ReceiptHandle"])
    assert await ask("delete-message", *of_message) == (0, "")
    code, error = await ask("change-message-visibility", *of_message, "--visibility-timeout", "9")
    assert code != 0
    assert "(InvalidParameterValue) when calling the ChangeMessageVisibility operation" in error
    _, shown = await ask("get-queue-attributes", *of_queue, "--attribute-names", "All")
    assert shown["Attributes"]["ApproximateNumberOfMessages"] == "1"
    _, listed = await ask("list-queues", "--queue-name-prefix", name)
    assert listed["QueueUrls"] == [url]


@pytest.mark.usefixtures("installed")
async def test_celery_works(shared: Shared, plain: SQSClient, name: str) -> None:
    command = (CLIENTS / "celery", "-A", "celery_tasks", "worker", "--pool", "solo")
    async with start(shared, *command, QUEUE=name) as worker:
        async with start(
            shared, CLIENTS / "python", "celery_tasks.py", "2", "3", QUEUE=name
        ) as sender:
            assert await sender.wait() == 0
        await read_until(worker, "2 + 3 = 5")
        await wait_until_settled(plain, name)


@pytest.mark.usefixtures("installed")
async def test_taskiq_works(shared: Shared, plain: SQSClient, name: str) -> None:
    plain.create_queue(QueueName=name)
    program = Path(__file__).with_name("taskiq_tasks.py")
    async with start(shared, CLIENTS / "python", program, QUEUE=name) as process:
        await read_until(process, "2 + 3 = 5")
        assert await process.wait() == 0
    await wait_until_settled(plain, name)
