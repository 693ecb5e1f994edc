"""Each code block of README and docs is run by a test, or is marked with the reason why it is not."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

from tests.documents.blocks import DOCUMENTS, ROOT, find_block, read_blocks
from tests.documents.test_shell_blocks import ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.documents.blocks import Block

# Whose tests run single blocks, named by their marks.
MODULES = (
    "tests.chain.test_document",
    "tests.documents.test_gateway_blocks",
    "tests.documents.test_python_blocks",
    "tests.documents.test_shell_blocks",
    "tests.packaging.test_wheel",
    "tests.protocol.queen.test_consumers",
    "tests.spark.test_documents",
)


def test_every_block_is_run_or_says_why_not() -> None:
    by_a_test = set(find_marked())
    left = [
        str(block)
        for block in list_blocks()
        if block.reason is None and not is_run_with_its_document(block) and block not in by_a_test
    ]
    assert left == [], "run it in tests/documents, or put <!-- not run: REASON --> before it"


def test_blocks_that_are_not_run_are_these() -> None:
    """A new one is added here, so that somebody has thought about it."""
    reasons = {(block.document, block.reason) for block in list_blocks() if block.reason}
    assert sorted(document for document, _ in reasons) == [
        "CONTRIBUTING.md",
        "CONTRIBUTING.md",
        "docs/benchmarks.md",
        "docs/benchmarks.md",
        "docs/functions.md",
        "docs/releasing.md",
        "docs/rest.md",
        "docs/spark.md",
    ]


def test_every_block_has_a_known_language() -> None:
    known = {"dotenv", "python", "sh", "sql", "toml"}
    assert [str(block) for block in list_blocks() if block.language not in known] == []


def test_every_fence_is_one_of_a_block() -> None:
    """A fence that is read otherwise than it is shown would hide the blocks behind it."""
    for document in DOCUMENTS:
        fences = [
            line
            for line in (ROOT / document).read_text().splitlines()
            if line.strip().startswith("```")
        ]
        openings, closings = fences[::2], fences[1::2]
        assert [line.strip() for line in closings] == ["```"] * len(openings), document


def list_blocks() -> list[Block]:
    return [block for document in DOCUMENTS for block in read_blocks(document)]


def is_run_with_its_document(block: Block) -> bool:
    """Tell whether the tests that take all blocks of a language run it."""
    if block.language == "sh":
        return not any(words in block.text for words in ELSEWHERE)
    return block.language == "sql"


def find_marked() -> Iterator[Block]:
    for name in MODULES:
        for value in vars(importlib.import_module(name)).values():
            for mark in getattr(value, "pytestmark", ()):
                if isinstance(mark, pytest.Mark) and mark.name == "document":
                    yield find_block(*mark.args)
