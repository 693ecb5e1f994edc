"""Blocks of shell run as printed, one after the other, except for the addresses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.documents.blocks import DOCUMENTS, ROOT, read_blocks
from tests.documents.shell import run_shell

if TYPE_CHECKING:
    from pathlib import Path

    from tests.documents.conftest import Place

# These install what they run, or need Spark: tests/packaging and tests/spark run them.
ELSEWHERE = ("pip install", "uvx ", "make run", "laneway lake ")

# What a document takes for granted, done before its first block.
GIVEN = {
    "README.md": 'mkdir -p .venv/bin && ln -s "$(command -v laneway)" .venv/bin/laneway',
    "docs/activity.md": "laneway queue create mail && laneway enqueue '{}' --queue mail",
    "docs/command.md": 'echo \'{"to": "bob@example.org"}\' > messages.jsonl',
    "docs/sqs.md": f"cp {ROOT}/examples/sqs/worker.py . && KEY=lw_1a2b3c4d",
    "docs/streams.md": "laneway queue create orders --ordered",
}

# What a document's blocks print, beside doing without an error.
PRINTED = {
    "README.md": ("ada@example.org", "Message acknowledged"),
    "docs/activity.md": ('"action":"enqueue"', '"message_id":"2-1-1"'),
    "docs/command.md": ("ada@example.org",),
    "docs/rest.md": ("ada@example.org", "Message acknowledged"),
    "docs/server.md": ('"queues"',),
    "docs/sqs.md": ("working on",),
}

# These need another server than the one of `place`.
APART = {"docs/embedded.md", "docs/gateway.md"}

pytestmark = pytest.mark.timeout(400)


def list_shell_blocks(document: str) -> list[str]:
    return [
        block.text
        for block in read_blocks(document)
        if block.language == "sh"
        and block.reason is None
        and not any(words in block.text for words in ELSEWHERE)
    ]


@pytest.mark.parametrize(
    "document",
    [each for each in DOCUMENTS if list_shell_blocks(each) and each not in APART],
)
def test_shell_blocks_run(document: str, place: Place) -> None:
    text = place.fill("\n".join([GIVEN.get(document, ""), *list_shell_blocks(document)]))
    done = run_shell(place.folder, text, answers="y\n", DATABASE_URL=place.dsn)
    assert [words for words in PRINTED.get(document, ()) if words not in done.stdout] == []


def test_shell_blocks_run_on_the_bundled_database(folder: Path) -> None:
    text = "\n".join(list_shell_blocks("docs/embedded.md"))
    done = run_shell(folder, text, answers="select 'it ' || 'works';\n")
    assert "it works" in done.stdout


@pytest.mark.document("docs/command.md", "LANEWAY_PORT=3002")
@pytest.mark.document("docs/command.md", "port = 3002")
def test_settings_are_read_from_files(texts: list[str], folder: Path) -> None:
    for name, text in zip((".env", "laneway.toml"), texts, strict=True):
        (folder / name).write_text(text)
        done = run_shell(folder, "unset LANEWAY_PORT; laneway config --format json")
        (folder / name).unlink()
        port = next(each for each in json.loads(done.stdout) if each["setting"] == "port")
        assert port["value"] == "3002"
        assert name in port["from"]
