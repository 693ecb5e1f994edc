"""The routes that read partitions by offset, without a lease or an effect on any group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.reads import ChangedQuery, PartitionRead
from laneway.server.access import named
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.deliveries import NO_HEADERS, read_headers
from laneway.server.queen.wire import (
    DEFAULT_PARTITION,
    MomentText,
    PartitionName,
    QueueName,
    ShownTransactionId,
    read_lane,
    read_moment,
    show_address,
    show_moment,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.reads import ChangedPage, LogMessage, PartitionExtent
    from laneway.server.calls import Call
    from laneway.server.queen.encryption import Vault

MEBIBYTE = 1024 * 1024
# Bytes of payloads that a request may ask for.
MOST_BYTES = 8 * MEBIBYTE
LARGEST_PAGE = 1000

OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
UNORDERED = "UNORDERED_PARTITION"
BAD_CURSOR = "BAD_CURSOR"

Bytes = Annotated[int, Meta(ge=1)]


class FetchEntry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """From where to read a partition."""

    queue: Annotated[QueueName, Meta(description="Queue to read.")]
    partition: Annotated[
        PartitionName | None, Meta(description="Partition to read. Default: `Default`.")
    ] = None
    offset: Annotated[
        int,
        Meta(
            ge=0,
            le=2**53,
            description="Offset to begin with. The first message of a partition has the offset 0.",
        ),
    ]
    max_bytes: Annotated[
        Bytes | None,
        Meta(description="Bytes of payloads from this partition. Default: 1 MiB, at most 8 MiB."),
    ] = msgspec.field(name="maxBytes", default=None)


class Fetch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to read."""

    entries: Annotated[
        list[FetchEntry], Meta(max_length=1024, description="Up to 1024 partitions.")
    ]
    max_bytes: Annotated[
        Bytes | None,
        Meta(description="Bytes of payloads from all partitions. Default, and at most, 8 MiB."),
    ] = msgspec.field(name="maxBytes", default=None)


class Record(msgspec.Struct, kw_only=True):
    """A message as it was pushed."""

    offset: Annotated[int, Meta(description="Offset of the message in its partition.")]
    transaction_id: ShownTransactionId = msgspec.field(name="transactionId")
    payload: Annotated[Raw, Meta(description="The payload: any JSON.")]
    ts: Annotated[str, Meta(description="When it was pushed.")]


class Fetched(msgspec.Struct, kw_only=True):
    """What was read from a partition."""

    queue: Annotated[str, Meta(description="Queue of the partition.")]
    partition: Annotated[str, Meta(description="Name of the partition.")]
    records: Annotated[
        list[Record],
        Meta(
            description="Messages from the offset on. Empty at the end of the partition, after an error, "
            "or if the partitions before it took up the bytes of the request."
        ),
    ]
    high_watermark: Annotated[
        int, Meta(description="The offset that the next message of the partition will get.")
    ] = msgspec.field(name="highWatermark")
    log_start_offset: Annotated[int, Meta(description="The first offset that is still kept.")] = (
        msgspec.field(name="logStartOffset")
    )
    error: Annotated[
        str | UnsetType,
        Meta(
            description="`OFFSET_OUT_OF_RANGE`: no longer kept, or beyond the end. "
            "`UNKNOWN_TOPIC_OR_PARTITION`. `UNORDERED_PARTITION`: its messages have several orders, "
            "as in queues created over REST or SQS. Absent otherwise."
        ),
    ] = UNSET


class FetchAnswer(msgspec.Struct, kw_only=True):
    """What was read."""

    entries: Annotated[
        list[Fetched], Meta(description="One entry per partition, in the order of the request.")
    ]


class ChangedEntry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which partitions of a queue to list."""

    queue: Annotated[QueueName, Meta(description="Queue of the partitions.")]
    since: Annotated[
        MomentText | None,
        Meta(
            description="Only partitions that were pushed to at this time or later (ISO 8601, UTC unless "
            "it names a zone): `safeTime` of an earlier answer. Default: all partitions."
        ),
    ] = None
    after: Annotated[str | None, Meta(description="`next` of the page before.")] = None
    limit: Annotated[
        int, Meta(description="Partitions per page, 1 to 1000; other numbers count as the nearest.")
    ] = LARGEST_PAGE


class Changed(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which queues to ask about."""

    entries: Annotated[list[ChangedEntry], Meta(max_length=64, description="Up to 64 queues.")]


class PartitionShown(msgspec.Struct, kw_only=True):
    """A partition."""

    id: Annotated[str, Meta(description="Id of the partition, as pop and push return it.")]
    name: Annotated[str, Meta(description="Name of the partition.")]
    last_offset: Annotated[
        int, Meta(description="Offset of its newest message; -1 if it never had one.")
    ] = msgspec.field(name="lastOffset")
    log_start: Annotated[int, Meta(description="The first offset that is still kept.")] = (
        msgspec.field(name="logStart")
    )
    last_write_at: Annotated[str, Meta(description="When it was last pushed to.")] = msgspec.field(
        name="lastWriteAt"
    )


class ChangedShown(msgspec.Struct, kw_only=True):
    """A page of a queue's partitions."""

    queue: Annotated[str, Meta(description="Queue of the partitions.")]
    partitions: Annotated[
        list[PartitionShown] | UnsetType, Meta(description="The partitions, oldest first.")
    ] = UNSET
    next: Annotated[
        str | UnsetType | None,
        Meta(description="`after` of the next page, which may be short; null at the end."),
    ] = UNSET
    error: Annotated[
        str | UnsetType,
        Meta(
            description="`UNKNOWN_TOPIC_OR_PARTITION`: no such queue. `BAD_CURSOR`: `after` is no "
            "`next`. Absent otherwise."
        ),
    ] = UNSET


