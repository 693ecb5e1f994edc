"""`laneway lake`: history on Spark. Spark and all that goes with it is loaded when one of these runs."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from laneway.cli.database import open_connection, open_database
from laneway.cli.execution import execute
from laneway.cli.settings import DATABASE_SETTINGS, read_settings
from laneway.cli.streams import tell
from laneway.domain.escapes import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from laneway.lake.tables import Lake

lake = typer.Typer(
    no_args_is_help=True,
    help="Land the broker's history in a lake of Parquet files, and ask it.",
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Option("--lake", help="The lake's directory.")]
Master = Annotated[str, typer.Option(help="The Spark master: local[*], spark://…, yarn, k8s://…")]
Conf = Annotated[
    list[str] | None, typer.Option(help="A setting of Spark, as name=value; may be repeated.")
]
DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", "--data", help="Where the embedded PostgreSQL lives."),
]
DEFAULT_FOLDER = Path("lake")
DEFAULT_MASTER = "local[*]"

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@lake.command("run")
def run_lake(
    folder: Folder = DEFAULT_FOLDER,
    *,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Go on until stopped, pass after pass.")
    ] = False,
    every: Annotated[str, typer.Option(help="From one pass to the next: 30m, 1h.")] = "1m",
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on without what left the log unread.")
    ] = False,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
    data_dir: DataDir = None,
) -> None:
    """Land what is new, refine it, look for anomalies, and bring the numbers back to PostgreSQL."""
    pause = parse_length(every).total_seconds()

    def work(dsn: str, stop: threading.Event) -> None:
        from laneway.lake.running import run_once

        with _open_lake(folder, master, conf) as (spark, opened):
            while True:
                done = run_once(spark, opened, dsn, tell=_tell, accept_loss=accept_loss)
                typer.echo(
                    f"{done.messages} messages and {done.events} events landed, {done.days} days refined,"
                    f" {done.findings} findings, {done.seconds:.1f} s"
                )
                if not continuous or stop.wait(pause):
                    return

    _execute(work, data_dir)


@lake.command("report")
def make_report(
    folder: Folder = DEFAULT_FOLDER,
    *,
    since: Annotated[str, typer.Option(help="How far back: 12h, 7d, 4w.")] = "7d",
    output: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> None:
    """Write one HTML file with plots: throughput, waits, backlog, dead letters, consumers, anomalies."""
    length = parse_length(since)

    def work() -> None:
        from laneway.lake.report import make_report as render

        with _open_lake(folder, master, conf) as (_, opened):
            output.write_text(render(opened, length), encoding="utf-8")
        typer.echo(f"written to {output}")

    _execute_alone(work)


@lake.command("sql")
def ask(
    query: Annotated[str, typer.Argument(help="A query in Spark's SQL.")],
    folder: Folder = DEFAULT_FOLDER,
    *,
    form: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    limit: Annotated[int, typer.Option(help="Rows at most.", min=1)] = 1000,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> None:
    """Ask the lake's tables: messages, events, silver, traffic, consumers, anomalies."""

    def work() -> None:
        from laneway.lake.asking import ask_lake

        with _open_lake(folder, master, conf) as (spark, opened):
            text = ask_lake(spark, opened, query, form=form, limit=limit)
        # CSV is for programs as it is, and for people without orders to their terminal.
        typer.echo(escape(text, lines=True) if form == "csv" and sys.stdout.isatty() else text)

    _execute_alone(work)


@lake.command("offload")
def offload_segments(
    folder: Folder = DEFAULT_FOLDER,
    *,
    older_than: Annotated[str, typer.Option(help="Closed for at least this long: 1h, 1d.")] = "1h",
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
    data_dir: DataDir = None,
) -> None:
    """Land closed segments, compare them lane by lane, and drop from PostgreSQL those that are equal."""
    length = parse_length(older_than)

    def work(dsn: str, _stop: threading.Event) -> None:
        from laneway.lake.tiering import offload

        with _open_lake(folder, master, conf) as (spark, opened):
            done = offload(spark, opened, dsn, older_than=length, tell=_tell)
        for each in done:
            fate = "dropped" if each.dropped else "in the lake, and dropped once it is settled"
            typer.echo(f"segment {each.segment}: {each.messages} messages equal, {fate}")
        if not done:
            typer.echo("no closed segment is that old")

    _execute(work, data_dir)


@lake.command("replay")
def replay_history(
    queue: Annotated[str, typer.Option(help="The queue whose history is meant.")],
    folder: Folder = DEFAULT_FOLDER,
    *,
    where: Annotated[
        str | None, typer.Option(help="Which of its messages: a condition in Spark's SQL.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="The queue to push to; else the same.")] = None,
    run_id: Annotated[
        str | None, typer.Option(help="A name for this run; the same again pushes nothing.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be.")] = False,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
    data_dir: DataDir = None,
) -> None:
    """Push messages of the past again, as new ones."""
    name = run_id or uuid4().hex

    def work(dsn: str, _stop: threading.Event) -> None:
        from laneway.lake.tiering import choose_history, replay

        with _open_lake(folder, master, conf) as (_, opened):
            rows = choose_history(opened, queue, where)
            count = rows.count()
            goal = to or queue
            if dry_run:
                typer.echo(f'{count} messages would be pushed to "{goal}"')
                return
            replay(rows, dsn, to=goal, run_id=name)
            typer.echo(f'{count} messages pushed to "{goal}" by run {name}')

    _execute(work, data_dir)


def parse_length(text: str) -> timedelta:
    """Read 90m, 12h, 7d or 4w."""
    match = re.fullmatch(r"(\d+)([mhdw])", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no length of time: say 90m, 12h, 7d or 4w")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _execute(work: Callable[[str, threading.Event], None], data_dir: str | None) -> None:
    """Run what needs the database beside it; Ctrl-C lets a pass end and no other begin."""

    async def command() -> None:
        from laneway.sql.migrate import install

        stop = threading.Event()
        settings = read_settings({"data_dir": data_dir}, os.environ, wanted=DATABASE_SETTINGS)
        async with open_database(settings.environment, settings.data_dir) as dsn:
            async with open_connection(dsn) as connection:
                await install(connection)
            try:
                await asyncio.to_thread(work, dsn, stop)
            finally:
                stop.set()

    execute(command())


def _execute_alone(work: Callable[[], None]) -> None:
    async def command() -> None:
        await asyncio.to_thread(work)

    execute(command())


@contextmanager
def _open_lake(
    folder: Path, master: str, conf: list[str] | None
) -> Iterator[tuple[SparkSession, Lake]]:
    settings = dict(_parse_setting(text) for text in conf or [])
    try:
        from laneway.lake.session import open_session

        spark = open_session(master, java_home=os.environ.get("JAVA_HOME"), settings=settings)
        from laneway.lake.tables import open_lake
    except ImportError as error:
        tell(f"laneway: {error}: run pip install 'laneway[spark]'")
        raise typer.Exit(1) from error
    try:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark, open_lake(spark, folder)
    finally:
        spark.stop()


def _parse_setting(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise typer.BadParameter(f"{text!r} is no setting of Spark: say name=value")
    return name, value


def _tell(text: str, **_: Any) -> None:
    tell(text)
