"""The walk-throughs of the gateway: a target, a server that delivers, and a client."""

from __future__ import annotations

import os
import shutil
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import pytest

from tests.documents.blocks import ROOT
from tests.documents.shell import run_shell
from tests.documents.test_shell_blocks import list_shell_blocks

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = "examples/gateway"
# One process has one of these loopback addresses, so the ports may be those that are printed.
ADDRESS = str(IPv4Address("127.0.0.0") + os.getpid())

pytestmark = pytest.mark.timeout(400)


def run_blocks(document: str, folder: Path, dsn: str) -> str:
    """Run a document's blocks in a copy of the repository's examples; return what they print."""
    shutil.copytree(ROOT / EXAMPLE, folder / EXAMPLE)
    settings = folder / EXAMPLE / "laneway.toml"
    settings.write_text(settings.read_text().replace("127.0.0.1:", f"{ADDRESS}:"))
    text = "\n".join(list_shell_blocks(document)).replace("127.0.0.1:", f"{ADDRESS}:")
    start = folder if document.startswith("docs") else folder / EXAMPLE
    environment = {"DATABASE_URL": dsn, "LANEWAY_HOST": ADDRESS, "LANEWAY_PORT": "3001"}
    return run_shell(start, text, **environment).stdout


def test_walk_through_ends_with_a_verified_webhook(database: str, folder: Path) -> None:
    printed = run_blocks("docs/gateway.md", folder, database)
    assert "HTTP/1.1 202 Accepted" in printed
    assert "transaction.status.updated" in printed
    assert '"result":{"mail": "mail-3"}' in printed
    assert "to is not an address" in printed


def test_example_shows_the_transactions(database: str, folder: Path) -> None:
    printed = run_blocks(f"{EXAMPLE}/README.md", folder, database)
    assert "transaction.status.updated" in printed
    assert "queue_depth" in printed


@pytest.mark.document("docs/gateway.md", "[gateway.targets.mail]")
def test_settings_shown_are_those_of_the_example(texts: list[str]) -> None:
    assert texts == [(ROOT / EXAMPLE / "laneway.toml").read_text()]
