"""The filters that message lists and exports share."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from laneway.domain.listings import MessageFilter, Sort
from laneway.server.rest.states import QueuePart
from laneway.server.rest.times import MomentText, read_moment
from laneway.server.rest.wire import Priority, QueueName

# What clients send for no filter.
ANY: Final = "all"


class Filters(msgspec.Struct, kw_only=True):
    """Parameters that select messages of a list or export."""

    queue_type: Annotated[
        QueuePart,
        Meta(
            description="State of the messages. `main`: queued, ready or delayed. `processing`: in "
            "flight."
        ),
    ] = msgspec.field(name="queueType")
    queue_name: Annotated[
        QueueName | None,
        Meta(
            description="Only messages of this queue. Default: all queues that the API key may use."
        ),
    ] = msgspec.field(name="queueName", default=None)
    filter_type: Annotated[
        Annotated[str, Meta(max_length=10_000)] | None,
        Meta(description="Only messages of these types: names separated by commas, or `all`."),
    ] = msgspec.field(name="filterType", default=None)
    filter_priority: Annotated[
        Priority | Literal["all"] | None,
        Meta(description="Only messages of this priority, or `all`."),
    ] = msgspec.field(name="filterPriority", default=None)
    filter_attempts: Annotated[
        Annotated[int, Meta(ge=0, le=32_767)] | Literal["all"] | None,
        Meta(description="Only messages delivered at least this many times, or `all`."),
    ] = msgspec.field(name="filterAttempts", default=None)
    start_date: Annotated[
        MomentText | None, Meta(description="Only messages enqueued at this time or later.")
    ] = msgspec.field(name="startDate", default=None)
    end_date: Annotated[
        MomentText | None, Meta(description="Only messages enqueued at this time or earlier.")
    ] = msgspec.field(name="endDate", default=None)
    search: Annotated[
        Annotated[str, Meta(max_length=1000)] | None,
        Meta(
            description="Only messages with this text in their id, type or payload, in any case. At most "
            "1000 characters."
        ),
    ] = None
    sort_by: Annotated[
        Sort,
        Meta(
            description="Field to sort by. Default: `created_at`. By any other, the newest 10,000 matches "
            "are sorted."
        ),
    ] = msgspec.field(name="sortBy", default="created_at")
    sort_order: Annotated[
        Literal["asc", "desc", "ASC", "DESC"],
        Meta(description="Order of the list. Default: `desc`."),
    ] = msgspec.field(name="sortOrder", default="desc")

    @property
    def descending(self) -> bool:
        return self.sort_order.lower() == "desc"

    def read(self) -> MessageFilter:
        types = None
        if self.filter_type not in {None, ANY}:
            types = [name.strip() for name in (self.filter_type or "").split(",") if name.strip()]
        return MessageFilter(
            types or None,
            None if self.filter_priority == ANY else self.filter_priority,
            None if self.filter_attempts == ANY else self.filter_attempts,
            None if self.start_date is None else read_moment(self.start_date, "startDate"),
            None if self.end_date is None else read_moment(self.end_date, "endDate"),
            self.search,
        )
