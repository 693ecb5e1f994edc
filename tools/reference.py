"""Write docs/functions.md from the headers of the SQL files.

`python -m tools.reference` writes the file; with --check it only reports whether it is current.
"""

from __future__ import annotations

import re
import sys
from itertools import groupby, pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.sql.package import load_package

if TYPE_CHECKING:
    from laneway.sql.package import Routine

DOCUMENT = Path("docs/functions.md")

_OPENING = """\
# SQL functions and views

Every change of state goes through these functions. `make docs` writes this page from the headers of
the files in `src/laneway/sql/`; edit those. In your own code, call only the functions under "api"
and read only the views: the other functions serve the broker and change without notice.

<!-- no block is run: these are signatures, written by `make docs` -->
"""

_VIEWS = "What your own code may read. [sql.md](sql.md) shows how."

_FOLDERS = {
    "api": "What your own code may call. [sql.md](sql.md) shows how.",
    "activity": "Events, message histories, anomalies and what consumers did.",
    "claim": "Deliver messages to consumers.",
    "gateway": "Transactions of the gateway, its targets and webhook endpoints.",
    "groups": "Consumer groups, their readers and positions.",
    "kv": "Keys and values.",
    "lake": "What Spark reads from the log and stages for it.",
    "push": "Append messages to the log.",
    "queues": "Queues, counts, lists of messages and changes to single messages.",
    "retention": "Segments of the log, and removing what is no longer needed.",
    "settle": "Ack, nack, release, extend and expire leases; dead letters.",
    "sqs": "Move tasks and receive attempts of the SQS endpoint.",
    "streams": "Transactions, leases, subscriptions, positions, locks, traces and reads of streams.",
    "timers": "Messages to push at a time.",
    "workers": "Registered workers and their heartbeats.",
    "workflows": "Runs, steps and schedules.",
}

# What becomes an item of a list: an argument, an indented case, the locks, the errors.
_ITEM = re.compile(r"   | p_\w+(, p_\w+)*: | ?(Locks|Errors): ")
_LOCKS_OR_ERRORS = re.compile(r"(?<=\.) (?=(?:Locks|Errors): )")

_SIGNATURE = re.compile(
    r"create or replace function laneway\.(\w+)\s*\((.*?)\)\s*(?=returns|language)"
    r"(?:returns (.*?))?\s*language",
    re.DOTALL,
)


def render() -> str:
    """Return the document: what other people may call (`api` and the views) first, then by folder."""
    package = load_package()
    folders = {
        folder: list(functions)
        for folder, functions in groupby(package.functions, key=lambda function: function.folder)
    }
    views = [f"### `laneway.{view.name}`\n\n{_header(view)}\n" for view in package.views]
    parts = [
        _OPENING,
        *_render_folder("api", folders.pop("api")),
        f"## Views\n\n{_VIEWS}\n",
        *views,
    ]
    for folder, functions in folders.items():
        parts += _render_folder(folder, functions)
    return "\n".join(parts)


def _render_folder(folder: str, functions: list[Routine]) -> list[str]:
    return [
        f"## Functions: {folder}\n\n{_FOLDERS[folder]}\n",
        *(
            f"### `laneway.{function.name}`\n\n```sql\n{_signature(function)}\n```\n\n{_header(function)}\n"
            for function in functions
        ),
    ]


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
    """Return the comment at the top of a file, with a list of arguments, cases, locks and errors."""
    blocks: list[str] = []
    for line in takewhile(lambda line: line.startswith("--"), routine.text.splitlines()):
        for part in _LOCKS_OR_ERRORS.split(line.removeprefix("--").rstrip()):
            if _ITEM.match(part):
                blocks.append(f"- {part.strip()}")
            elif not blocks or (blocks[-1].startswith("-") and part.startswith(" Return ")):
                blocks.append(part.strip())
            else:
                blocks[-1] += f" {part.strip()}"
    text = blocks[0]
    for before, block in pairwise(blocks):
        in_list = before.startswith("-") and block.startswith("-")
        text += f"\n{block}" if in_list else f"\n\n{block}"
    return text


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
