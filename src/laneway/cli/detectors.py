"""The settings of detectors: the table [detectors] of laneway.toml, and installed packages."""

from __future__ import annotations

import re
from datetime import timedelta
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from laneway.activity.builtin import DETECTORS
from laneway.activity.custom_detectors import ProcessLost, load_detectors
from laneway.activity.settings import DetectorReference, DetectorSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laneway.activity.settings import ActivitySettings
    from laneway.cli.errors import SettingInvalid
    from laneway.cli.settings import Settings
    from laneway.cli.settings_file import SettingsFile

GROUP = "laneway.detectors"

_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_SHORTEST = 0.1
_LONGEST = 3600


def make_detector_settings(settings: Settings) -> DetectorSettings:
    """Return the detectors to load; those of the file first, then those of installed packages."""
    file = settings.file
    table = file.get_table("detectors")
    for target in table.get("load", []):
        if not _TARGET.fullmatch(target):
            raise _refuse(file, "load", f'contains "{target}": use module:name')
    both = sorted(set(table.get("enable", [])) & set(table.get("disable", [])))
    if both:
        raise _refuse(file, "disable", f'contains "{both[0]}", which is also in enable')
    seconds = table.get("time_limit_seconds", DetectorSettings().time_limit.total_seconds())
    if not _SHORTEST <= seconds <= _LONGEST:
        raise _refuse(
            file, "time_limit_seconds", f"is {seconds:g}: set {_SHORTEST:g} to {_LONGEST:g}"
        )
    listed = [
        DetectorReference(target=target, where=f"detectors.load in {file.path}")
        for target in table.get("load", [])
    ]
    installed = [
        DetectorReference(target=each.value, where=f'entry point "{each.name}" of {GROUP}')
        for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)
    ]
    return DetectorSettings(
        references=(*listed, *installed),
        enable=tuple(table.get("enable", [])),
        disable=tuple(table.get("disable", [])),
        time_limit=timedelta(seconds=seconds),
    )


async def check_detectors(settings: Settings, activity: ActivitySettings) -> None:
    """Load the detectors once, and refuse what the file has wrong.

    A detector of an installed package that cannot be loaded is reported when detectors run.
    """
    file = settings.file
    table = file.get_table("detectors")
    known = [detector.name for detector in DETECTORS]
    if activity.detectors.references:
        try:
            loaded = await load_detectors(activity)
        except ProcessLost as error:
            if table.get("load"):
                raise _refuse(file, "load", f"cannot be loaded: the process {error}") from error
            return
        for failure in loaded.failures:
            if failure.reference.target in table.get("load", []):
                problem = f'contains "{failure.reference.target}", which cannot be loaded: {failure.problem}'
                raise _refuse(file, "load", problem)
        known += [detector.name for detector in loaded.detectors]
    for key in ("enable", "disable"):
        for name in table.get(key, []):
            if name not in known:
                raise _refuse(file, key, _name_nearest(name, known))


def _name_nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1)
    advice = f'did you mean "{near[0]}"?' if near else f"use one of {', '.join(known)}"
    return f'contains the unknown detector "{name}": {advice}'


def _refuse(file: SettingsFile, key: str, problem: str) -> SettingInvalid:
    return file.refuse("detectors", key, problem=problem)
