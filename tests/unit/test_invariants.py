"""ARCHITECTURE.md lists the broker's invariants, and every one of them has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_invariant_has_a_test_and_every_reference_an_invariant() -> None:
    listed = _list_invariants()
    named: set[int] = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for numbers in re.findall(r"mark\.invariant\(([\d, ]+)\)", path.read_text()):
            named.update(int(number) for number in numbers.split(","))
    assert named == set(listed)


def test_invariants_are_numbered_without_holes() -> None:
    listed = _list_invariants()
    assert listed == list(range(1, len(listed) + 1))


def _list_invariants() -> list[int]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("\n## Invariants\n")[2].partition("\n## ")[0]
    return [int(number) for number in re.findall(r"^(\d+)\. \*\*", section, re.MULTILINE)]
