"""Every setting, command and dependency is documented."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.cli import environment
from laneway.cli.main import app

if TYPE_CHECKING:
    import typer

ROOT = Path(__file__).parents[2]


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "command.md").read_text()
    missing = [name for name in list_commands() if f"`{name}`" not in text]
    assert missing == []


def test_every_variable_is_documented() -> None:
    text = (ROOT / "docs" / "command.md").read_text()
    variables = re.findall(r"^([A-Z_]{3,}) ", environment.__doc__ or "", re.MULTILINE)
    assert variables == ["DATABASE_URL", *(f"POSTGRES_{part}" for part in environment._PARTS)]
    assert [name for name in variables if f"`{name}`" not in text] == []


def test_every_dependency_has_a_documented_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = set()
    extras = project["project"]["optional-dependencies"]
    for group in (
        project["project"]["dependencies"],
        *extras.values(),
        *project["dependency-groups"].values(),
    ):
        for entry in group:
            if isinstance(entry, str):
                wanted.add(re.split(r"[<>=;\[ ]", entry)[0])
    text = (ROOT / "docs" / "dependencies.md").read_text()
    assert set(re.findall(r"^\| ([a-z0-9-]+) \|", text, re.MULTILINE)) - {"package"} == wanted


def test_every_linked_document_exists() -> None:
    links = re.findall(r"\]\(([^):]+)\)", (ROOT / "README.md").read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_no_document_has_conflict_markers() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    left = [
        each.name
        for each in documents
        if re.search(r"^(<{7}|>{7}) ", each.read_text(), re.MULTILINE)
    ]
    assert left == []


def list_commands(group: typer.Typer = app, path: str = "laneway") -> list[str]:
    commands = [
        f"{path} {command.name or getattr(command.callback, '__name__', '')}"
        for command in group.registered_commands
    ]
    for nested in group.registered_groups:
        assert nested.typer_instance is not None
        commands += list_commands(nested.typer_instance, f"{path} {nested.name}")
    return commands
