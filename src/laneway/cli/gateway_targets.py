"""The commands `laneway gateway target`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from laneway.cli.errors import SettingInvalid
from laneway.cli.execution import reporting
from laneway.cli.flags import ON_NEITHER, with_settings
from laneway.cli.gateway_settings import make_gateway_settings
from laneway.cli.known_settings import GATEWAY_SETTINGS
from laneway.cli.output import Format, FormatOption, Output
from laneway.cli.settings import Settings
from laneway.cli.settings_file import read_file

target = typer.Typer(
    no_args_is_help=True, help="Add and list the gateway's targets.", rich_markup_mode=None
)


@target.command("add")
@with_settings(GATEWAY_SETTINGS, ON_NEITHER)
def add(
    settings: Settings,
    name: Annotated[str, typer.Argument(help="Name: a-z, 0-9, hyphen and underscore.")],
    *,
    url: Annotated[list[str], typer.Option(help="URL to call; several are balanced.")],
    kind: Annotated[str, typer.Option(help="Kind of target: http or openzeppelin.")] = "http",
    header: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE. A value env:VARIABLE or file:PATH is read there."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE, an option of the kind. The value is read as a header's."),
    ] = None,
    schema: Annotated[str | None, typer.Option(help="File with the JSON schema.")] = None,
    redelivery: Annotated[
        str, typer.Option(help="If a call's result is unknown: at-most-once or at-least-once.")
    ] = "at-most-once",
    attempts: Annotated[int | None, typer.Option(help="Calls before it is given up.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Calls at once, in all.")] = None,
    rate: Annotated[float | None, typer.Option(help="Calls per second, in all.")] = None,
    private_network: Annotated[
        list[str] | None, typer.Option(help="Private network of the target: 10.0.0.0/8.")
    ] = None,
    callback_url: Annotated[str | None, typer.Option(help="URL that is told of changes.")] = None,
    callback_secret: Annotated[
        list[str] | None, typer.Option(help="Secret of these webhooks; each one signs.")
    ] = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Add a target to laneway.toml. Servers and gateways read it when they start."""
    values: dict[str, Any] = {"kind": kind, "urls": url, "redelivery": redelivery}
    values |= {
        key: value
        for key, value in {
            "attempts": attempts,
            "concurrency": concurrency,
            "rate": rate,
            "private_networks": private_network,
            "callback_url": callback_url,
            "callback_secrets": callback_secret,
        }.items()
        if value is not None
    }
    with reporting():
        if name in settings.file.get_table("gateway", "targets"):
            raise SettingInvalid(str(settings.file.path), f'already has a target "{name}": edit it')
        path = settings.file.path
        before = settings.file.text
        text = before and before.rstrip("\n") + "\n\n"
        text += f"[gateway.targets.{json.dumps(name)}]\n"
        text += "".join(f"{key} = {_write(value)}\n" for key, value in values.items())
        options = [*(option or []), *([f"schema={schema}"] if schema is not None else [])]
        for key, given in (("headers", header), ("options", options)):
            if given:
                text += f"{key} = {_write_table(_split(given))}\n"
        path.write_text(text, encoding="utf-8")
        try:
            make_gateway_settings(Settings(settings.chosen, read_file(path)))
        except BaseException:
            path.write_text(before, encoding="utf-8") if before else path.unlink()
            raise
    Output(format_).done(f"target {name} added to {path}", target=name, file=str(path))


@target.command("list")
@with_settings(GATEWAY_SETTINGS, ON_NEITHER)
def list_(settings: Settings, *, format_: FormatOption = Format.TABLE) -> None:
    """List the targets of laneway.toml, without their secrets."""
    with reporting():
        found = make_gateway_settings(settings).targets
    rows = [
        {
            "name": each.name,
            "kind": each.kind,
            "urls": list(each.urls),
            "redelivery": str(each.redelivery),
            "attempts": each.retry.attempts,
            "concurrency": each.concurrency,
            "rate": each.rate,
        }
        for each in found
    ]
    Output(format_).rows(
        rows, ("name", "kind", "urls", "redelivery", "attempts", "concurrency", "rate")
    )


def _write(value: Any) -> str:
    """Return a value as TOML: its strings, numbers and lists are those of JSON."""
    return json.dumps(value, ensure_ascii=False)


def _split(given: list[str]) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise SettingInvalid(f'"{each}"', "is not of the form NAME=VALUE")
    return {name: value for name, _, value in (each.partition("=") for each in given)}


def _write_table(values: dict[str, str]) -> str:
    inner = ", ".join(f"{_write(key)} = {_write(value)}" for key, value in values.items())
    return f"{{ {inner} }}"
