"""The options of `format("laneway")`.

The only place outside the command that reads the environment: a Spark program has no flags of ours,
so where it gives no `dsn`, DATABASE_URL says which database is meant.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from laneway.domain.dsn import find_fault
from laneway.domain.messages import LARGEST_PRIORITY
from laneway.lake.errors import OptionInvalid
from laneway.lake.selection import EVERYTHING, Choice

if TYPE_CHECKING:
    from collections.abc import Mapping

Table: TypeAlias = Literal["messages", "events"]
Offset: TypeAlias = dict[str, int]
Position: TypeAlias = Literal["earliest", "latest"] | Offset | datetime

ROWS_PER_PARTITION = 200_000

_READ = (
    "dsn",
    "queue",
    "partition",
    "priority",
    "table",
    "startingOffsets",
    "endingOffsets",
    "maxMessagesPerTrigger",
    "rowsPerPartition",
    "failOnDataLoss",
)
_WRITE = ("dsn", "queue", "runId")
# Spark passes this option to the sink along with ours.
_OF_SPARK = {"checkpointlocation"}
_ALIKE = 0.8
_PRIORITIES = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """limit: messages or events per micro-batch."""

    # May contain a password, so it is not printed.
    dsn: str = field(repr=False)
    choice: Choice = EVERYTHING
    table: Table = "messages"
    starting: Position = "earliest"
    ending: Position = "latest"
    limit: int | None = None
    rows_per_partition: int = ROWS_PER_PARTITION
    fail_on_data_loss: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """run_id: writing again under the same name changes nothing."""

    dsn: str = field(repr=False)
    queue: str
    run_id: str | None = None


def read_table(options: Mapping[str, str]) -> Table:
    match options.get("table", "messages"):
        case "messages":
            return "messages"
        case "events":
            return "events"
        case other:
            raise OptionInvalid(f"invalid option table: {other!r}. Use messages or events")


def parse_read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    _check_names(options, _READ, "reading")
    if streaming and "endingOffsets" in options:
        raise OptionInvalid("the option endingOffsets is for batch reads only")
    limit = options.get("maxMessagesPerTrigger")
    table = read_table(options)
    return ReadOptions(
        dsn=_find_dsn(options),
        choice=_parse_choice(options, table),
        table=table,
        starting=_parse_position(options, "startingOffsets", table, "earliest"),
        ending=_parse_position(options, "endingOffsets", table, "latest"),
        limit=None if limit is None else _parse_count("maxMessagesPerTrigger", limit),
        rows_per_partition=_parse_count(
            "rowsPerPartition", options.get("rowsPerPartition", str(ROWS_PER_PARTITION))
        ),
        fail_on_data_loss=_parse_flag("failOnDataLoss", options.get("failOnDataLoss", "true")),
    )


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    _check_names(options, _WRITE, "writing")
    queue = options.get("queue", "").strip()
    if not queue:
        raise OptionInvalid("the option queue is missing. Set it to the queue to write to")
    run_id = options.get("runId")
    if run_id is not None:
        check_run_id(run_id)
    return WriteOptions(dsn=_find_dsn(options), queue=queue, run_id=run_id)


def check_run_id(text: str) -> None:
    if not text.strip() or "/" in text or "\0" in text:
        raise OptionInvalid(f"invalid run name {text!r}: it must not contain a slash")


def _check_names(options: Mapping[str, str], known: tuple[str, ...], use: str) -> None:
    lower = {name.lower() for name in known}
    for name in options:
        if name.lower() in lower | _OF_SPARK:
            continue
        if name.lower() == "path":
            raise OptionInvalid("a queue has no path. Name it with the option queue")
        alike = difflib.get_close_matches(name.lower(), sorted(lower), 1, _ALIKE)
        if alike:
            meant = next(each for each in known if each.lower() == alike[0])
            raise OptionInvalid(f"unknown option {name!r}. Did you mean {meant}?")
        raise OptionInvalid(f"unknown option {name!r} for {use}. Options: {', '.join(known)}")


def _find_dsn(options: Mapping[str, str]) -> str:
    dsn = options.get("dsn") or os.environ.get("DATABASE_URL")
    if not dsn:
        raise OptionInvalid(
            "no database given. Set the option dsn (`laneway url` prints it) or DATABASE_URL"
        )
    fault = find_fault(dsn)
    if fault is not None:
        given = "the option dsn" if options.get("dsn") else "the environment variable DATABASE_URL"
        raise OptionInvalid(f"{given} cannot be used: {fault}")
    return dsn


def _parse_choice(options: Mapping[str, str], table: Table) -> Choice:
    if table == "events":
        for name in ("partition", "priority"):
            if name in options:
                raise OptionInvalid(
                    f"the option {name} is for messages: filter the events that were read by where()"
                )
    queues = [name.strip() for name in options.get("queue", "").split(",") if name.strip()]
    # The default partition's name is empty, so an empty option means that partition.
    partitions = options.get("partition")
    priorities = options.get("priority")
    return Choice(
        queues=tuple(queues) or None,
        partitions=None if partitions is None else tuple(partitions.split(",")),
        priorities=None if priorities is None else _parse_priorities(priorities),
    )


def _parse_priorities(text: str) -> tuple[tuple[int, int], ...]:
    ranges = []
    for part in text.split(","):
        match = _PRIORITIES.fullmatch(part.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not low <= high <= LARGEST_PRIORITY:
            raise OptionInvalid(
                f"the option priority is {text!r}: set numbers from 0 to {LARGEST_PRIORITY}, such as"
                " 5, or 0,5, or 1-9"
            )
        ranges.append((low, high))
    return tuple(ranges)


def _parse_position(
    options: Mapping[str, str], name: str, table: Table, default: Literal["earliest", "latest"]
) -> Position:
    text = options.get(name, default).strip()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if text.startswith("{"):
        offset = parse_offset(text, f"the option {name}")
        if (set(offset) != {"xid"}) if table == "events" else "xid" in offset:
            raise OptionInvalid(
                f"the option {name} is {text}: messages have offsets by lane, events one by xid"
            )
        return offset
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionInvalid(
            f"the option {name} is {text!r}: say earliest, latest, a time such as"
            ' 2026-01-31T12:00:00Z, or offsets such as {"17": 4711}'
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def parse_offset(text: str, where: str) -> Offset:
    """Read {"lane": seq}, or {"xid": xid} for events: the last position that was read."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OptionInvalid(f"{where} is not JSON: {error}") from None
    for key, value in found.items():
        # bool is an int in Python.
        if not (key == "xid" or key.isdecimal()) or type(value) is not int or value < 0:
            raise OptionInvalid(f"{where} has {key!r}: {value!r}; write lanes and their seqs")
    return {str(key): int(value) for key, value in found.items()}


def _parse_count(name: str, text: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise OptionInvalid(f"the option {name} is {text!r}: set a number from 1 on")
    return int(text)


def _parse_flag(name: str, text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise OptionInvalid(f"the option {name} is {text!r}: set true or false")
