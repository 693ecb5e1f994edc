"""The commands `laneway lake`: history on Spark, which is imported when one of them runs."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from laneway.cli.database import open_connection, open_database
from laneway.cli.execution import execute
from laneway.cli.flags import with_database, with_nothing
from laneway.cli.output import count
from laneway.cli.settings import Settings
from laneway.cli.stdio import tell
from laneway.domain.escapes import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from laneway.lake.tables import Lake

lake = typer.Typer(
    no_args_is_help=True,
    help="Export the broker's history to a lake of Parquet files, and query it.",
    rich_markup_mode=None,
)


def _parse_folder(place: str | Path) -> Path:
    """Return the lake's directory; refuse an invalid one before anything is started."""
    from laneway.lake.errors import OptionInvalid
    from laneway.lake.location import find_folder

    try:
        return find_folder(place)
    except OptionInvalid as error:
        raise typer.BadParameter(str(error)) from error


Folder = Annotated[
    Path,
    typer.Option(
        "--lake",
        parser=_parse_folder,
        metavar="DIRECTORY",
        help="Directory of the lake: a path or a file:// URL.",
    ),
]
Master = Annotated[str, typer.Option(help="Spark master: local[*], spark://…, yarn, k8s://…")]
Conf = Annotated[
    list[str] | None, typer.Option(help="Spark setting, as name=value; can be repeated.")
]
DEFAULT_FOLDER = Path("lake")
DEFAULT_MASTER = "local[*]"

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LONGEST = timedelta(days=36_500)


class AnswerFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@lake.command("run")
@with_database
def run_lake(
    settings: Settings,
    folder: Folder = DEFAULT_FOLDER,
    *,
    continuous: Annotated[bool, typer.Option("--continuous", help="Repeat until stopped.")] = False,
    every: Annotated[
        str, typer.Option(help="Pause between passes of --continuous, such as 30m or 1h.")
    ] = "1m",
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Continue if retention removed messages before they were exported.",
        ),
    ] = False,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> None:
    """Export new messages and events, refine them, detect anomalies, and store results in PostgreSQL."""
    pause = parse_length(every).total_seconds()

    def work(dsn: str, stop: threading.Event) -> None:
        with _open_lake(folder, master, conf) as (spark, opened):
            from laneway.lake.job import run_once

            while True:
                done = run_once(spark, opened, dsn, tell=_tell, accept_loss=accept_loss)
                typer.echo(
                    f"{count(done.messages, 'message')} and {count(done.events, 'event')} exported,"
                    f" {count(done.days, 'day')} refined, {count(done.findings, 'finding')},"
                    f" {done.seconds:.1f} s"
                )
                if not continuous or stop.wait(pause):
                    return

    _execute(work, settings)


@lake.command("report")
@with_nothing
def make_report(
    folder: Folder = DEFAULT_FOLDER,
    *,
    since: Annotated[str, typer.Option(help="Period to report on, such as 12h, 7d or 4w.")] = "7d",
    output: Annotated[Path, typer.Option(help="File to write.")] = Path("report.html"),
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> None:
    """Write an HTML report: throughput, waiting times, backlog, dead letters, consumers, anomalies."""
    length = parse_length(since)
    if output.is_dir() or not output.parent.is_dir():
        raise typer.BadParameter(
            f"cannot write {output}: it is a directory, or its directory does not exist"
        )

    def work() -> None:
        with _open_lake(folder, master, conf, must_exist=True) as (_, opened):
            from laneway.lake.report import make_report as render

            page = render(opened, length)
        try:
            output.write_text(page, encoding="utf-8")
        except OSError as error:
            tell(f"laneway: cannot write the report: {error}")
            raise typer.Exit(1) from error
        typer.echo(f"written to {output}")

    _execute_alone(work)


@lake.command("sql")
@with_nothing
def ask(
    query: Annotated[str, typer.Argument(help="Query in Spark SQL.")],
    folder: Folder = DEFAULT_FOLDER,
    *,
    form: Annotated[
        AnswerFormat, typer.Option("--format", help="Output format.")
    ] = AnswerFormat.TABLE,
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1)] = 1000,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> None:
    """Query the lake's tables: messages, events, silver, traffic, consumers, anomalies."""

    def work() -> None:
        with _open_lake(folder, master, conf, must_exist=True) as (spark, opened):
            from laneway.lake.queries import ask_lake

            text = ask_lake(spark, opened, query, form=form, limit=limit)
        # Programs get CSV unchanged; on a terminal, control characters are escaped.
        plain = form is AnswerFormat.CSV and sys.stdout.isatty()
        typer.echo(escape(text, lines=True) if plain else text)

    _execute_alone(work)


