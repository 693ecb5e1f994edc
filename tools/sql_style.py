"""Check the style of the SQL files: line length, names, headers, parts, lower case, and no protocol in the core.

`python -m tools.sql_style` lists what is wrong and then exits 1.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("src/laneway/sql")
LONGEST_LINE = 120
# Lines of a function's body without a comment.
LONGEST_PART = 80

# Version 0.2.0 contains the migrations before this one, and some of them have longer lines. They stay as they are: the
# installer refuses a database in which it applied another text under the same number.
FIRST_CHECKED_MIGRATION = 28

# Subjects that serve one protocol. Elsewhere, an option that functions obey is a column, not a protocol's option.
PROTOCOL_FOLDERS = frozenset({"sqs", "streams"})

_CREATE = re.compile(r"^create\b.*", re.MULTILINE)
# Comments, strings, quoted names and the placeholders of format().
_NO_CODE = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|%\d*\$?[IL]")
_UPPER_CASE = re.compile(r"\b\w*[A-Z]\w*\b")
_PROTOCOL = re.compile(
    r"queen|maxSize|windowBuffer|\b(?:SQS|AWS|REST|Kafka)\b|\bsqs\b|options\s*(?:->|#>)\s*'"
)


def check_file(kind: str, name: str, text: str) -> Iterator[str]:
    """Yield what is wrong with a file: `name` is its stem, `kind` function, view, migration or query."""
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > LONGEST_LINE:
            yield f"line {number} has {len(line)} columns, {LONGEST_LINE} are allowed"
    if kind == "migration":
        return
    if kind != "query":
        yield from _check_create(kind, name, text)
        yield from _check_header(kind, text)
        yield from _check_parts(text)
    yield from _check_case(text)


def check_protocol(text: str) -> Iterator[str]:
    """Yield where a file that serves every protocol names one, or reads a protocol's options."""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _PROTOCOL.search(line):
            yield f'line {number}: "{found.group()}" belongs to a protocol, in {" or ".join(sorted(PROTOCOL_FOLDERS))}'


def check_tree(root: Path) -> Iterator[str]:
    """Yield what is wrong with the files under `root`, as `path: problem`."""
    for path in sorted(root.glob("*.sql")):
        yield from _check_path("query", path)
    for path in sorted(root.glob("functions/*/*.sql")):
        yield from _check_path("function", path)
    for path in sorted(root.glob("views/*.sql")):
        yield from _check_path("view", path)
    for path in sorted([*root.glob("functions/*/*.sql"), *root.glob("views/*.sql")]):
        if path.parent.name not in PROTOCOL_FOLDERS:
            for problem in check_protocol(path.read_text(encoding="utf-8")):
                yield f"{path}: {problem}"
    for path in sorted(root.glob("migrations/*.sql")):
        if int(path.name.split("_")[0]) >= FIRST_CHECKED_MIGRATION:
            yield from _check_path("migration", path)


def main() -> int:
    """Print the problems and return the exit status."""
    problems = list(check_tree(ROOT))
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


def _check_path(kind: str, path: Path) -> Iterator[str]:
    for problem in check_file(kind, path.stem, path.read_text(encoding="utf-8")):
        yield f"{path}: {problem}"


def _check_create(kind: str, name: str, text: str) -> Iterator[str]:
    created = _CREATE.findall(text)
    if len(created) != 1:
        yield f"{len(created)} create statements, there must be one"
    elif not re.match(rf"create or replace {kind} laneway\.{name}\b", created[0]):
        yield f"it must create laneway.{name}, as the file is called"


def _check_header(kind: str, text: str) -> Iterator[str]:
    header = re.match(r"(?:--[^\n]*\n)*", text)
    comment = header.group() if header else ""
    if not comment or re.match(r"-- (Locks|Errors):", comment):
        yield "the header must say what it is for"
    if kind == "function":
        for word in ("Locks:", "Errors:"):
            if word not in comment:
                yield f"the header must have {word}"


def _check_parts(text: str) -> Iterator[str]:
    """Yield each stretch of the body that is long and says nowhere what it is for."""
    in_body, begin = False, 0
    lines = text.splitlines()
    for number, line in enumerate([*lines, "--"], start=1):
        if in_body and line.lstrip().startswith("--"):
            if number - begin > LONGEST_PART:
                yield f"lines {begin} to {number - 1} have no comment: say what each part of the function does"
            begin = number
        elif not in_body and (line.startswith("as $") or line == "begin"):
            in_body, begin = True, number


def _check_case(text: str) -> Iterator[str]:
    # Keep the line breaks of what is cut out.
    code = _NO_CODE.sub(lambda found: "\n" * found.group().count("\n"), text)
    for number, line in enumerate(code.splitlines(), start=1):
        for word in _UPPER_CASE.findall(line):
            yield f'line {number}: write "{word}" in lower case'


if __name__ == "__main__":
    sys.exit(main())
