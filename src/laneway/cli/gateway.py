"""The commands `laneway gateway`."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from laneway.cli.connections import BRIEF
from laneway.cli.database import open_database
from laneway.cli.execution import execute, reporting
from laneway.cli.flags import ON_DATABASE, with_database, with_settings
from laneway.cli.gateway_settings import make_gateway_settings, read_breaker, read_retry
from laneway.cli.gateway_targets import target
from laneway.cli.known_settings import DATABASE_SETTINGS, GATEWAY_SETTINGS
from laneway.cli.output import Format, FormatOption, Output
from laneway.cli.settings import Settings
from laneway.cli.stdio import tell
from laneway.domain.errors import InvalidId, LanewayError, NotFound
from laneway.domain.settings import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.domain.transactions import Transaction
    from laneway.engine import Broker
    from laneway.gateway.settings import GatewaySettings

gateway = typer.Typer(
    no_args_is_help=True,
    help="Send accepted requests to their targets; show, retry and cancel transactions.",
    rich_markup_mode=None,
)
gateway.add_typer(target, name="target")

TransactionId = Annotated[str, typer.Argument(metavar="id", help="Transaction id, a UUID.")]

_COLUMNS = ("id", "target", "type", "status", "calls", "created_at", "error")


class BreakerState(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


@gateway.command("run")
@with_settings((*DATABASE_SETTINGS, *GATEWAY_SETTINGS), ON_DATABASE)
def run(
    settings: Settings,
    *,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Calls at once.  [default: of laneway.toml, or 10]"),
    ] = None,
) -> None:
    """Send accepted requests to their targets until stopped. Several may run on one database."""
    from laneway.server.logs import choose_format, set_up_logs

    set_up_logs(settings["log_level"], choose_format(settings["log_format"]))
    with reporting():
        wanted = make_gateway_settings(settings)
    if concurrency is not None:
        wanted = replace(wanted, concurrency=concurrency)
    execute(_deliver(settings, wanted))


@gateway.command("status")
@with_database
def status(settings: Settings, *, format_: FormatOption = Format.TABLE) -> None:
    """Show alerts, breakers, and webhook endpoints that fail. Exits 1 if an alert fires."""
    output = Output(format_)

    async def work(broker: Broker) -> None:
        from laneway.gateway.alerts import list_alerts

        alerts = await list_alerts(broker)
        breakers = await broker.transactions.list_breakers()
        endpoints = await broker.transactions.list_endpoints()
        rows = [
            {
                "alert": each.name,
                "value": round(each.value, 3),
                "limit": each.limit,
                "unit": each.unit,
                "state": "FIRES" if each.fires else "ok",
                "meaning": each.meaning,
            }
            for each in alerts
        ]
        targets = [
            {
                "target": each.target,
                "breaker": "closed" if each.opened_at is None else "open",
                "failures": each.failures,
                "calls": each.calls,
                "probe_in": each.probe_in,
                "reason": each.reason,
            }
            for each in breakers
        ]
        urls = [each._asdict() for each in endpoints]
        if output.is_json:
            output.json({"alerts": rows, "targets": targets, "endpoints": urls})
        else:
            if not rows:
                output.lines("the gateway has accepted no request yet")
            else:
                output.rows(rows, ("alert", "value", "limit", "unit", "state", "meaning"))
            if targets:
                output.rows(targets, ("target", "breaker", "failures", "calls", "reason"))
            if urls:
                output.rows(urls, ("url", "failing_since", "disabled_at", "reason"))
        if any(each.fires for each in alerts):
            raise typer.Exit(1)

    _work(settings, work)


@gateway.command("transactions")
@with_database
def transactions(
    settings: Settings,
    *,
    status: Annotated[str | None, typer.Option(help="Only those with this status.")] = None,
    target: Annotated[str | None, typer.Option(help="Only those for this target.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 20,
    format_: FormatOption = Format.TABLE,
) -> None:
    """List transactions, newest first."""
    output = Output(format_)

    async def work(broker: Broker) -> None:
        statuses = None if status is None else [status]
        found = await broker.transactions.list_all(statuses=statuses, target=target, limit=limit)
        output.rows([_show(each) for each in found], _COLUMNS)

    _work(settings, work)


@gateway.command("show")
@with_database
def show(
    settings: Settings, transaction: TransactionId, *, format_: FormatOption = Format.TABLE
) -> None:
    """Show one transaction with its request and result."""
    output = Output(format_)

    async def work(broker: Broker) -> None:
        output.one(_show(await _find(broker, transaction)))

    _work(settings, work)


@gateway.command("cancel")
@with_database
def cancel(
    settings: Settings, transaction: TransactionId, *, format_: FormatOption = Format.TABLE
) -> None:
    """Cancel a transaction whose call has not begun."""
    output = Output(format_)

    async def work(broker: Broker) -> None:
        found = await _find(broker, transaction)
        done = await broker.transactions.cancel(found.id)
        if done is None or not done[1]:
            state = found.status if done is None else done[0]
            raise LanewayError(
                f"transaction {found.id} cannot be cancelled: it is {state}, or its call has begun"
            )
        output.done(f"transaction {found.id} cancelled", id=str(found.id), status=done[0])

    _work(settings, work)


@gateway.command("retry")
@with_database
def retry(
    settings: Settings, transaction: TransactionId, *, format_: FormatOption = Format.TABLE
) -> None:
    """Send a transaction again that was given up."""
    output = Output(format_)

    async def work(broker: Broker) -> None:
        from laneway.gateway.intake import write_message

        found = await _find(broker, transaction)
        body = write_message(found.id, found.type, found.request)
        attempts = read_retry(settings.file, found.target).attempts
        done = await broker.transactions.retry(found.id, body=body, max_attempts=attempts)
        if done is None or not done[1]:
            state = found.status if done is None else done[0]
            raise LanewayError(
                f"transaction {found.id} cannot be sent again: it is {state}, and was not given up"
            )
        output.done(f"transaction {found.id} will be sent again", id=str(found.id), status=done[0])

    _work(settings, work)


@gateway.command("breaker")
@with_database
def breaker(
    settings: Settings,
    target: Annotated[str, typer.Argument(help="Name of the target.")],
    state: Annotated[
        BreakerState,
        typer.Argument(help="open: its messages wait. closed: they are sent."),
    ],
    *,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Open or close a target's breaker by hand. An open one is probed again after a time."""
    output = Output(format_)

    async def work(broker: Broker) -> None:
        targets = settings.file.get_table("gateway", "targets")
        if target not in targets:
            known = ", ".join(targets) or "none"
            raise NotFound(f'target "{target}" not found in {settings.file.path}: it has {known}')
        await broker.transactions.set_breaker(
            target,
            is_open=state is BreakerState.OPEN,
            open_for=read_breaker(settings.file, target).open_for,
        )
        output.done(f"breaker of {target} is {state}", target=target, breaker=str(state))

    _work(settings, work)


