"""Shipped SQL files are numbered and have unique names."""

from __future__ import annotations

import pytest

from laneway.sql.errors import PackageBroken
from laneway.sql.package import Migration, Package, Routine, load_package


def test_shipped_files_load() -> None:
    assert load_package().version >= 0


def test_gap_between_migrations_is_refused() -> None:
    with pytest.raises(PackageBroken, match="without gaps"):
        Package(migrations=(Migration(1, "a", ""), Migration(3, "b", "")))


def test_function_and_view_of_one_name_are_refused() -> None:
    with pytest.raises(PackageBroken, match="share a name"):
        Package(functions=(Routine("function", "a", ""),), views=(Routine("view", "a", ""),))


def test_checksum_follows_the_text() -> None:
    assert Migration(1, "a", "one").checksum != Migration(1, "a", "two").checksum
