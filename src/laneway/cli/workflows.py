"""The commands `laneway workflow`."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Annotated

import msgspec
import typer

from laneway.cli.connections import with_connection
from laneway.cli.known_settings import LONGEST
from laneway.cli.output import Output, count
from laneway.cli.payloads import read_json
from laneway.domain.runs import RunInfo, RunStatus
from laneway.library.connection import Connection

workflow = typer.Typer(
    no_args_is_help=True, help="Start, inspect and control workflow runs.", rich_markup_mode=None
)

Id = Annotated[str, typer.Argument(help="Run id.")]

_COLUMNS = (
    "run_id",
    "name",
    "queue",
    "status",
    "steps",
    "created_at",
    "finished_at",
    "resume_at",
    "error",
)


@workflow.command("start")
@with_connection
async def start(
    connection: Connection,
    output: Output,
    name: Annotated[str, typer.Argument(help="Workflow name.")],
    arguments: Annotated[str, typer.Argument(help="Arguments, as a JSON list.")] = "[]",
    *,
    queue: Annotated[str, typer.Option(help="Queue of the workflow.")] = "workflows",
    run_id: Annotated[
        str | None, typer.Option(help="Run id, to start a run only once (default: a new id).")
    ] = None,
    priority: Annotated[
        int, typer.Option(min=0, help="Priority among the runs of the workflow.")
    ] = 0,
    delay: Annotated[
        float | None, typer.Option(min=0, max=LONGEST, help="Seconds until the run begins.")
    ] = None,
    wait: Annotated[
        float | None, typer.Option(min=0, max=LONGEST, help="Seconds to wait for the result.")
    ] = None,
) -> None:
    """Start a run and print its id, or with --wait its result.

    If the wait ends before the run does, the run's id is printed and the run continues.
    """
    given = read_json(arguments, "the list of arguments")
    if not isinstance(given, list):
        raise typer.BadParameter("the arguments are not a JSON list: use, for example, '[17]'")
    later = None if delay is None else timedelta(seconds=delay)
    run = await connection.start(
        name, *given, queue=queue, run_id=run_id, priority=priority, delay=later
    )
    if wait is None:
        output.done(run.run_id, run_id=run.run_id)
        return
    try:
        result = await run.result(timedelta(seconds=wait))
    except (TimeoutError, asyncio.CancelledError):
        output.done(run.run_id, run_id=run.run_id)
        raise
    output.done(json.dumps(result), run_id=run.run_id, result=result)


@workflow.command("list")
@with_connection
async def list_(
    connection: Connection,
    output: Output,
    *,
    status: Annotated[RunStatus | None, typer.Option(help="Show only runs of this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of runs.")] = 20,
) -> None:
    """List workflow runs, newest first."""
    found = await connection.admin.list_runs(status=status, limit=limit)
    output.rows([_show(item, output) for item in found], _COLUMNS)


@workflow.command("get")
@with_connection
async def get(connection: Connection, output: Output, run_id: Id) -> None:
    """Show a run and its finished and failed steps."""
    run = connection.run(run_id)
    steps = await run.steps()
    shown = {
        "steps": [item.step for item in steps if item.error is None],
        "failed_steps": [item.step for item in steps if item.error is not None],
    }
    output.one({**_show(await run.info(), output), **shown})


@workflow.command("pause")
@with_connection
async def pause(
    connection: Connection,
    output: Output,
    run_id: Id,
    *,
    resume_after: Annotated[
        float | None,
        typer.Option(min=0.001, max=LONGEST, help="Seconds until the run resumes by itself."),
    ] = None,
) -> None:
    """Pause a run at its next step."""
    later = None if resume_after is None else timedelta(seconds=resume_after)
    status = await connection.run(run_id).pause(resume_after=later)
    output.done(f"run {run_id} is {status}", run_id=run_id, status=status)


@workflow.command("resume")
@with_connection
async def resume(connection: Connection, output: Output, run_id: Id) -> None:
    """Resume a paused or failed run."""
    status = await connection.run(run_id).resume()
    output.done(f"run {run_id} is {status}", run_id=run_id, status=status)


@workflow.command("complete")
@with_connection
async def complete(
    connection: Connection,
    output: Output,
    run_id: Id,
    step: Annotated[str, typer.Argument(help="Name of the manual step.")],
    result: Annotated[str, typer.Argument(help="Result of the step, as JSON.")] = "null",
) -> None:
    """Complete a manual step of a run."""
    done = await connection.run(run_id).complete_step(step, read_json(result, "the result"))
    text = "is completed" if done else "was completed before"
    output.done(f'step "{step}" of run {run_id} {text}', run_id=run_id, step=step, completed=done)


@workflow.command("cancel")
@with_connection
async def cancel(connection: Connection, output: Output, run_id: Id) -> None:
    """Cancel a run at its next step."""
    status = await connection.run(run_id).cancel()
    output.done(f"run {run_id} is {status}", run_id=run_id, status=status)


@workflow.command("purge")
@with_connection
async def purge(
    connection: Connection,
    output: Output,
    *,
    older_than: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Minimum hours since a run ended.")
    ] = 24 * 7,
) -> None:
    """Delete runs that ended long ago."""
    purged = await connection.admin.purge_runs(timedelta(hours=older_than))
    output.done(f"{count(purged, 'run')} deleted", purged=purged)


def _show(info: RunInfo, output: Output) -> dict[str, object]:
    row = info._asdict()
    texts = row.pop("input_text"), row.pop("result_text")
    row["input"], row["result"] = map(_embed, texts) if output.is_json else texts
    return row


def _embed(text: str | None) -> msgspec.Raw | None:
    """Return JSON text for embedding into other JSON, on one line."""
    return None if text is None else msgspec.Raw(msgspec.json.format(text.encode(), indent=-1))
