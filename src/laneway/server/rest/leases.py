"""Leases on messages: receipts for the messages that clients name, and reasons of refusals."""

from __future__ import annotations

from enum import Enum
from operator import le
from typing import TYPE_CHECKING, NamedTuple, Protocol

from laneway.domain.errors import InvalidId
from laneway.domain.ids import MessageId
from laneway.domain.messages import Receipt, Status
from laneway.engine.columns import Spans

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from laneway.domain.messages import StoredMessage
    from laneway.engine import Broker
    from laneway.server.lease_tokens import LeasedSpan, LeaseTokens


# This many digits always fit into a sequence number.
_SAFE_DIGITS = 18


class Named(Protocol):
    """A message that a client names, with its lock token; None: whichever lease it has now."""

    id: str
    lock_token: str | None


class Problem(Enum):
    """Why a message could not be settled."""

    NOT_FOUND = "NOT_FOUND"
    INVALID_STATE = "INVALID_STATE"
    LOCK_LOST = "LOCK_LOST"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Problem.NOT_FOUND: "Message not found",
    Problem.INVALID_STATE: "Message is not processing",
    Problem.LOCK_LOST: "Lock lost",
}


class Located(NamedTuple):
    """A message's queue; `message` None: it is no longer kept, or was not looked up."""

    position: int
    queue: str
    id: MessageId
    message: StoredMessage | None


def read_spans(items: Sequence[Named], tokens: LeaseTokens) -> Spans | None:
    """Return the messages as one span per token and lane, or None if they are not in order.

    They are in order if every id and token is valid, and the messages of each token and lane are
    consecutive. Most batches are, and then no object per message is needed.
    """
    spans = Spans([], [], [], [])
    leased: list[int] = []
    seen: set[tuple[UUID, int]] = set()
    text: str | None = ""
    start = expected = ""
    seq = 0
    for item in items:
        if item.id == expected and item.lock_token == text:
            spans.last[-1] = seq
        else:
            text = item.lock_token
            message_id = read_id(item.id)
            if message_id is None or text is None:
                return None
            _, lane, seq = message_id
            lease = tokens.read(text, lane, seq)
            if lease is None or (lease.token, lane) in seen:
                return None
            seen.add((lease.token, lane))
            spans.begin(lease.token, lane, seq)
            leased.append(lease.last)
            start = item.id.rpartition("-")[0] + "-"
        seq += 1
        expected = f"{start}{seq}"
    return spans if all(map(le, spans.last, leased)) else None


async def find_receipts(
    broker: Broker, items: Sequence[Named], tokens: LeaseTokens
) -> list[Receipt | Problem]:
    """Return a receipt for each message, with its current lease where no token is named."""
    receipts: list[Receipt | Problem] = []
    unnamed: list[int] = []
    broken: list[int] = []
    # Most batches share a few tokens and lanes.
    leases: dict[tuple[str, int], LeasedSpan] = {}
    lanes: dict[str, int] = {}
    for position, item in enumerate(items):
        place = _read_place(item.id, lanes)
        if place is None:
            receipts.append(Problem.NOT_FOUND)
            continue
        if item.lock_token is None:
            unnamed.append(position)
            receipts.append(Problem.INVALID_STATE)
            continue
        lane, seq = place
        lease = leases.get((item.lock_token, lane))
        if lease is None or not lease.first <= seq <= lease.last:
            lease = tokens.read(item.lock_token, lane, seq)
            if lease is None:
                broken.append(position)
                receipts.append(Problem.LOCK_LOST)
                continue
            leases[item.lock_token, lane] = lease
        receipts.append(Receipt(lease.token, lane, seq))
    if broken:
        problems = await diagnose(broker, [items[position] for position in broken])
        for position, problem in zip(broken, problems, strict=True):
            receipts[position] = problem
    if unnamed:
        await _find_current_leases(broker, items, unnamed, receipts)
    return receipts


async def diagnose(broker: Broker, items: Sequence[Named]) -> list[Problem]:
    """Return why each message was refused. Its state counts before the token.

    LOCK_LOST only if it is in flight: then its lease has expired, or has another token.
    """
    problems = [Problem.NOT_FOUND] * len(items)
    for found in await locate(broker, [item.id for item in items]):
        if found.message is None:
            continue
        in_flight = found.message.status == Status.PROCESSING
        lost = in_flight and items[found.position].lock_token is not None
        problems[found.position] = Problem.LOCK_LOST if lost else Problem.INVALID_STATE
    return problems


async def locate(broker: Broker, texts: Sequence[str], *, look: bool = True) -> list[Located]:
    """Return the messages whose queue exists; load the messages themselves unless `look` is off."""
    ids = [(position, read_id(text)) for position, text in enumerate(texts)]
    known = [(position, message_id) for position, message_id in ids if message_id is not None]
    if not known:
        return []
    names = await broker.messages.locate([message_id for _, message_id in known])
    places: dict[str, list[tuple[int, MessageId]]] = {}
    for (position, message_id), name in zip(known, names, strict=True):
        if name is not None:
            places.setdefault(name, []).append((position, message_id))
    located = []
    for queue, members in places.items():
        messages: Sequence[StoredMessage | None] = [None] * len(members)
        if look:
            messages = await broker.messages.find(queue, [message_id for _, message_id in members])
        located += [
            Located(position, queue, message_id, message)
            for (position, message_id), message in zip(members, messages, strict=True)
        ]
    return located


async def _find_current_leases(
    broker: Broker,
    items: Sequence[Named],
    unnamed: Sequence[int],
    receipts: list[Receipt | Problem],
) -> None:
    """Replace the receipts of `unnamed` by those of the messages' current leases, or a problem."""
    located = await locate(broker, [items[position].id for position in unnamed])
    for position in unnamed:
        receipts[position] = Problem.NOT_FOUND
    queues: dict[str, list[Located]] = {}
    for found in located:
        if found.message is not None:
            receipts[unnamed[found.position]] = Problem.INVALID_STATE
            queues.setdefault(found.queue, []).append(found)
    for queue, members in queues.items():
        tokens = await broker.messages.find_leases(queue, [found.id for found in members])
        for found, token in zip(members, tokens, strict=True):
            if token is not None:
                receipt = Receipt(token, found.id.lane, found.id.seq)
                receipts[unnamed[found.position]] = receipt


def read_id(text: str) -> MessageId | None:
    """Return the id, or None for a text that is no message id."""
    try:
        return MessageId.parse(text)
    except InvalidId:
        return None


def _read_place(text: str, lanes: dict[str, int]) -> tuple[int, int] | None:
    """Return an id's lane and seq; `lanes` caches the lanes of id prefixes."""
    start, _, end = text.rpartition("-")
    lane = lanes.get(start)
    if (
        lane is not None
        and len(end) <= _SAFE_DIGITS
        and end.isdecimal()
        and end.isascii()
        and end[0] != "0"
    ):
        return lane, int(end)
    message_id = read_id(text)
    if message_id is None:
        return None
    lanes[start] = message_id.lane
    return message_id.lane, message_id.seq