class ChangedAnswer(msgspec.Struct, kw_only=True):
    """Pages of partitions."""

    safe_time: Annotated[
        str,
        Meta(
            description="Time up to which every push counts in this answer: `since` of the next request."
        ),
    ] = msgspec.field(name="safeTime")
    entries: Annotated[
        list[ChangedShown], Meta(description="One page per queue, in the order of the request.")
    ]


class ReadRoutes:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def fetch(self, call: Call[None, Fetch]) -> Answer:
        body = call.body
        reads = [
            PartitionRead(
                entry.queue,
                entry.partition or DEFAULT_PARTITION,
                entry.offset,
                min(entry.max_bytes or MEBIBYTE, MOST_BYTES),
            )
            for entry in body.entries
        ]
        extents = await call.broker.reads.read(
            reads, max_bytes=min(body.max_bytes or MOST_BYTES, MOST_BYTES)
        )
        entries = [self._show(*each) for each in zip(reads, extents, strict=True)]
        return answer_json(200, FetchAnswer(entries=entries))

    def _show(self, read: PartitionRead, extent: PartitionExtent) -> Fetched:
        # An offset counts from 0, a sequence number from 1.
        shown = Fetched(
            queue=read.queue,
            partition=read.partition,
            records=[self._show_record(read.queue, message) for message in extent.messages],
            high_watermark=extent.newest,
            log_start_offset=extent.base,
        )
        if extent.lanes != 1:
            shown.error = UNORDERED if extent.lanes else UNKNOWN
        elif not extent.base <= read.after <= extent.newest:
            shown.error = OUT_OF_RANGE
        return shown

    def _show_record(self, queue: str, message: LogMessage) -> Record:
        headers = NO_HEADERS if message.headers is None else read_headers(message.headers)
        body = self._vault.open(message.body, queue=queue) if headers.sealed else message.body
        address = show_address(message.segment, message.lane, message.seq)
        return Record(
            offset=message.seq - 1,
            transaction_id=message.dedup_key or address,
            payload=Raw(body.encode()),
            ts=show_moment(message.created_at),
        )

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return (
            Operation(
                method="POST",
                path="/fetch",
                handler=self.fetch,
                summary="Read partitions by offset",
                description=(
                    "Returns messages as they were pushed, from an offset on: without a lease, and "
                    "without an effect on any consumer group. It reads the log, so it also returns "
                    "messages that groups have settled or that were edited or deleted since, for "
                    "as long as the log keeps them."
                ),
                body=Fetch,
                example={"entries": [{"queue": "orders", "partition": "customer-7", "offset": 0}]},
                answers={
                    200: Response(
                        FetchAnswer, "What each partition has. Check `error` of each entry."
                    )
                },
                role=Role.READ,
                reach=_queues_of_entries,
                compress=True,
                tag="streams",
            ),
            Operation(
                method="POST",
                path="/partitions/changed",
                handler=list_changed,
                summary="List the partitions that were pushed to",
                description=(
                    "Returns pages of the partitions of queues that were pushed to since a time, or "
                    "of all, oldest partition first. Follow `next` to the end; then ask again with "
                    "`safeTime` as `since`. A partition may be listed twice, but none is missed. "
                    "Without entries the answer is `safeTime` alone."
                ),
                body=Changed,
                example={"entries": [{"queue": "orders", "since": "2026-11-01T12:00:00Z"}]},
                answers={200: Response(ChangedAnswer, "A page for each queue.")},
                role=Role.READ,
                reach=_queues_of_entries,
                compress=True,
                tag="streams",
            ),
        )


async def list_changed(call: Call[None, Changed]) -> Answer:
    shown: dict[int, ChangedShown] = {}
    queries: dict[int, ChangedQuery] = {}
    for place, entry in enumerate(call.body.entries):
        since = None if entry.since is None else read_moment(entry.since, "since")
        after = read_lane(entry.after) if entry.after else 0
        if after is None:
            shown[place] = ChangedShown(queue=entry.queue, error=BAD_CURSOR)
        else:
            limit = min(max(entry.limit, 1), LARGEST_PAGE)
            queries[place] = ChangedQuery(entry.queue, since, after, limit)
    changes = await call.broker.reads.list_changed(list(queries.values()))
    for (place, query), page in zip(queries.items(), changes.pages, strict=True):
        shown[place] = _show_page(query.queue, page)
    return answer_json(
        200,
        ChangedAnswer(
            safe_time=show_moment(changes.safe_time),
            entries=[shown[place] for place in sorted(shown)],
        ),
    )


def _show_page(queue: str, page: ChangedPage | None) -> ChangedShown:
    if page is None:
        return ChangedShown(queue=queue, error=UNKNOWN)
    return ChangedShown(
        queue=queue,
        partitions=[
            PartitionShown(
                id=str(each.lane),
                name=each.partition,
                last_offset=each.newest - 1,
                log_start=each.base,
                last_write_at=show_moment(each.pushed_at),
            )
            for each in page.partitions
        ],
        next=None if page.next is None else str(page.next),
    )


@named
async def _queues_of_entries(call: Call[Any, Any], /) -> Sequence[str]:
    return sorted({entry.queue for entry in call.body.entries})
