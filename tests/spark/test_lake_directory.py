"""A lake is in a directory; other locations are refused before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laneway.lake.errors import LakeMissing, OptionInvalid
from laneway.lake.job import run_once
from laneway.lake.location import find_folder
from laneway.lake.tables import check_lake, open_lake
from tests.spark.broker import create_queue, push, settle_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LANEWAY = str(Path(sys.executable).with_name("laneway"))
COMMANDS = (
    ("run",),
    ("report",),
    ("sql", "select 1"),
    ("offload",),
    ("replay", "--queue", "a"),
)
ELSEWHERE = {
    "s3://bucket/lake": "s3: is not supported",
    "S3A://bucket/lake": "s3a: is not supported",
    "gs://bucket": "gs: is not supported",
    "abfss://c@account.example/lake": "abfss: is not supported",
    "hdfs:/lake": "hdfs: is not supported",
    "hdfs:lake": "write ./hdfs:lake",
    "dbfs:/": "dbfs: is not supported",
    "http://example.org/lake": "http: is not supported",
    "C:\\lake": "Windows drives are not supported",
    "c:/lake": "Windows drives are not supported",
    "a:b": "write ./a:b",
    "file://host/lake": "a file URL needs an absolute path",
    "file:lake": "a file URL needs an absolute path",
    "file:///lake?x": "a file URL needs an absolute path",
    "": "it is empty",
}


@pytest.mark.parametrize("place", ELSEWHERE)
def test_other_locations_are_refused(spark: SparkSession, tmp_path: Path, place: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for take in (find_folder, check_lake, lambda at: open_lake(spark, at)):
            with pytest.raises(OptionInvalid) as caught:
                take(place)
            assert f'the lake cannot be at "{place}": ' in str(caught.value)
            assert ELSEWHERE[place] in str(caught.value)
            assert "such as /srv/lake" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["s3://bucket/lake", "hdfs:/lake", "C:/lake", "file:///lake"])
def test_a_path_that_was_a_url_is_refused(place: str) -> None:
    """Path has taken a slash away, and with it what tells a host from a directory."""
    with pytest.raises(OptionInvalid, match="the lake cannot be at"):
        find_folder(Path(place))


def test_paths_are_absolute(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert find_folder("lake") == tmp_path / "lake"
        assert find_folder("./a:b") == tmp_path / "a:b"
        assert find_folder(Path("./a:b")) == tmp_path / "a:b"
        assert find_folder("x/s3:") == tmp_path / "x" / "s3:"
    for url in ("file:///a%20b/c", "file:/a%20b/c", "FILE://localhost/a%20b/c"):
        assert find_folder(url) == Path("/a b/c")
    assert find_folder("/x/s3://y") == Path("/x/s3:/y")


@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_every_command_refuses_before_it_starts_anything(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """No database, no Spark, no file: with neither Java nor PostgreSQL to be found."""
    environment = {"PATH": "", "HOME": str(tmp_path), "DATABASE_URL": "postgresql://127.0.0.1:1/x"}
    done = subprocess.run(
        [LANEWAY, "lake", *command, "--lake", "s3://bucket/lake"],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env={**os.environ, **environment},
        cwd=tmp_path,
    )
    text = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2, text
    assert 'the lake cannot be at "s3://bucket/lake": s3: is not supported.' in text
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["./a:b", "file://{folder}/c%20d", "day=1/s3:x"])
def test_lake_directory_may_have_special_characters(
    spark: SparkSession, database: str, tmp_path: Path, form: str
) -> None:
    push(database, create_queue(database, "a:b"), [1, 2])
    settle_events(database)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        place = form.format(folder=tmp_path)
        with pytest.raises(LakeMissing):
            check_lake(place)
        lake = open_lake(spark, place)
        assert run_once(spark, lake, database).messages == 2
        check_lake(place)
        assert open_lake(spark, place).messages.read().count() == 2
    assert lake.folder.parent.is_relative_to(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
