"""The lake's directory: tables of Parquet files, each with a record of its current files.

    LAKE/messages/_record/000012.json           what the table is made of, whole; the newest counts
    LAKE/messages/day=2026-11-16/queue=mail/….parquet

A change is made by writing files and then one record, so a run that dies at any point leaves the
table as it was. The record also keeps how far the run had come, so the next one goes on from there.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from laneway.lake.errors import LakeBroken, LakeBusy
from laneway.lake.older_files import EARLIEST, FORM, bring_up, find_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PARTITIONS = ("day", "queue")

_RECORD = "_record"
_STAGING = "_staging"
_MAGIC = b"PAR1"
# Replaced files are kept this long for readers that have begun to read them.
_GRACE = timedelta(minutes=10)
_KEPT_RECORDS = 5


@dataclass(frozen=True, slots=True)
class File:
    """landed: the table version in which its rows arrived, also after compaction.

    form: how its rows are laid out, as in `forms`.
    """

    path: str
    day: str
    queue: str
    rows: int
    bytes: int
    landed: int
    form: int = EARLIEST


@dataclass(frozen=True, slots=True)
class Record:
    """A version of a table. state: what its writer needs next time. removed: paths and when."""

    version: int = 0
    files: tuple[File, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)
    removed: tuple[tuple[str, float], ...] = ()


class Table:
    """A table of the lake, partitioned by day and queue."""

    def __init__(self, spark: SparkSession, folder: Path, schema: StructType) -> None:
        self.name = folder.name
        self._spark = spark
        self._folder = folder
        self._schema = schema

    def load(self) -> Record:
        newest = max(self._list_records(), default=None)
        if newest is None:
            return Record()
        path = self._folder / _RECORD / newest
        try:
            found = json.loads(path.read_text())
            return Record(
                version=found["version"],
                files=tuple(File(**each) for each in found["files"]),
                state=found["state"],
                removed=tuple((str(name), float(at)) for name, at in found["removed"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LakeBroken(
                f"the record {path} cannot be read ({error}): restore it, or delete it to return to the version before"
            ) from error

    def read(self, choose: Callable[[File], bool] = lambda _: True) -> DataFrame:
        """Return the rows of the chosen files, after checking that all exist."""
        files = [file for file in self.load().files if choose(file)]
        if not files:
            return self._spark.createDataFrame([], self._schema)
        for file in files:
            self._check(file)
        forms = sorted({file.form for file in files})
        return reduce(
            DataFrame.unionByName,
            [self._open([file for file in files if file.form == form], form) for form in forms],
        )

    def _open(self, files: Sequence[File], form: int) -> DataFrame:
        frame = (
            self._spark.read.schema(find_schema(self._schema, form))
            .option("basePath", str(self._folder))
            # Directory names may contain glob characters such as [a] or {b}: escape them.
            .option("__globPaths__", "false")
            .option("parquet.page.verify-checksum.enabled", "true")
            .parquet(*[str(self._folder / file.path) for file in files])
        )
        return bring_up(frame, form)

    def append(self, frame: DataFrame, state: dict[str, Any]) -> Record:
        return self._change(frame, state, drop=lambda _: False)

    def replace(
        self, frame: DataFrame, state: dict[str, Any], drop: Callable[[File], bool]
    ) -> Record:
        """Replace files with rows."""
        return self._change(frame, state, drop=drop)

    def note(self, state: dict[str, Any]) -> Record:
        """Record the progress of a run that found nothing to write."""
        before = self.load()
        if before.version and before.state == state:
            return before
        return self._commit(before, before.files, state, ())

    def compact(self, *, landed_until: int, files_at_most: int = 4) -> int:
        """Merge the small files of each day and queue; return how many were replaced."""
        before = self.load()
        groups: dict[tuple[str, str], list[File]] = {}
        for file in before.files:
            # Files of older formats are not merged: their format tells what they lack.
            if file.landed <= landed_until and file.form == FORM:
                groups.setdefault((file.day, file.queue), []).append(file)
        small = {key: files for key, files in groups.items() if len(files) > files_at_most}
        if not small:
            return 0
        gone = {file.path for files in small.values() for file in files}
        frame = self.read(lambda file: file.path in gone).repartition(len(small), *PARTITIONS)
        added = self._write(frame, max(file.landed for files in small.values() for file in files))
        kept = tuple(file for file in before.files if file.path not in gone)
        self._commit(before, (*kept, *added), before.state, sorted(gone))
        return len(gone)

    def clean(self) -> None:
        """Remove files left by an interrupted run. Call this only under the lake's lock."""
        shutil.rmtree(self._folder / _STAGING, ignore_errors=True)
        record = self.load()
        known = {file.path for file in record.files} | {name for name, _ in record.removed}
        for path in self._folder.glob("day=*/queue=*/*.parquet"):
            if str(path.relative_to(self._folder)) not in known:
                path.unlink(missing_ok=True)

    def _change(
        self, frame: DataFrame, state: dict[str, Any], *, drop: Callable[[File], bool]
    ) -> Record:
        before = self.load()
        added = self._write(frame, before.version + 1)
        gone = [file.path for file in before.files if drop(file)]
        kept = [file for file in before.files if not drop(file)]
        return self._commit(before, (*kept, *added), state, gone)

    def _write(self, frame: DataFrame, landed: int) -> list[File]:
        staging = self._folder / _STAGING / uuid4().hex
        columns = [field.name for field in self._schema.fields]
        frame.select(*columns).write.partitionBy(*PARTITIONS).parquet(str(staging))
        files = []
        for path in sorted(staging.glob("day=*/queue=*/*.parquet")):
            folder = path.parent.relative_to(staging)
            place = self._folder / folder / f"{uuid4().hex}.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            path.rename(place)
            rows = pq.read_metadata(place).num_rows
            day, queue = (_unescape(part.partition("=")[2]) for part in folder.parts)
            name = str(place.relative_to(self._folder))
            files.append(File(name, day, queue, rows, place.stat().st_size, landed, FORM))
        shutil.rmtree(staging)
        return files

    def _commit(
        self,
        before: Record,
        files: Sequence[File],
        state: dict[str, Any],
        gone: Collection[str],
    ) -> Record:
        now = time.time()
        removed = [*before.removed, *((name, now) for name in gone)]
        expired = [name for name, at in removed if at < now - _GRACE.total_seconds()]
        record = Record(
            version=before.version + 1,
            files=tuple(files),
            state=state,
            removed=tuple((name, at) for name, at in removed if name not in expired),
        )
        folder = self._folder / _RECORD
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{uuid4().hex}"
        with draft.open("w") as file:
            json.dump(asdict(record), file)
            file.flush()
            os.fsync(file.fileno())
        try:
            # Creating a link fails if the name exists, so only one writer can create a version.
            os.link(draft, folder / f"{record.version:09d}.json")
        except FileExistsError:
            raise LakeBusy(
                f"another run has written to {self._folder} meanwhile. Run the command again"
            ) from None
        finally:
            draft.unlink()
        for name in expired:
            (self._folder / name).unlink(missing_ok=True)
        for name in sorted(self._list_records())[:-_KEPT_RECORDS]:
            (folder / name).unlink(missing_ok=True)
        return record

    def _check(self, file: File) -> None:
        path = self._folder / file.path
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise LakeBroken(
                f"the lake's file {path} ({file.rows} rows of {file.day}) is missing. Restore it"
            ) from None
        with path.open("rb") as opened:
            opened.seek(-len(_MAGIC), os.SEEK_END) if size > len(_MAGIC) else None
            whole = size == file.bytes and opened.read() == _MAGIC
        if not whole:
            raise LakeBroken(
                f"the lake's file {path} ({file.rows} rows of {file.day}) is corrupt:"
                f" it has {size} bytes of {file.bytes} or no proper end; restore it"
            )

    def _list_records(self) -> list[str]:
        folder = self._folder / _RECORD
        return [path.name for path in folder.glob("[0-9]*.json")] if folder.is_dir() else []


@contextmanager
def lock_lake(folder: Path) -> Iterator[None]:
    """Hold the lake's write lock on this machine; it is released when the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "_lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LakeBusy(
                f"another run is writing to the lake in {folder}. Wait until it ends"
            ) from None
        yield


def _unescape(text: str) -> str:
    """Decode a name from a path that Spark wrote."""
    if text == "__HIVE_DEFAULT_PARTITION__":
        return ""
    parts = text.split("%")
    return parts[0] + "".join(chr(int(part[:2], 16)) + part[2:] for part in parts[1:])
