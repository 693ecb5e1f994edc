"""Blocks of Python run as printed, except for the addresses."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tomllib
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
from opentelemetry import trace
from queen import Queen

import laneway
from tests.documents.blocks import DOCUMENTS, read_blocks
from tests.documents.shell import run_shell
from tests.library.conftest import QUIET
from tests.library.workers import running, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.documents.conftest import Place

TOP_LEVEL_AWAIT = 0x2000

# What the example of a new operation imports.
SERVER_NAMES = """
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from laneway.domain.keys import Role
from laneway.server.access import named
from laneway.server.calls import Call
from laneway.server.operations import Operation, Response
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.queues import *
"""


def run(text: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(text, "block", "exec"), names)  # noqa: S102 - ours
    return names


async def run_awaiting(text: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run a block that awaits at the top, as in a notebook."""
    body = "".join(f"    {line}\n" for line in text.splitlines())
    run(f"async def block():\n{body}    return locals()", names)
    found: dict[str, Any] = await names["block"]()
    return names | found


@asynccontextmanager
async def run_program(folder: Path, text: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a block as a program in a directory, until Ctrl-C at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", text),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.communicate()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_of_python_compiles(document: str) -> None:
    for block in read_blocks(document):
        if block.language == "python":
            compile(block.text, str(block), "exec", flags=TOP_LEVEL_AWAIT)


@pytest.mark.document("README.md", "laneway.sync")
async def test_first_program_enqueues_and_dequeues(
    texts: list[str], place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    await asyncio.to_thread(run, place.fill(texts[0]), {})
    assert capsys.readouterr().out == "{'to': 'ada@example.org'}\n"


@pytest.mark.document("docs/library.md", "asyncio.run(main())")
async def test_library_in_one_program(texts: list[str], blank_database: str, folder: Path) -> None:
    text = texts[0].replace("postgresql://me@db.example/mail", blank_database)
    async with run_program(folder, text) as process, asyncio.timeout(60):
        assert process.stdout is not None
        assert await process.stdout.readline() == b"{'to': 'ada@example.org'}\n"


@pytest.mark.document("docs/library.md", "dedup_window")
async def test_message_is_enqueued_at_a_time_and_once(texts: list[str], database: str) -> None:
    names = {"datetime": datetime, "timedelta": timedelta, "UTC": UTC}
    async with laneway.connect(database, settings=QUIET) as lane:
        await lane.admin.create_queue("reports")
        for _ in range(2):
            await run_awaiting(texts[0], names | {"broker": lane})
        assert (await lane.admin.queue_metrics("reports")).total == 1
        assert await lane.consumer("reports").dequeue() is None


@pytest.mark.document("docs/library.md", "enqueue_in")
async def test_message_is_enqueued_in_a_transaction(texts: list[str], database: str) -> None:
    async with laneway.connect(database) as lane:
        await lane.admin.create_queue("orders")
        connection = await asyncpg.connect(database)
        await connection.execute("create table orders (number int)")
        await connection.close()

        def enqueue() -> None:
            with laneway.sync.connect(database, settings=QUIET) as connected:
                producer = connected.producer("orders")
                run(texts[0], {"psycopg": psycopg, "dsn": database, "producer": producer})

        await asyncio.to_thread(enqueue)
        message = await lane.consumer("orders").dequeue(wait=timedelta(seconds=20))
    assert message is not None
    assert message.payload == {"order": 17}


@pytest.mark.document("docs/library.md", "laneway.App(")
@pytest.mark.document("docs/library.md", "@app.cron")
@pytest.mark.document("docs/library.md", "@app.middleware")
async def test_worker_with_periodic_jobs_and_middlewares(texts: list[str], place: Place) -> None:
    sent: list[str] = []

    async def send(to: str) -> None:
        sent.append(to)

    names: dict[str, Any] = {
        "laneway": laneway,
        "timedelta": timedelta,
        "smtp": SimpleNamespace(send=send),
        "opentelemetry": SimpleNamespace(trace=trace),
        "log_context": lambda **_: nullcontext(),
    }
    for text in texts:
        # `running` does what `app.run()` does, until the test has seen enough.
        run(place.fill(text).replace("app.run()", "pass"), names)
    async with laneway.connect(place.dsn, settings=QUIET) as lane:
        await lane.admin.create_queue("mail")
        await lane.producer("mail").enqueue({"to": "ada@example.org"})
        async with running(names["app"]):
            await until(lambda: look(sent))
    assert sent == ["ada@example.org"]
    assert 'queue="mail"' in names["metrics"].show()


@pytest.mark.document("docs/library.md", "direct_dsn")
async def test_connection_through_a_pooler_has_a_direct_one_too(
    texts: list[str], place: Place
) -> None:
    names: dict[str, Any] = {"laneway": laneway}
    run(place.fill(f"connection = {texts[0]}"), names)
    async with names["connection"] as lane:
        await lane.admin.create_queue("mail")
        assert [queue.name for queue in await lane.admin.list_queues()] == ["mail"]


@pytest.mark.document("docs/workflows.md", "def checkout(")
@pytest.mark.document("docs/workflows.md", "broker.start(")
async def test_workflow(texts: list[str], place: Place) -> None:
    async def charge(card: str, total: int, *, key: int) -> str:
        return f"{card} {total} {key}"

    program, start = texts
    names: dict[str, Any] = {"bank": SimpleNamespace(charge=charge), "dsn": place.dsn}
    text = place.fill(program).replace("app.run()", "pass").replace("days=1", "milliseconds=10")
    run(text, names)
    printed: list[object] = []
    async with running(names["app"]):
        await run_awaiting(start, names | {"print": printed.append})
    assert printed == [{"receipt": "… 20 17", "parcel": None}]


@pytest.mark.document("docs/workflows.md", "def publish(")
@pytest.mark.document("docs/workflows.md", ".complete_step(")
@pytest.mark.document("docs/workflows.md", "verdict = review.result()")
async def test_manual_step(texts: list[str], database: str) -> None:
    program, completion, limited = texts
    app = laneway.App(database, settings=QUIET)
    names: dict[str, Any] = {"app": app, "laneway": laneway}
    run(program, names)
    names |= {"asyncio": asyncio, "timedelta": timedelta}

    @app.workflow()
    async def review() -> str:
        verdict: str = (await run_awaiting(limited, names))["verdict"]
        return verdict

    async with laneway.connect(database, settings=QUIET) as lane, running(app):
        published = await lane.start("publish", "an article", run_id="article-7")
        await run_awaiting(completion, {"broker": lane})
        assert await published.result(timedelta(seconds=30)) == "an article accepted"
        reviewed = await lane.start("review")
        await reviewed.complete_step("review", "accepted")
        assert await reviewed.result(timedelta(seconds=30)) == "accepted"


@pytest.mark.document("docs/workflows.md", "laneway.chain(")
async def test_chain(texts: list[str], database: str) -> None:
    app = laneway.App(database, settings=QUIET)

    @laneway.step
    async def work(given: Any) -> Any:
        return given

    names: dict[str, Any] = {"app": app, "laneway": laneway}
    run(texts[0], names | dict.fromkeys(("fetch", "resize", "scan", "publish"), work))
    async with laneway.connect(database, settings=QUIET) as lane, running(app):
        started = await lane.start("import", 7)
        assert await started.result(timedelta(seconds=30)) == [7, 7]


@pytest.mark.document("docs/library.md", "message.progress(")
@pytest.mark.document("docs/library.md", "job = broker.job(")
async def test_job(texts: list[str], database: str) -> None:
    program, waiting = texts
    app = laneway.App(database, settings=QUIET)
    run(program, {"app": app, "laneway": laneway, "timedelta": timedelta})
    printed: list[object] = []
    names: dict[str, Any] = {"timedelta": timedelta, "print": printed.append}
    async with laneway.connect(database, settings=QUIET) as lane, running(app):
        await run_awaiting(waiting, names | {"broker": lane})
    assert printed == ["report.pdf"]


@pytest.mark.document("docs/library.md", "testing.inline(")
@pytest.mark.document("docs/library.md", "testing.drain(")
async def test_tests_of_an_app(texts: list[str], database: str) -> None:
    inline, draining = texts
    app = laneway.App(database, settings=QUIET)

    @app.handler("orders")
    async def accept(message: laneway.Message) -> None:
        await app.connection.producer("receipts").enqueue({"order": message.payload["id"]})

    names = run(inline, {"app": app, "laneway": laneway})
    await names["test_order_gets_a_receipt"]()
    async with laneway.connect(database, settings=QUIET) as lane:
        await lane.admin.create_queue("orders")
        await lane.admin.create_queue("receipts")
        await run_awaiting(draining, names | {"broker": lane})
        assert (await lane.admin.queue_metrics("receipts")).pending == 1


@pytest.mark.document("docs/streams.md", "from queen import Queen")
@pytest.mark.document("docs/streams.md", "queen.transaction()")
@pytest.mark.document("docs/streams.md", ".timers.schedule(")
@pytest.mark.document("docs/streams.md", ".incr(")
async def test_streams(texts: list[str], place: Place) -> None:
    first, transaction, timers, values = texts
    names = await run_awaiting(place.fill(first), {})
    assert [message["data"] for message in names["messages"]] == [{"total": 12}]
    async with Queen(place.url) as queen:
        names["queen"] = queen
        await queen.queue("orders").push([{"data": {"total": 5}}, {"data": {"total": 6}}])
        for is_first in (True, False):
            (names["message"],) = await queen.queue("orders").batch(1).pop()
            names = await run_awaiting(transaction, names)
            assert bool(names["result"]) == is_first
        assert (await run_awaiting(timers, names))["done"]["txn"]
        await run_awaiting(values, names)
        assert (await queen.kv.get("quota", "customer-7"))["value"] == 1


@pytest.mark.parametrize("way", ["laneway.toml", "an installed package"])
@pytest.mark.document("docs/activity.md", "# shop_detectors.py")
@pytest.mark.document("docs/activity.md", "[detectors]")
@pytest.mark.document("docs/activity.md", "[project.entry-points")
def test_custom_detector_finds_anomalies(
    texts: list[str], way: str, database: str, folder: Path
) -> None:
    module, settings, project = texts
    (folder / "shop_detectors.py").write_text(module)
    if way == "laneway.toml":
        (folder / "laneway.toml").write_text(settings)
    else:
        install(folder, project)
    statements = """
        laneway serve
        laneway queue create mail
        laneway enqueue '{}' --queue mail --priority 7
        until psql "$DATABASE_URL" -c "select type from laneway.anomaly" | grep high_priority_flood; do
            sleep 0.1
        done
    """
    run_shell(folder, statements, DATABASE_URL=database, PYTHONPATH=str(folder))


def install(folder: Path, project: str) -> None:
    """Do what an installer does with the entry points of a package."""
    metadata = folder / "shop-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    ((group, names),) = tomllib.loads(project)["project"]["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in names.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


@pytest.mark.document("docs/embedded.md", "EmbeddedPostgres")
def test_embedded_database_of_a_program(texts: list[str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", texts[0]],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.stdout.startswith("postgresql://"), done.stderr


@pytest.mark.document("docs/server.md", "Operation(")
def test_operation_is_declared(texts: list[str]) -> None:
    run(f"{SERVER_NAMES}\n{texts[0]}", {"__name__": "operation"})


async def look(found: list[str]) -> bool:
    return bool(found)
