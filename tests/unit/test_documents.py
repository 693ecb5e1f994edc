"""Every setting, command and dependency is documented, and documents name what exists."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.cli.known_settings import SERVER_SETTINGS, SETTINGS
from laneway.cli.main import app

if TYPE_CHECKING:
    import typer

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs", "examples", "requirements", "src", "tests", "tools")

# Paths that documents name and that only exist after a command has run.
CREATED = {"benchmarks/results/SCENARIO-DATE.json", "dist/", "laneway.toml"}


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "command.md").read_text()
    missing = [name for name in list_commands() if f"`{name}`" not in text]
    assert missing == []


def test_every_variable_is_documented() -> None:
    text = (ROOT / "docs" / "command.md").read_text()
    variables = [name for setting in (*SETTINGS, *SERVER_SETTINGS) for name in setting.variables]
    assert [name for name in variables if f"`{name}`" not in text] == []


def test_every_former_variable_is_documented() -> None:
    text = (ROOT / "docs" / "command.md").read_text()
    former = [setting.former for setting in (*SETTINGS, *SERVER_SETTINGS) if setting.former]
    assert [name for name in former if f"`{name}`" not in text] == []


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


def test_every_path_in_the_documents_exists() -> None:
    existing = list_paths()
    wrong = [
        f"{document.name}: {named}"
        for document in list_documents()
        if document.name != "CHANGELOG.md"  # its older entries name what there was
        for named in find_named_paths(document.read_text())
        if not exists(named, existing)
    ]
    assert wrong == []


def test_layers_are_those_that_are_enforced() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["type"] == "layers")
    section = (
        (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Code\n")[2].partition("\n## ")[0]
    )
    documented = re.findall(r"^\d+\. (.+)$", section, re.MULTILINE)
    assert [re.findall(r"`(\w+)`", each) for each in documented] == [
        re.findall(r"\w+", each) for each in layers
    ]


def test_no_document_has_conflict_markers() -> None:
    left = [
        each.name
        for each in list_documents()
        if re.search(r"^(<{7}|>{7}) ", each.read_text(), re.MULTILINE)
    ]
    assert left == []


def list_documents() -> list[Path]:
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def find_named_paths(text: str) -> list[str]:
    """Return what stands in backticks and is a path below the repository's root.

    A path that starts with a slash or a dot is one of a URL or of a machine.
    """
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [
        each
        for each in re.findall(r"`([\w-][\w./-]*)`", prose)
        if "/" in each or re.search(r"\.(json|lua|md|mjs|py|sql|toml|txt)$", each)
    ]


def list_paths() -> list[str]:
    nested = (each for folder in FOLDERS for each in (ROOT / folder).rglob("*"))
    return [str(each.relative_to(ROOT)) for each in (*ROOT.iterdir(), *nested)]


def exists(named: str, existing: list[str]) -> bool:
    """Return whether a path ends with the named one, whose words in capitals stand for any name."""
    if named in CREATED:
        return True
    pattern = re.sub(r"[A-Z]{2,}", "*", named.rstrip("/"))
    return any(fnmatchcase(f"/{each}", f"*/{pattern}") for each in existing)


def list_commands(group: typer.Typer = app, path: str = "laneway") -> list[str]:
    commands = [
        f"{path} {command.name or getattr(command.callback, '__name__', '')}"
        for command in group.registered_commands
    ]
    for nested in group.registered_groups:
        assert nested.typer_instance is not None
        commands += list_commands(nested.typer_instance, f"{path} {nested.name}")
    return commands
