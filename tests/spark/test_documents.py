"""Blocks of docs/spark.md run as printed, with the Spark session of the other tests."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker import create_queue, push, settle_events
from tests.spark.test_command import call, folder

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.test_command import Call

__all__ = ["call", "folder"]  # fixtures


@pytest.mark.document("docs/spark.md", "open_session()")
def test_queue_is_read_written_and_streamed(
    texts: list[str],
    spark: SparkSession,
    database: str,
    tmp_path: Path,
) -> None:
    push(database, create_queue(database, "mail"), [1, 2, 3])
    create_queue(database, "review")
    text = texts[0].replace('"postgresql://…"', repr(database))
    for name in ("landed", "checkpoint"):
        # Java knows no other working directory than that in which it was started.
        text = text.replace(f'"{name}"', repr(str(tmp_path / name)))
    exec(compile(text, "docs/spark.md", "exec"), {})  # noqa: S102 - ours
    assert spark.read.parquet(os.fspath(tmp_path / "landed")).count() == 3


@pytest.mark.document("docs/spark.md", "laneway lake run")
def test_lake_commands_run(
    texts: list[str],
    call: Call,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    push(database, create_queue(database, "mail"), [1, 2, 3])
    create_queue(database, "mail-again")
    settle_events(database)
    monkeypatch.chdir(tmp_path)
    for line in texts[0].splitlines():
        laneway, lake, *arguments = shlex.split(line, comments=True)
        assert (laneway, lake) == ("laneway", "lake")
        code, text = call(*arguments)
        assert code == 0, text
    assert (tmp_path / "report.html").exists()