@lake.command("offload")
@with_database
def offload_segments(
    settings: Settings,
    folder: Folder = DEFAULT_FOLDER,
    *,
    older_than: Annotated[
        str, typer.Option(help="Minimum time since a segment was closed, such as 1h or 1d.")
    ] = "1h",
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> None:
    """Export closed segments, verify the copies, and drop the segments from PostgreSQL."""
    length = parse_length(older_than)

    def work(dsn: str, _stop: threading.Event) -> None:
        with _open_lake(folder, master, conf) as (spark, opened):
            from laneway.lake.offload import offload

            done = offload(spark, opened, dsn, older_than=length, tell=_tell)
        failed = [each for each in done if each.failure is not None]
        for each in done:
            if each.failure is not None:
                tell(f"laneway: segment {each.segment} stays in PostgreSQL: {each.failure}")
                continue
            fate = "dropped" if each.dropped else "to be dropped once its messages are settled"
            typer.echo(
                f"segment {each.segment}: {count(each.messages, 'message')} verified, {fate}"
            )
        if failed:
            tell(f"laneway: {len(failed)} of {len(done)} segments could not be offloaded")
            raise typer.Exit(1)
        if not done:
            typer.echo("no closed segment is old enough")

    _execute(work, settings)


@lake.command("replay")
@with_database
def replay_history(
    settings: Settings,
    queue: Annotated[str, typer.Option(help="Queue whose history to replay.")],
    folder: Folder = DEFAULT_FOLDER,
    *,
    where: Annotated[
        str | None, typer.Option(help="Condition on the messages, in Spark SQL (default: all).")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Queue to enqueue to (default: the same queue).")
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option(
            help="Name of this replay; repeating a replay to a queue under its name does nothing."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the number of messages, and enqueue none.")
    ] = False,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> None:
    """Enqueue past messages again, as new ones."""
    name = uuid4().hex if run_id is None else _check_run(run_id)
    goal = to or queue

    def work(dsn: str, _stop: threading.Event) -> None:
        with _open_lake(folder, master, conf, must_exist=True) as (_, opened):
            from laneway.lake.offload import check_replay, choose_history, count_history, replay

            check_replay(dsn, to=goal, run_id=name)
            rows = choose_history(opened, queue, where)
            if dry_run:
                typer.echo(f'{count(count_history(rows), "message")} would be enqueued to "{goal}"')
                return
            done = replay(rows, dsn, to=goal, run_id=name)
            if done is None:
                typer.echo(f'nothing enqueued: replay {name} to "{goal}" was already done')
            else:
                typer.echo(f'{count(done, "message")} enqueued to "{goal}" by replay {name}')

    _execute(work, settings)


def parse_length(text: str) -> timedelta:
    """Parse a length of time such as 90m, 12h, 7d or 4w."""
    match = re.fullmatch(r"(\d+)([mhdw])", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a length of time: use 90m, 12h, 7d or 4w")
    try:
        length = timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        length = timedelta.max
    if length > _LONGEST:
        raise typer.BadParameter(f"{text!r} is too long: use {_LONGEST.days}d at most")
    return length


def _check_run(name: str) -> str:
    from laneway.lake.errors import OptionInvalid
    from laneway.lake.options import check_run_id

    try:
        check_run_id(name)
    except OptionInvalid as error:
        raise typer.BadParameter(str(error)) from error
    return name


def _execute(work: Callable[[str, threading.Event], None], settings: Settings) -> None:
    """Run work with the database's DSN. Ctrl-C lets the current pass end and starts no other."""

    async def command() -> None:
        from laneway.sql.migrate import install

        stop = threading.Event()
        async with open_database(settings.environment, settings.data_dir) as dsn:
            async with open_connection(dsn, settings.connections) as connection:
                await install(connection)
            try:
                # Spark's tasks open their own connections.
                await asyncio.to_thread(work, settings.environment.direct_url or dsn, stop)
            finally:
                stop.set()

    execute(command())


def _execute_alone(work: Callable[[], None]) -> None:
    async def command() -> None:
        await asyncio.to_thread(work)

    execute(command())


@contextmanager
def _open_lake(
    folder: Path, master: str, conf: list[str] | None, *, must_exist: bool = False
) -> Iterator[tuple[SparkSession, Lake]]:
    settings = dict(_parse_setting(text) for text in conf or [])
    try:
        from laneway.lake.session import open_session, silence
        from laneway.lake.tables import check_lake, open_lake

        if must_exist:
            check_lake(folder)
        spark = open_session(master, java_home=os.environ.get("JAVA_HOME"), settings=settings)
    except ImportError as error:
        tell(f"laneway: {error}: run pip install 'laneway[spark]'")
        raise typer.Exit(1) from error
    try:
        silence(spark)
        yield spark, open_lake(spark, folder)
    finally:
        spark.stop()


def _parse_setting(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise typer.BadParameter(f"{text!r} is not a Spark setting: use name=value")
    return name, value


def _tell(text: str, **_: Any) -> None:
    tell(text)
