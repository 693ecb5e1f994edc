"""The commands `laneway gateway`."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from laneway.cli.database import open_database
from laneway.cli.execution import execute
from laneway.cli.flags import ON_DATABASE, with_settings
from laneway.cli.gateway_settings import make_gateway_settings
from laneway.cli.known_settings import DATABASE_SETTINGS, GATEWAY_SETTINGS
from laneway.cli.settings import Settings
from laneway.cli.stdio import tell
from laneway.domain.errors import LanewayError

if TYPE_CHECKING:
    from laneway.gateway.settings import GatewaySettings

gateway = typer.Typer(
    no_args_is_help=True,
    help="Send accepted requests to their targets; show, retry and cancel transactions.",
    rich_markup_mode=None,
)


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
    wanted = make_gateway_settings(settings)
    if concurrency is not None:
        wanted = replace(wanted, concurrency=concurrency)
    execute(_run(settings, wanted))


async def _run(settings: Settings, wanted: GatewaySettings) -> None:
    from laneway.domain.settings import EngineSettings
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
