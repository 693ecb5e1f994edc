"""Write docs/functions.md from the headers of the SQL files.

`python -m tools.reference` writes the file; with --check it only reports whether it is current.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.sql.package import load_package

if TYPE_CHECKING:
    from laneway.sql.package import Routine

DOCUMENT = Path("docs/functions.md")

_OPENING = """\
# SQL functions and views

All that changes state, one file each under `src/laneway/sql/`. Made from the files' own headers by
`make docs`; edit those.
"""

_SIGNATURE = re.compile(
    r"create or replace function laneway\.(\w+)\s*\((.*?)\)\s*(?=returns|language)"
    r"(?:returns (.*?))?\s*language",
    re.DOTALL,
)


def render() -> str:
    package = load_package()
    parts = [_OPENING, "## Views\n"]
    parts += [f"### `laneway.{view.name}`\n\n{_header(view)}\n" for view in package.views]
    parts.append("## Functions\n")
    parts += [
        f"### `laneway.{function.name}`\n\n```sql\n{_signature(function)}\n```\n\n{_header(function)}\n"
        for function in package.functions
    ]
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write the document, or with --check exit 1 if it is not current."""
    rendered = render()
    if "--check" not in arguments:
        DOCUMENT.write_text(rendered, encoding="utf-8")
        return 0
    if DOCUMENT.exists() and DOCUMENT.read_text(encoding="utf-8") == rendered:
        return 0
    sys.stderr.write(f"{DOCUMENT} is not current: run `make docs`\n")
    return 1


def _header(routine: Routine) -> str:
    lines = []
    for line in routine.text.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines)


def _signature(function: Routine) -> str:
    match = _SIGNATURE.search(function.text)
    if match is None:
        return f"laneway.{function.name}"
    name, arguments, returns = match.groups()
    answer = f"\n  returns {_squeeze(returns)}" if returns else ""
    return f"laneway.{name}({_squeeze(arguments)}){answer}"


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
