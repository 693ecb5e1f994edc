"""Fixtures of every test of the SQL functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Session


@pytest.fixture
async def session(connect: Connect) -> Session:
    """Return a first connection to the test's database; further ones come from connect."""
    return await connect()
