"""Snippets in the documentation run as printed, except for the address."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from opentelemetry import trace

import laneway
from tests.library.conftest import QUIET
from tests.library.workers import running, until

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(r'"(postgresql|http)://[^"]*"')


def read_snippets(document: str, language: str = "python") -> list[str]:
    text = (ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def find_snippet(document: str, words: str) -> str:
    (found,) = [text for text in read_snippets(document) if words in text]
    return found


def run_snippet(text: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(text, "snippet", "exec"), names)  # noqa: S102 - ours
    return names


@pytest.mark.parametrize(
    "document", ["README.md", "docs/library.md", "docs/workflows.md", "docs/streams.md"]
)
def test_every_snippet_is_python(document: str) -> None:
    for text in read_snippets(document):
        compile(text, document, "exec", flags=0x2000)  # await at the top, as in a notebook


async def test_readme_snippets_run(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = ADDRESS.sub(repr(database), find_snippet("README.md", "laneway.sync"))
    await asyncio.to_thread(run_snippet, text, {})
    assert capsys.readouterr().out == "{'to': 'ada@example.org'}\n"


async def test_library_in_one_program(blank_database: str) -> None:
    text = ADDRESS.sub(repr(blank_database), find_snippet("docs/library.md", "asyncio.run(main())"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-u", "-c", text, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"{'to': 'ada@example.org'}\n"
    finally:
        process.terminate()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def test_snippet_of_pushing_in_a_transaction_runs(database: str) -> None:
    text = find_snippet("docs/library.md", "enqueue_in").replace("insert into orders …", "select 1")
    async with laneway.connect(database) as lane:
        await lane.admin.create_queue("orders")

        def run() -> None:
            with laneway.sync.connect(database, settings=QUIET) as connection:
                producer = connection.producer("orders")
                run_snippet(text, {"psycopg": psycopg, "dsn": database, "producer": producer})

        await asyncio.to_thread(run)
        message = await lane.consumer("orders").dequeue(wait=timedelta(seconds=20))
    assert message is not None
    assert message.payload == {"order": 17}


async def test_worker_with_periodic_jobs_and_middlewares(database: str) -> None:
    sent: list[str] = []

    async def send(to: str) -> None:
        sent.append(to)

    names = {
        "laneway": laneway,
        "timedelta": timedelta,
        "smtp": SimpleNamespace(send=send),
        "opentelemetry": SimpleNamespace(trace=trace),
        "log_context": lambda **_: nullcontext(),
    }
    parts = ("laneway.App(", "@app.cron", "@app.middleware")
    for part in parts:
        text = ADDRESS.sub(repr(database), find_snippet("docs/library.md", part))
        run_snippet(text.replace("app.run()", "pass"), names)
    async with laneway.connect(database, settings=QUIET) as lane:
        for queue in ("mail", "reports", "chores"):
            await lane.admin.create_queue(queue)
        await lane.producer("mail").enqueue({"to": "ada@example.org"})
        async with running(names["app"]):  # type: ignore[arg-type]
            await until(lambda: look(sent))
    assert sent == ["ada@example.org"]
    assert 'queue="mail"' in names["metrics"].show()  # type: ignore[attr-defined]


async def test_workflow(database: str) -> None:
    async def charge(card: str, total: int, *, key: str) -> str:
        return f"{card} {total} {key}"

    names: dict[str, Any] = {"bank": SimpleNamespace(charge=charge), "dsn": database}
    text = ADDRESS.sub(repr(database), find_snippet("docs/workflows.md", "@app.workflow()"))
    text = text.replace("app.run()", "pass").replace("days=1", "milliseconds=10")
    run_snippet(text, names)
    begin = find_snippet("docs/workflows.md", "broker.start(")
    body = "".join(f"    {line}\n" for line in begin.replace("print(", "return (").splitlines())
    run_snippet(f"async def begin():\n{body}", names)
    async with running(names["app"]):
        assert await names["begin"]() == {"receipt": "… 20 17", "parcel": None}


async def test_sql(database: str) -> None:
    text = "".join(read_snippets("docs/sql.md", "sql")).replace("c7f0…", str(uuid4()))
    connection = await asyncpg.connect(database)
    try:
        for statement in re.sub(r"--.*", "", text).split(";"):
            if statement.strip():
                await connection.fetch(statement)
    finally:
        await connection.close()


async def look(found: list[str]) -> bool:
    return bool(found)
