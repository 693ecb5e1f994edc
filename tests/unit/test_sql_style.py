"""The check of the SQL files finds what it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.sql_style import check_file, check_protocol, check_tree

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """\
-- Return 1. Locks: none. Errors: none.
create or replace function laneway.one() returns int
language sql
as $$
  select 1 -- NOT a keyword, nor are 'THIS' and "THAT"
$$;
"""


def test_well_formed_function_passes() -> None:
    assert list(check_file("function", "one", GOOD)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("select 1", "select 1" + " " * 120 + "+ 1", "columns"),
        ("laneway.one", "laneway.two", "it must create laneway.one"),
        ("create or replace", "select 1;\ncreate table a ();\ncreate or replace", "2 create"),
        ("-- Return 1. ", "-- ", "what it is for"),
        ("Locks: none. ", "", "Locks:"),
        ("Errors: none.", "", "Errors:"),
        ("  select", "  SELECT", 'line 5: write "SELECT" in lower case'),
    ],
)
def test_each_fault_is_found(old: str, new: str, problem: str) -> None:
    [found] = check_file("function", "one", GOOD.replace(old, new))
    assert problem in found


def test_views_need_no_locks_and_migrations_only_short_lines() -> None:
    view = "-- All.\ncreate or replace view laneway.all as\n  select 1;\n"
    assert list(check_file("view", "all", view)) == []
    assert list(check_file("migration", "029_any", "CREATE TABLE a ();\n")) == []
    assert list(check_file("migration", "029_any", "-" * 121)) != []


def test_queries_have_short_lines_in_lower_case(tmp_path: Path) -> None:
    (tmp_path / "all.sql").write_text("SELECT 1\n" + "-" * 121)
    assert len(list(check_tree(tmp_path))) == 2


def test_released_migrations_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    for name in ("027_old.sql", "028_new.sql"):
        (folder / name).write_text("-" * 121)
    [problem] = check_tree(tmp_path)
    assert "028_new.sql" in problem


def test_long_function_needs_comments_between_its_parts() -> None:
    body = "  select 1;\n" * 60
    function = GOOD.replace("  select 1 -- NOT a keyword, nor are 'THIS' and \"THAT\"\n", "{}")
    [problem] = check_file("function", "one", function.format(body + body))
    assert "have no comment" in problem
    assert (
        list(check_file("function", "one", function.format(f"{body}  -- The rest.\n{body}"))) == []
    )


@pytest.mark.parametrize("folder", ["functions/push", "views"])
def test_protocols_are_named_only_where_they_are_served(tmp_path: Path, folder: str) -> None:
    text = "-- Of SQS. Locks: none. Errors: none.\ncreate or replace {} laneway.one\n;\n"
    for where in (folder, "functions/sqs"):
        (tmp_path / where).mkdir(parents=True)
        kind = where.split("/")[0].removesuffix("s")
        (tmp_path / where / "one.sql").write_text(text.format(kind))
    [problem] = check_tree(tmp_path)
    assert f"{folder}/one.sql" in problem
    assert '"SQS" belongs to a protocol' in problem


@pytest.mark.parametrize(
    "code", ["q.options -> 'queen'", "options #>> '{sqs,arn}'", "options->'any'", "maxSize"]
)
def test_options_of_a_protocol_are_found(code: str) -> None:
    assert len(list(check_protocol(code))) == 1
