"""Reading of settings from flags, environment variables, .env and the settings file."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from laneway.cli.errors import FlagInvalid, SettingInvalid, explain
from laneway.cli.known_settings import CLIENT_SETTINGS, PREFIX, SETTINGS
from laneway.cli.settings import Chosen, Settings
from laneway.cli.settings_file import read_file
from laneway.domain.dsn import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laneway.cli.known_settings import Setting, Value
    from laneway.cli.settings import Source
    from laneway.cli.settings_file import SettingsFile

DOTENV = Path(".env")

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}
_KINDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
_KNOWN = {item.name: item for item in (*SETTINGS, *CLIENT_SETTINGS)}
# How alike a variable and a setting's name are, from 0 to 1, for the variable to be taken for a mistyped one.
_ALIKE = 0.75


class _Sources(NamedTuple):
    flags: Mapping[str, Value]
    variables: Mapping[str, str]
    dotenv: Mapping[str, str]
    file: SettingsFile


def read_settings(
    flags: Mapping[str, Value],
    variables: Mapping[str, str],
    file: Path | None = None,
    *,
    dotenv: Mapping[str, str] | None = None,
    wanted: Sequence[Setting] = SETTINGS,
) -> Settings:
    """Read the wanted settings from all sources. A file that is named must exist.

    dotenv: the variables in .env.
    """
    sources = _Sources(flags, variables, dotenv or {}, read_file(file))
    chosen = {setting.name: _choose(setting, sources) for setting in wanted}
    return Settings(chosen, sources.file)


def read_dotenv(path: Path = DOTENV) -> dict[str, str]:
    """Return the variables of a .env file; none without one. References to variables stay as they are."""
    if not path.is_file():
        return {}
    from dotenv.parser import parse_stream

    variables = {}
    try:
        with path.open(encoding="utf-8") as lines:
            for binding in parse_stream(lines):
                if binding.error:
                    raise SettingInvalid(
                        f"line {binding.original.line} of {path}",
                        "cannot be read: write NAME=value, with quotes around special characters",
                    )
                if binding.key is not None and binding.value is not None:
                    variables[binding.key] = binding.value
    except (OSError, ValueError) as error:
        raise SettingInvalid(str(path), f"cannot be read: {explain(error)}") from error
    return variables


def list_former(settings: Settings, variables: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that version 0.2.0 read and that is not read any more."""
    return [
        f"environment variable {setting.former} is not read since version 0.3.0: set"
        f" {setting.variable} instead, or ignore this if it belongs to another program"
        for setting in (chosen.setting for chosen in settings.chosen.values())
        if setting.former is not None
        and variables.get(setting.former)
        and settings.chosen[setting.name].source == "default"
        # Many programs have an API_KEY; it was only used with a server.
        and (setting.name != "api_key" or settings["server_url"] is not None)
    ]


def list_mistyped(variables: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable LANEWAY_… that no setting has, but one has nearly."""
    names = {
        each: each.removeprefix(PREFIX).lower() for each in variables if each.startswith(PREFIX)
    }
    return [
        f"variable {variable} is not a setting: did you mean {_KNOWN[near].variable}?"
        for variable, name in names.items()
        if name not in _KNOWN
        for near in get_close_matches(name, _KNOWN, n=1, cutoff=_ALIKE)
    ]


def _choose(setting: Setting, sources: _Sources) -> Chosen:
    """Return the setting's value from the first source that has it."""
    flag = sources.flags.get(setting.name)
    if flag is not None:
        try:
            return Chosen(setting, _check(setting, flag, setting.flag), "flag", setting.flag)
        except SettingInvalid as error:
            raise FlagInvalid(error.where, error.problem) from error
    from_variables: tuple[tuple[Source, Mapping[str, str], str], ...] = (
        ("environment", sources.variables, "environment variable {}"),
        (".env", sources.dotenv, "{} in .env"),
    )
    for source, variables, place in from_variables:
        for name in setting.variables:
            # An empty variable counts as not set, as compose files leave them.
            if text := variables.get(name):
                where = place.format(name)
                value = _check(setting, _parse(setting, text, where), where)
                return Chosen(setting, value, source, where)
    if setting.name in sources.file.settings:
        where = f"{setting.name} in {sources.file.path}"
        value = _check(setting, sources.file.settings[setting.name], where)
        return Chosen(setting, value, "file", where)
    if setting.fallback is not None:
        found = _choose(_KNOWN[setting.fallback], sources)
        return Chosen(setting, found.value, found.source, found.where)
    return Chosen(setting, setting.default, "default", "default")


def _parse(setting: Setting, text: str, where: str) -> Value:
    if setting.kind is str:
        return text
    if setting.kind is bool:
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise SettingInvalid(where, f"is {text!r}: set {_KINDS[bool]}")
    try:
        return setting.kind(text)
    except ValueError:
        raise SettingInvalid(where, f"is {text!r}: set {_KINDS[setting.kind]}") from None


def _check(setting: Setting, value: Any, where: str) -> Value:
    if setting.kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if setting.kind is str and isinstance(value, int | float | bool):
        value = str(value).lower()
    if type(value) is not setting.kind or value != value:  # noqa: PLR0124 - NaN differs from itself
        shown = HIDDEN if setting.secret else repr(value)
        raise SettingInvalid(where, f"is {shown}: set {_KINDS[setting.kind]}")
    if setting.choices is not None:
        value = str(value).lower()
        if value not in setting.choices:
            raise SettingInvalid(where, f"is {value!r}: set one of {', '.join(setting.choices)}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if setting.low is not None and value < setting.low:
            raise SettingInvalid(where, f"is {value}: set {setting.low:g} or more")
        if value > setting.high:
            raise SettingInvalid(where, f"is {value}: set {setting.high:.0f} or less")
    checked: Value = value
    return checked
