"""The routes that list messages, by state or by time range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from laneway.server.access import filtered
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import choose_queues, queue_shown
from laneway.server.rest.filters import Filters
from laneway.server.rest.objects import show_message
from laneway.server.rest.states import STATES
from laneway.server.rest.times import MomentText, read_moment
from laneway.server.rest.wire import QUEUE_NOT_FOUND, MessageObject

if TYPE_CHECKING:
    from laneway.server.calls import Call

PageSize = Annotated[int, Meta(ge=1, le=1000)]


class Listing(Filters, kw_only=True):
    page: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Page to return, from 1 (the default).")
    ] = 1
    limit: Annotated[PageSize, Meta(description="Messages per page, 1 to 1000. Default: 100.")] = (
        100
    )


class Between(msgspec.Struct, kw_only=True):
    start_timestamp: Annotated[
        MomentText, Meta(description="Only messages enqueued at this time or later.")
    ] = msgspec.field(name="startTimestamp")
    end_timestamp: Annotated[
        MomentText, Meta(description="Only messages enqueued at this time or earlier.")
    ] = msgspec.field(name="endTimestamp")
    limit: Annotated[
        PageSize, Meta(description="How many messages to return at most, 1 to 1000. Default: 100.")
    ] = 100


class Pagination(msgspec.Struct):
    """Where a page is in its list."""

    total: Annotated[
        int, Meta(description="How many messages match. With filters, at most 10,000 are counted.")
    ]
    page: Annotated[int, Meta(description="This page, from 1.")]
    limit: Annotated[int, Meta(description="Messages per page.")]
    total_pages: Annotated[int, Meta(description="How many pages `total` messages fill.")] = (
        msgspec.field(name="totalPages")
    )
    has_more: Annotated[
        bool, Meta(description="Whether there are more messages behind this page.")
    ] = msgspec.field(name="hasMore")


class MessagePage(msgspec.Struct):
    """A page of messages."""

    messages: Annotated[list[MessageObject], Meta(description="The messages of this page.")]
    pagination: Annotated[Pagination, Meta(description="Where this page is in the list.")]


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
    tokens = await call.service.find_lease_tokens()
    shown = [show_message(message, tokens) for message in page.messages]
    return answer_json(200, MessagePage(shown, pagination))


async def list_messages_between(call: Call[Between, None]) -> Answer:
    wanted = call.parameters
    messages = await call.broker.listings.list_between(
        await choose_queues(call, None),
        read_moment(wanted.start_timestamp, "startTimestamp"),
        read_moment(wanted.end_timestamp, "endTimestamp"),
        limit=wanted.limit,
    )
    tokens = await call.service.find_lease_tokens()
    return answer_json(200, [show_message(message, tokens) for message in messages])


OPERATIONS = (
    Operation(
        method="GET",
        path="/queue/{queueType}/messages",
        handler=list_messages,
        summary="List the messages of one state",
        description=(
            "Returns a page of the messages that match the filters, of one queue or of all "
            "that the API key may use. Listing a message does not lease it. Sorted by "
            "`created_at`, a page costs as much as the messages that it shows and skips."
        ),
        parameters=Listing,
        answers={200: Response(MessagePage, "A page of messages."), 404: QUEUE_NOT_FOUND},
        role=Role.READ,
        reach=queue_shown,
        compress=True,
    ),
    Operation(
        method="GET",
        path="/queue/messages",
        handler=list_messages_between,
        summary="List the newest messages of a time range, in any state",
        description=(
            "Returns messages enqueued in a time range, newest first, of all queues that the "
            "API key may use. Listing a message does not lease it."
        ),
        parameters=Between,
        answers={200: Response(list[MessageObject], "The messages.")},
        role=Role.READ,
        reach=filtered,
        compress=True,
    ),
)
