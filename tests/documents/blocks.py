"""The code blocks of README and docs: which there are, and which are marked as not run.

A block is run by a test, or the line before it is `<!-- not run: REASON -->`, or the document has
`<!-- no block is run: REASON -->`. A block of text, or without a language, is a drawing or an output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
)

_DOCUMENT = re.compile(r"^<!-- no block is run: (.+) -->$", re.MULTILINE)
_BLOCK = re.compile(
    r"^(?:(?P<indent> *)<!-- not run: (?P<reason>[^\n]+) -->\n)?"
    r" *```(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block; line: that of its first statement; reason: why it is not run, or None."""

    document: str
    line: int
    language: str
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def read_blocks(document: str) -> list[Block]:
    """Return the document's blocks, but for drawings and outputs, in their order."""
    text = (ROOT / document).read_text()
    whole = _DOCUMENT.search(text)
    return [
        Block(
            document,
            text.count("\n", 0, match.start("text")) + 1,
            match["language"],
            dedent(match["text"]),
            whole[1] if whole else match["reason"],
        )
        for match in _BLOCK.finditer(text)
        if match["language"] not in {"", "text"}
    ]


def find_block(document: str, words: str) -> Block:
    """Return the one block to run that contains these words."""
    found = [block for block in read_blocks(document) if words in block.text and not block.reason]
    assert len(found) == 1, f"{document} has {len(found)} blocks to run that contain {words!r}"
    return found[0]