@gateway.command("enable-webhook")
@with_database
def enable_webhook(
    settings: Settings,
    url: Annotated[str, typer.Argument(help="URL of the endpoint.")],
    *,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Send webhooks to a disabled endpoint again."""
    output = Output(format_)

    async def work(broker: Broker) -> None:
        if not await broker.transactions.enable_endpoint(url):
            raise NotFound(
                f"no webhook endpoint {url} has failed: `laneway gateway status` lists them"
            )
        output.done(f"webhooks to {url} are sent again", url=url)

    _work(settings, work)


def _work(settings: Settings, work: Callable[[Broker], Awaitable[None]]) -> None:
    """Do this with a broker on the database that the settings name."""
    # The command itself prints errors, so they are not logged too.
    logging.getLogger("laneway").addHandler(logging.NullHandler())

    async def command() -> None:
        from laneway.engine import Broker

        brief = replace(BRIEF, connections=settings.connections)
        async with (
            open_database(settings.environment, settings.data_dir) as dsn,
            Broker(dsn, brief) as broker,
        ):
            await work(broker)

    execute(command())


async def _find(broker: Broker, text: str) -> Transaction:
    try:
        transaction_id = UUID(text)
    except ValueError:
        raise InvalidId(f'"{text}" is not a transaction id: it is a UUID') from None
    found = await broker.transactions.find(transaction_id)
    if found is None:
        raise NotFound(f"transaction {transaction_id} not found")
    return found


def _show(transaction: Transaction) -> dict[str, object]:
    return transaction._asdict() | {"id": str(transaction.id)}


async def _deliver(settings: Settings, wanted: GatewaySettings) -> None:
    from laneway.engine import Broker
    from laneway.gateway.gateway import open_gateway
    from laneway.gateway.process import DeliveryProcess

    if not wanted.targets:
        raise LanewayError(
            "the gateway has no targets. Add one to laneway.toml with: laneway gateway target add"
        )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with open_database(settings.environment, settings.data_dir) as dsn:
        engine = EngineSettings(connections=settings.connections)
        if not engine.connections.have_sessions:
            engine = engine.without_sessions()
        async with Broker(dsn, engine) as broker, open_gateway(wanted, broker) as opened:
            names = ", ".join(opened.places)
            tell(f"laneway gateway delivers to {names}, {wanted.concurrency} calls at once")
            await DeliveryProcess(opened).run(stop)
            tell("laneway gateway stopped")
