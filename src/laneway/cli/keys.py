"""The commands `laneway key`: create, list and revoke API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from laneway.cli.connections import with_installed_connection
from laneway.cli.output import Output
from laneway.cli.stdio import tell
from laneway.library.connection import Connection

key = typer.Typer(
    no_args_is_help=True, help="Create, list and revoke API keys.", rich_markup_mode=None
)

_COLUMNS = ("id", "name", "role", "queues", "created_at", "revoked_at")


@key.command("create")
@with_installed_connection
async def create(
    connection: Connection,
    output: Output,
    *,
    role: Annotated[str, typer.Option(help="Rights of the API key: read, write or admin.")],
    queue: Annotated[
        str | None, typer.Option(help="Limit the API key to queues, by a pattern such as mail-*.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the API key (default: its id).")] = None,
) -> None:
    """Create an API key and print it. It is not shown again.

    Once an API key exists, the server requires one.
    """
    if queue == "":
        raise typer.BadParameter("--queue is empty: use a pattern such as 'mail-*', or omit it")
    made = await connection.admin.create_key(role.lower(), queues=queue, name=name)  # type: ignore[arg-type]
    reach = f' for queues matching "{queue}"' if queue else ""
    tell(
        f"for SQS: access key id {made.sqs_access_key_id},"
        f" secret access key {made.sqs_secret_access_key}"
    )
    tell(f"API key {made.key_id}, role {role.lower()}{reach}; it is not shown again:")
    # The only output on stdout, for scripts.
    output.done(
        made.text,
        id=made.key_id,
        key=made.text,
        sqs_access_key_id=made.sqs_access_key_id,
        sqs_secret_access_key=made.sqs_secret_access_key,
    )


@key.command("list")
@with_installed_connection
async def list_(
    connection: Connection,
    output: Output,
    *,
    revoked: Annotated[bool, typer.Option("--revoked", help="Include revoked API keys.")] = False,
) -> None:
    """List API keys, without their secrets."""
    found = await connection.admin.list_keys(revoked=revoked)
    rows = [
        {
            "id": item.key_id,
            "name": item.name,
            "role": str(item.role),
            "queues": item.pattern or "all",
            "created_at": item.created_at,
            "revoked_at": item.revoked_at,
        }
        for item in found
    ]
    output.rows(rows, _COLUMNS)


@key.command("revoke")
@with_installed_connection
async def revoke(
    connection: Connection,
    output: Output,
    key_id: Annotated[str, typer.Argument(help="API key id, as `laneway key list` shows it.")],
) -> None:
    """Revoke an API key."""
    await connection.admin.revoke_key(key_id)
    output.done(f"API key {key_id} revoked; running servers refuse it within seconds", id=key_id)
