"""Blocks of SQL run as printed, except for the lease tokens."""

from __future__ import annotations

import re
from uuid import uuid4

import asyncpg
import pytest

from tests.documents.blocks import DOCUMENTS, read_blocks


def list_sql_blocks(document: str) -> list[str]:
    return [
        block.text
        for block in read_blocks(document)
        if block.language == "sql" and block.reason is None
    ]


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if list_sql_blocks(each)])
async def test_sql_blocks_run(document: str, database: str) -> None:
    text = "\n".join(list_sql_blocks(document)).replace("c7f0…", str(uuid4()))
    connection = await asyncpg.connect(database)
    try:
        for statement in re.sub(r"--.*", "", text).split(";"):
            if statement.strip():
                await connection.fetch(statement)
    finally:
        await connection.close()
