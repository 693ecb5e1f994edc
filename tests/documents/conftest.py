"""What a block of the documents runs on: a new database, a server, and a directory of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.postgres import open_directory
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

_DATABASE = re.compile(r"postgresql://(me@[\w.:]+/\w+|…)")
_SERVER = "http://127.0.0.1:3001"


class Place(NamedTuple):
    """Where the addresses that documents print are when their blocks run."""

    dsn: str
    url: str
    folder: Path

    def fill(self, text: str) -> str:
        """Return the text with the addresses of this place."""
        return _DATABASE.sub(lambda _: self.dsn, text).replace(_SERVER, self.url)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield the directory in which a block runs: PostgreSQL's account may enter it."""
    with open_directory() as path:
        yield path


@pytest.fixture
async def place(database: str, folder: Path) -> AsyncIterator[Place]:
    async with run_laneway(database) as running:
        # Without the usual port, so that a shell needs no quotes around it.
        yield Place(database.removesuffix("&port=5432"), running.url, folder)
