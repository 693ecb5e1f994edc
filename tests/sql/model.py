"""An in-memory model of a group of one queue, which the lifecycle is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from tests.sql.calls import Delivery, Place

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Content:
    partition: str
    priority: int
    body: str


@dataclass(eq=False, slots=True)
class Part:
    """Messages of one token that have one deadline. In line: taken from the lane, not put by."""

    token: UUID
    in_line: bool
    live: bool = True


@dataclass(eq=False, slots=True)
class Message:
    place: Place
    created_at: datetime
    original: Content
    delayed: bool = False  # as pushed
    content: Content = field(init=False)
    state: str | None = "queued"  # None: no longer there
    attempt: int = 0  # spent, or under way while it is processing
    parked: bool = False  # waits out of line
    postponed: bool = False  # parked, and not due yet
    since: datetime = field(init=False)  # parked: its age counts from then
    hold: Part | None = None
    died: int = 0
    in_log: bool = True

    def __post_init__(self) -> None:
        self.content = self.original
        self.since = self.created_at

    @property
    def lane_id(self) -> int:
        return self.place.lane_id

    @property
    def seq(self) -> int:
        return self.place.seq

    @property
    def in_line(self) -> bool:
        return self.state == "queued" and not self.parked

    @property
    def due(self) -> bool:
        return self.state == "queued" and not (self.delayed if not self.parked else self.postponed)

    @property
    def level(self) -> int:
        return self.original.priority if not self.parked else self.content.priority

    @property
    def address(self) -> tuple[int, int]:
        return self.lane_id, self.seq


@dataclass(eq=False, slots=True)
class Model:
    ordered: bool
    fifo: bool  # ordered, and each message is returned alone
    clock: Callable[[], int]  # what happens at once, in one call, has one time
    messages: dict[tuple[int, int], Message] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)  # lanes that wait for a retry
    holders: dict[int, UUID] = field(default_factory=dict)  # lanes and who was given them last

    def find(self, test: Callable[[Message], bool]) -> list[Message]:
        return [each for each in self.messages.values() if test(each)]

    def held(self, token: UUID) -> list[Message]:
        return sorted(
            self.find(lambda m: m.hold is not None and m.hold.token == token),
            key=lambda m: m.seq,
        )

    def is_live(self, delivery: Delivery) -> bool:
        hold = self.messages[delivery.lane_id, delivery.seq].hold
        return hold is not None and hold.token == delivery.token and hold.live

    def push(self, pushed: Iterable[Message]) -> None:
        for each in pushed:
            assert each.address not in self.messages
            self.messages[each.address] = each

    # Shared groups: priority; what was put by and is due; age.

    def next_shared(self, count: int, partition: str | None, priority: int | None) -> list[Message]:
        def place(message: Message) -> tuple[object, ...]:
            if message.parked:
                return -message.level, 0, message.since, message.seq
            return -message.level, 1, message.created_at, message.lane_id, message.seq

        def wanted(message: Message) -> bool:
            seen = message.original if not message.parked else message.content
            return (
                message.due
                and (partition is None or seen.partition == partition)
                and (priority is None or message.level == priority)
            )

        return sorted(self.find(wanted), key=place)[:count]

    # Ordered groups: one holder per lane, what was put back by hand before what is in line.

    def next_ordered(self, count: int) -> list[list[Message]]:
        """Return what the next waiter may get: any one of these."""
        lanes = {each.lane_id for each in self.messages.values()}
        if self.fifo:
            return self._next_fifo(sorted(lanes - self.waiting), count)
        free = sorted(lane for lane in lanes if lane not in self.waiting and not self._holds(lane))
        put_back = [
            min(parked, key=lambda m: m.seq)
            for lane in free
            if (parked := self.find(lambda m, at=lane: self._is_put_back(m, at)))  # type: ignore[misc]
        ]
        if put_back:
            return [[each] for each in put_back]
        runs = [run for lane in free if (run := self._run(lane, count))]
        runs.sort(key=lambda run: (run[0].created_at, run[0].lane_id))
        return runs[:1]

    # FIFO queues: any holders, but nothing behind a held message.

    def _next_fifo(self, lanes: Sequence[int], count: int) -> list[list[Message]]:
        held = {lane: self._first_held(lane) for lane in lanes}
        put_back = [
            min(parked, key=lambda m: m.seq)
            for lane in lanes
            if held[lane] is None
            and (parked := self.find(lambda m, at=lane: self._is_put_back(m, at)))  # type: ignore[misc]
        ]
        if put_back:
            return [[each] for each in put_back]
        runs = []
        for lane in lanes:
            first = held[lane]
            run = [m for m in self._run(lane, count) if first is None or m.seq < first]
            if run:
                runs.append(run)
        return runs

    def _first_held(self, lane: int) -> int | None:
        return min(
            (
                m.seq
                for m in self.messages.values()
                if m.lane_id == lane
                and m.hold is not None
                and (m.hold.in_line or m.hold.token == self.holders.get(lane))
            ),
            default=None,
        )

    def _is_put_back(self, message: Message, lane: int) -> bool:
        return message.lane_id == lane and message.parked and message.due

    def _holds(self, lane: int) -> bool:
        token = self.holders.get(lane)
        return token is not None and any(
            each.hold is not None and each.hold.live for each in self.held(token)
        )

    def _run(self, lane: int, count: int) -> list[Message]:
        run: list[Message] = []
        line = self.find(lambda m: m.lane_id == lane and m.in_line)
        for each in sorted(line, key=lambda m: m.seq):
            follows = not run or (each.seq, each.place.segment) == (
                run[-1].seq + 1,
                run[-1].place.segment,
            )
            if len(run) == count or each.delayed or not follows:
                break
            run.append(each)
        return run

    def deliver(
        self, deliveries: Sequence[Delivery], numbers: Mapping[tuple[int, int], int]
    ) -> None:
        """Record claimed messages as leased; numbers: the claim's part of each message."""
        parts: dict[tuple[UUID, int], Part] = {}
        for each in deliveries:
            message = self.messages[each.lane_id, each.seq]
            place = each.token, numbers[each.lane_id, each.seq]
            part = parts.setdefault(place, Part(each.token, in_line=message.in_line))
            assert part.in_line == message.in_line
            if self.ordered:
                self.holders[each.lane_id] = each.token
            self.lease(message, part)

    def lease(self, message: Message, part: Part) -> None:
        message.state = "processing"
        message.parked = False
        message.attempt += 1
        message.hold = part

    def meet(self, addresses: Iterable[tuple[int, int]]) -> None:
        """Note which delayed messages a claim has put by on its way."""
        for address in addresses:
            message = self.messages[address]
            if message.in_line:
                assert message.delayed
                message.parked = True
                message.since = message.created_at
                message.postponed = True

    def settle(self, message: Message, state: str | None) -> None:
        message.state = state
        message.hold = None
        message.parked = False
        if state == "dead":
            message.died = self.clock()
        if state == "acknowledged" and not message.in_log:
            message.state = None

    def park(self, message: Message, *, later: bool = False) -> None:
        message.state = "queued"
        message.hold = None
        message.parked = True
        message.postponed = later
        message.since = datetime.now(UTC) if later else message.created_at

    def fail(self, message: Message, *, later: bool, dead: bool | None) -> str:
        """Do what nack does with one message."""
        assert message.hold is not None
        if dead or (dead is None and message.attempt >= MAX_ATTEMPTS):
            self.settle(message, "dead")
            return "dead"
        if self.fifo and message.hold.in_line:
            self._put_in_line(message, later=later)
        elif self.ordered and message.hold.in_line:
            message.attempt += 1  # the one that is taken off below
            self._rewind(message.hold.token, message.seq, later=later)
        else:
            self.park(message, later=later)
        return "requeued"

    def release(self, messages: Sequence[Message]) -> None:
        """Do what release does with messages of one token."""
        hold = messages[0].hold
        assert hold is not None
        if self.fifo and hold.in_line:
            for each in messages:
                each.attempt -= 1
                self._put_in_line(each)
            return
        if self.ordered and hold.in_line:
            self._rewind(hold.token, min(each.seq for each in messages), later=False)
            return
        for part in dict.fromkeys(each.hold for each in messages):
            for each in messages:
                if each.hold is part:
                    each.attempt -= 1
                    self.park(each)

    def _rewind(self, token: UUID, seq: int, *, later: bool) -> None:
        for each in self.held(token):
            if each.seq >= seq:
                each.state, each.hold = "queued", None
                each.attempt -= 1
                lane = each.lane_id
                self.waiting.discard(lane)
                if later:
                    self.waiting.add(lane)

    def _put_in_line(self, message: Message, *, later: bool = False) -> None:
        message.state, message.hold = "queued", None
        if later:
            self.waiting.add(message.lane_id)

    def expire(self, part: Part) -> int:
        """Expire one part as expire_claims does; return how many messages are released."""
        mine = self.held(part.token)
        if self.ordered and part.in_line and not self.fifo:
            if any(each.hold is not None and each.hold.live for each in mine):
                return 0
            back = [each for each in mine if each.attempt < MAX_ATTEMPTS]
            for each in mine:
                if each not in back:
                    self.settle(each, "dead")
            for each in back:
                each.attempt += 1
            if back:
                self._rewind(part.token, back[0].seq, later=False)
            return len(mine)
        gone = [each for each in mine if each.hold is part]
        for each in gone:
            if each.attempt >= MAX_ATTEMPTS:
                self.settle(each, "dead")
            elif self.fifo and part.in_line:
                self._put_in_line(each)
            else:
                self.park(each)
        return len(gone)

    def move(self, message: Message, target: str, token: UUID | None) -> None:
        source = message.state
        if source in ("acknowledged", "dead", "archived") and (source, target) != (
            "dead",
            "archived",
        ):
            message.attempt = 0
        if target == "queued":
            if source == "processing" and self.fifo and message.hold and message.hold.in_line:
                self.release([message])
            elif source == "processing" and self.ordered and message.hold and message.hold.in_line:
                self._rewind(message.hold.token, message.seq, later=False)
            else:
                self.park(message)
        elif target == "processing":
            assert token is not None
            self.lease(message, Part(token, in_line=False))
        else:
            self.settle(message, None if target == "deleted" else target)

    def edit(self, message: Message, content: Content) -> None:
        message.content = content
        if message.in_line and not self.ordered:
            self.park(message, later=message.delayed)

    def purge(self, status: str | None) -> int:
        gone = self.find(lambda m: m.state is not None and status in (None, m.state))
        for each in gone:
            self.settle(each, None)
        for each in self.find(lambda m: m.state == "acknowledged"):
            each.content = each.original
        if status in (None, "queued"):
            self.waiting.clear()
        return len(gone)

    def replay(self, limit: int | None) -> int:
        dead = self.find(lambda m: m.state == "dead")
        dead = sorted(dead, key=lambda m: (m.died, m.seq, m.lane_id))[:limit]
        for each in dead:
            each.attempt = 0
            self.park(each)
        return len(dead)

    def seek(self, ahead: Callable[[Message], bool]) -> None:
        self.waiting.clear()
        self.holders.clear()
        for each in self.find(lambda m: m.state in ("queued", "processing", "acknowledged")):
            each.attempt = 0
            each.content = each.original
            self.settle(each, "acknowledged")
            if each.state is not None and ahead(each):
                each.state = "queued"

    def drop(self, segments: Iterable[int]) -> None:
        """Forget what went with its segment; nothing that was still needed may be among it."""
        for segment in segments:
            for each in self.find(lambda m, at=segment: m.place.segment == at):  # type: ignore[misc]
                each.in_log = False
                assert not each.in_line, f"{each} was dropped before it was delivered"
                assert each.state != "processing", f"{each} was dropped while it was in flight"
                if each.state == "acknowledged":
                    each.state = None

    def make_due(self) -> None:
        self.waiting.clear()
        for each in self.messages.values():
            each.postponed = False
            each.delayed = False


def change(content: Content, **changes: str | int) -> Content:
    return replace(content, **changes)  # type: ignore[arg-type]
