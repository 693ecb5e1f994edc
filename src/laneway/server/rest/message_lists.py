"""The routes that show messages: lists of one state, and of a range of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from laneway.domain.listings import Sort
from laneway.server.access import filtered
from laneway.server.operations import Operation, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import choose_queues, queue_shown
from laneway.server.rest.filters import Filters
from laneway.server.rest.objects import show_message
from laneway.server.rest.states import STATES
from laneway.server.rest.times import MomentText, read_moment
from laneway.server.rest.wire import MessageObject, Reply

if TYPE_CHECKING:
    from laneway.server.calls import Call

PageSize = Annotated[int, Meta(ge=1, le=1000)]


class Listing(Filters, kw_only=True):
    page: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    limit: PageSize = 100
    sort_by: Sort = msgspec.field(name="sortBy", default="created_at")


class Between(msgspec.Struct, kw_only=True):
    start_timestamp: MomentText = msgspec.field(name="startTimestamp")
    end_timestamp: MomentText = msgspec.field(name="endTimestamp")
    limit: PageSize = 100


class Pagination(msgspec.Struct):
    """total: exact without filters; with filters, so many at least."""

    total: int
    page: int
    limit: int
    total_pages: int = msgspec.field(name="totalPages")
    has_more: bool = msgspec.field(name="hasMore")


class MessagePage(msgspec.Struct):
    messages: list[MessageObject]
    pagination: Pagination


async def list_messages(call: Call[Listing, None]) -> Answer:
    wanted = call.parameters
    limit = wanted.limit
    page = await call.broker.listings.read_page(
        await choose_queues(call, wanted.queue_name),
        STATES[wanted.queue_type],
        wanted.read(),
        sort=wanted.sort_by,
        descending=wanted.descending,
        limit=limit,
        offset=(wanted.page - 1) * limit,
    )
    pagination = Pagination(page.total, wanted.page, limit, -(-page.total // limit), page.more)
    shown = [show_message(message) for message in page.messages]
    return answer_json(200, MessagePage(shown, pagination))


async def list_messages_between(call: Call[Between, None]) -> Answer:
    wanted = call.parameters
    messages = await call.broker.listings.list_between(
        await choose_queues(call, None),
        read_moment(wanted.start_timestamp, "startTimestamp"),
        read_moment(wanted.end_timestamp, "endTimestamp"),
        limit=wanted.limit,
    )
    return answer_json(200, [show_message(message) for message in messages])


OPERATIONS = (
    Operation(
        method="GET",
        path="/queue/{queueType}/messages",
        handler=list_messages,
        summary="List the messages of one state",
        parameters=Listing,
        answers={200: MessagePage, 404: Reply},
        role=Role.READ,
        reach=queue_shown,
        compress=True,
    ),
    Operation(
        method="GET",
        path="/queue/messages",
        handler=list_messages_between,
        summary="List the newest messages of a range of time, whatever their state",
        parameters=Between,
        answers={200: list[MessageObject]},
        role=Role.READ,
        reach=filtered,
        compress=True,
    ),
)
