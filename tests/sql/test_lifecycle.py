"""The lifecycle as a state machine, compared with a model."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import asyncpg
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.sql import calls
from tests.sql.calls import HOUR, STATES, Delivery
from tests.sql.model import MAX_ATTEMPTS, Content, Message, Model, Part, change

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from datetime import timedelta
    from uuid import UUID

    from tests.sql.calls import Queue, Session

T = TypeVar("T")

WHICH = st.sampled_from(("shared", "ordered", "fifo"))
ORDERED = st.sampled_from(("ordered", "fifo"))
PICK = st.integers(0, 1000)
MASK = st.integers(1, 2**10 - 1)
PARTITIONS = st.sampled_from(("a", "b"))
PRIORITIES = st.sampled_from((0, 5))
PLACES = st.lists(st.tuples(PARTITIONS, PRIORITIES), min_size=1, max_size=6)
_names = itertools.count()


class Lifecycle(RuleBasedStateMachine):
    """A shared queue of two partitions and two priorities; an ordered and a FIFO queue of two lanes."""

    dsn: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.ran = 0
        self.session: Session = self.run(asyncpg.connect(self.dsn))
        number = next(_names)
        self.queues: dict[str, Queue] = {
            which: self.run(
                calls.create_queue(
                    self.session,
                    f"{which} {number}{'.fifo' if which == 'fifo' else ''}",
                    ordered=which != "shared",
                    max_attempts=MAX_ATTEMPTS,
                    lease="1 hour",
                )
            )
            for which in ("shared", "ordered", "fifo")
        }
        self.models = {
            which: Model(ordered=which != "shared", fifo=which == "fifo", clock=lambda: self.ran)
            for which in self.queues
        }
        self.deliveries: dict[str, list[Delivery]] = {which: [] for which in self.queues}
        self.bodies = itertools.count()
        self.run(calls.keep_nothing(self.session))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        self.ran += 1
        return self.runner.run(work)

    def teardown(self) -> None:
        for queue in self.queues.values():
            self.run(self.session.execute("select laneway.delete_queue($1, true)", queue.name))
        assert self.run(calls.find_orphans(self.session)) == {}
        self.run(calls.retain(self.session))
        self.run(self.session.close())
        self.runner.close()

    @initialize(shared=PLACES, ordered=PLACES, fifo=PLACES)
    def start_with_some(
        self,
        shared: list[tuple[str, int]],
        ordered: list[tuple[str, int]],
        fifo: list[tuple[str, int]],
    ) -> None:
        self._push("shared", shared)
        self._push("ordered", ordered)
        self._push("fifo", fifo)

    @rule(
        which=WHICH, places=PLACES, mixed=st.booleans(), delay=st.sampled_from((None, None, HOUR))
    )
    def push(
        self, which: str, places: list[tuple[str, int]], delay: timedelta | None, *, mixed: bool
    ) -> None:
        if delay:
            places = places[:1]
        self._push(which, places if mixed else places[:1] * len(places), delay)

    def _push(
        self, which: str, places: Sequence[tuple[str, int]], delay: timedelta | None = None
    ) -> None:
        model = self.models[which]
        contents = [
            Content(partition, 0 if model.ordered else priority, str(next(self.bodies)))
            for partition, priority in places
        ]
        single = len(set(places)) == 1
        pushed = self.run(
            calls.push(
                self.session,
                self.queues[which],
                [each.body for each in contents],
                partitions=[each.partition for each in contents][: 1 if single else None],
                priorities=[each.priority for each in contents][: 1 if single else None],
                delays=None if delay is None else [delay],
            )
        )
        rows = self.run(
            self.session.fetch(
                "select m.created_at from unnest($1::int[], $2::int[], $3::bigint[]) "
                "with ordinality u (segment, lane_id, seq, n) "
                "join laneway.message m using (segment, lane_id, seq) order by u.n",
                [each.segment for each in pushed],
                [each.lane_id for each in pushed],
                [each.seq for each in pushed],
            )
        )
        model.push(
            Message(place, row["created_at"], content, delayed=delay is not None)
            for place, row, content in zip(pushed, rows, contents, strict=True)
        )

    @rule(
        wants=st.lists(st.integers(1, 4), min_size=1, max_size=3) | st.just([0, 2, 0, 1]),
        partition=st.sampled_from((None, None, None, "a")),
        priority=st.sampled_from((None, None, None, 5)),
    )
    def claim_shared(
        self, wants: list[int], partition: str | None = None, priority: int | None = None
    ) -> None:
        model, queue = self.models["shared"], self.queues["shared"]
        expected = model.next_shared(sum(wants), partition, priority)
        got = self.run(
            calls.claim(self.session, queue, *wants, partition=partition, priority=priority)
        )
        assert [(each.lane_id, each.seq) for each in got] == [each.address for each in expected]
        seats = [waiter for waiter, want in enumerate(wants) for _ in range(want)]
        assert [each.waiter for each in got] == seats[: len(got)]
        self._accept("shared", got)
        parked = self.run(
            self.session.fetch(
                "select lane_id, seq from laneway.parked where group_id = $1", queue.group_id
            )
        )
        model.meet((row["lane_id"], row["seq"]) for row in parked)

    @rule(which=ORDERED, want=st.integers(1, 4))
    def claim_ordered(self, which: str, want: int) -> None:
        model = self.models[which]
        got = self.run(calls.claim(self.session, self.queues[which], want))
        self._take_over(model)
        expected = [[each.address for each in run] for run in model.next_ordered(want)]
        if expected:
            assert [(each.lane_id, each.seq) for each in got] in expected
        else:
            assert got == []
        self._accept(which, got)

    def _take_over(self, model: Model) -> None:
        """Let the model end the claims that the database has ended in passing."""
        rows = self.run(
            self.session.fetch(
                "select c.token, c.lane_id, s.seq from laneway.claim c cross join unnest(c.pending) r "
                "cross join generate_series(lower(r), upper(r) - 1) s (seq)"
            )
        )
        kept = {(row["token"], (row["lane_id"], row["seq"])) for row in rows}
        for message in model.find(lambda m: m.hold is not None):
            hold = message.hold
            if hold is not None and (hold.token, message.address) not in kept:
                assert not hold.live
                model.expire(hold)

    def _accept(self, which: str, got: list[Delivery]) -> None:
        model = self.models[which]
        for each in got:
            message = model.messages[each.lane_id, each.seq]
            seen = message.content if message.parked or model.ordered else None
            seen = seen or message.original
            assert Content(each.partition, each.priority, each.body) == seen
            assert each.attempt == message.attempt + 1
        model.deliver(got, dict(self._list_held()))
        self.deliveries[which] += got

    def _live(self, which: str) -> list[Delivery]:
        """Return the messages in flight; push and claim some if there are none."""
        if not self._in_time(which):
            self._claim_some(which)
        if not self._in_time(which):
            self._push(which, [("a", 0), ("b", 5), ("a", 0), ("a", 0)])
            self._claim_some(which)
        return self._in_time(which)

    def _in_time(self, which: str) -> list[Delivery]:
        return [each for each in self.deliveries[which] if self.models[which].is_live(each)]

    def _claim_some(self, which: str) -> None:
        if which == "shared":
            self.claim_shared([2, 3])
        else:
            self.claim_ordered(which, 4)

    @rule(which=WHICH, mask=MASK)
    def ack(self, which: str, mask: int) -> None:
        chosen = choose(self._live(which), mask)
        assert self.run(calls.ack(self.session, chosen)) == []
        for each in chosen:
            self.models[which].settle(self._message(which, each), "acknowledged")

    @rule(which=WHICH, mask=MASK, later=st.booleans(), dead=st.sampled_from((None, False, True)))
    def nack(self, which: str, mask: int, *, later: bool, dead: bool | None) -> None:
        model = self.models[which]
        chosen = choose(self._live(which), mask)
        outcomes = self.run(
            calls.nack(self.session, chosen, delay=HOUR if later else None, dead=dead, reason="no")
        )
        order = sorted(
            range(len(chosen)),
            key=lambda i: (
                chosen[i].lane_id,
                chosen[i].token.bytes,
                -chosen[i].seq if model.ordered else chosen[i].seq,
            ),
        )
        for i in order:
            outcome = model.fail(self._message(which, chosen[i]), later=later, dead=dead)
            assert outcomes[i] == outcome

    @rule(which=WHICH, pick=PICK, mask=MASK)
    def release(self, which: str, pick: int, mask: int) -> None:
        live = self._live(which)
        if live:
            token = live[pick % len(live)].token
            chosen = choose([each for each in live if each.token == token], mask)
            assert self.run(calls.release(self.session, chosen)) == []
            self.models[which].release([self._message(which, each) for each in chosen])

    @rule(which=WHICH, pick=PICK, whole=st.booleans())
    def extend(self, which: str, pick: int, *, whole: bool) -> None:
        live = self._live(which)
        if not live:
            return
        one = live[pick % len(live)]
        [until] = self.run(calls.extend(self.session, [one], HOUR, whole=whole))
        assert until is not None
        message = self._message(which, one)
        hold = message.hold
        assert hold is not None
        if not whole and len(self.models[which].find(lambda m: m.hold is hold)) > 1:
            message.hold = Part(hold.token, hold.in_line)

    @rule(which=WHICH, pick=PICK, sweep=st.booleans())
    def expire_leases(self, which: str, pick: int, *, sweep: bool) -> None:
        live = self._live(which)
        if not live:
            return
        one = live[pick % len(live)]
        self.run(
            self.session.execute(
                "update laneway.claim set until = clock_timestamp() - interval '1 second' "
                "where token = $1 and lane_id = $2 and pending @> $3::bigint",
                one.token,
                one.lane_id,
                one.seq,
            )
        )
        hold = self._message(which, one).hold
        assert hold is not None
        hold.live = False
        if sweep:
            self._expire()

    @rule(which=WHICH, mask=MASK)
    def use_late_tokens(self, which: str, mask: int) -> None:
        late = [each for each in self.deliveries[which] if not self.models[which].is_live(each)]
        late = choose(late[-10:], mask)
        everything = list(range(len(late)))
        assert self.run(calls.ack(self.session, late)) == everything
        assert self.run(calls.nack(self.session, late, dead=True)) == ["lost"] * len(late)
        assert self.run(calls.extend(self.session, late, HOUR)) == [None] * len(late)
        for each in late:
            assert self.run(calls.release(self.session, [each])) == [0]

    @rule(which=WHICH, pick=PICK, goal=st.sampled_from((*STATES, "deleted")))
    def move(self, which: str, pick: int, goal: str) -> None:
        model = self.models[which]
        found = model.find(lambda m: m.state is not None and (m.state != goal or goal == "queued"))
        if not found:
            return
        message = found[pick % len(found)]
        moved = self.run(
            calls.move(
                self.session,
                self.queues[which],
                [message.place],
                source=message.state or "",
                target=goal,
            )
        )
        assert list(moved) == [0]
        model.move(message, goal, moved[0])
        if moved[0] is not None:
            self.deliveries[which].append(in_hand(message, moved[0]))

    @rule(which=WHICH, pick=PICK, partition=PARTITIONS, priority=PRIORITIES)
    def edit(self, which: str, pick: int, partition: str, priority: int) -> None:
        model = self.models[which]
        found = model.find(lambda m: m.state in ("queued", "processing", "dead"))
        if not found:
            return
        message = found[pick % len(found)]
        changes: dict[str, Any] = {"body": next(self.bodies)}
        if not model.ordered:
            changes |= {"partition": partition, "priority": priority}
        assert self.run(
            calls.edit(
                self.session, self.queues[which], message.place, message.state or "", **changes
            )
        )
        model.edit(message, change(message.content, **changes | {"body": str(changes["body"])}))

    @rule(which=WHICH, status=st.sampled_from((*STATES, "dead", "archived", None)))
    def purge(self, which: str, status: str | None) -> None:
        expected = self.models[which].purge(status)
        assert self.run(calls.purge(self.session, self.queues[which], status)) == expected

    @rule(which=WHICH, limit=st.sampled_from((None, 1, 2)))
    def replay(self, which: str, limit: int | None) -> None:
        expected = self.models[which].replay(limit)
        assert self.run(calls.replay(self.session, self.queues[which], limit)) == expected

    @rule(which=WHICH, goal=st.sampled_from(("earliest", "latest", "time", "seq")), pick=PICK)
    def seek(self, which: str, goal: str, pick: int) -> None:
        model, queue = self.models[which], self.queues[which]
        mark = list(model.messages.values())[pick % len(model.messages)]
        match goal:
            case "earliest":
                self.run(calls.seek(self.session, queue, goal))
                model.seek(lambda _: True)
            case "latest":
                self.run(calls.seek(self.session, queue, goal))
                model.seek(lambda _: False)
            case "time":
                self.run(calls.seek(self.session, queue, goal, moment=mark.created_at))
                model.seek(lambda m: m.created_at >= mark.created_at)
            case _:
                self.run(calls.seek(self.session, queue, goal, seq=mark.seq))
                model.seek(lambda m: m.seq >= mark.seq)

    @rule(what=st.sampled_from(("expire", "make_due", "rotate", "retain", "sweep_idle")))
    def maintain(self, what: str) -> None:
        match what:
            case "expire":
                self._expire()
            case "make_due":
                self._hasten()
            case "rotate":
                self.run(calls.rotate(self.session))
            case "retain":
                dropped = self.run(calls.retain(self.session))
                for model in self.models.values():
                    model.drop(dropped)
            case _:
                self.run(calls.sweep_idle(self.session))

    def _expire(self) -> None:
        given_back = 0
        order = {address: at for at, (address, _) in enumerate(self._list_held())}
        for model in self.models.values():
            overdue = dict.fromkeys(
                m.hold for m in model.messages.values() if m.hold is not None and not m.hold.live
            )
            ends = {
                part: min(
                    order[m.lane_id, m.seq] for m in model.messages.values() if m.hold is part
                )
                for part in overdue
            }
            for part in sorted(overdue, key=ends.__getitem__):
                if model.find(lambda m, at=part: m.hold is at):  # type: ignore[misc]
                    given_back += model.expire(part)
        assert self.run(calls.expire(self.session)) == given_back

    def _list_held(self) -> list[tuple[tuple[int, int], int]]:
        """Return lane, seq and part of all messages in flight, by expiry time."""
        rows = self.run(
            self.session.fetch(
                "select c.lane_id, s.seq, c.part from laneway.claim c cross join unnest(c.pending) r "
                "cross join generate_series(lower(r), upper(r) - 1) s (seq) order by c.until"
            )
        )
        return [((row["lane_id"], row["seq"]), row["part"]) for row in rows]

    def _hasten(self) -> None:
        """Let an hour pass for whatever waits, and for nothing else."""
        for table, column in (
            ("parked", "available_at"),
            ("message", "deliver_at"),
            ("progress", "not_before"),
        ):
            self.run(
                self.session.execute(
                    f"update laneway.{table} set {column} = {column} - interval '1 hour' "
                    f"where {column} > clock_timestamp()"
                )
            )
        for model in self.models.values():
            model.make_due()

    @invariant()
    def every_message_is_where_it_should_be(self) -> None:
        groups = {queue.group_id: self.models[which] for which, queue in self.queues.items()}
        rows = self.run(
            self.session.fetch(
                "select group_id, lane_id, seq, status, attempt_count, type, priority, "
                "payload::text from laneway.messages where group_id = any ($1)",
                list(groups),
            )
        )
        seen: dict[int, set[tuple[int, int]]] = {group_id: set() for group_id in groups}
        for row in rows:
            message = groups[row["group_id"]].messages[row["lane_id"], row["seq"]]
            assert message.address not in seen[row["group_id"]]
            seen[row["group_id"]].add(message.address)
            assert row["status"] == message.state
            if message.state != "acknowledged":
                shown = Content(row["type"], row["priority"], row["payload"])
                assert shown == message.content
                assert row["attempt_count"] == message.attempt
        for group_id, model in groups.items():
            assert seen[group_id] == {m.address for m in model.find(lambda m: m.state is not None)}

    @invariant()
    def counts_agree(self) -> None:
        groups = {queue.group_id: self.models[which] for which, queue in self.queues.items()}
        rows = self.run(
            self.session.fetch("select * from laneway.count_by_state($1)", list(groups))
        )
        assert len(rows) == len(groups)
        for row in rows:
            counted = {state: row[state] for state in STATES if row[state] != 0}
            messages = groups[row["group_id"]].messages.values()
            assert counted == Counter(each.state for each in messages if each.state is not None)

    @invariant()
    def nothing_is_left_over(self) -> None:
        assert self.run(calls.find_orphans(self.session)) == {}
        crowded = "select reader_id from laneway.progress group by 1 having count(*) > 1"
        assert self.run(self.session.fetch(crowded)) == []

    def _message(self, which: str, delivery: Delivery) -> Message:
        return self.models[which].messages[delivery.lane_id, delivery.seq]


def choose(deliveries: Sequence[Delivery], mask: int) -> list[Delivery]:
    chosen = [each for at, each in enumerate(deliveries) if mask >> (at % 10) & 1]
    return chosen or list(deliveries[:1])


def in_hand(message: Message, token: UUID) -> Delivery:
    return Delivery(
        waiter=0,
        token=token,
        segment=message.place.segment,
        lane_id=message.lane_id,
        seq=message.seq,
        partition=message.content.partition,
        priority=message.content.priority,
        attempt=message.attempt,
        created_at=message.created_at,
        until=message.created_at,
        lease=None,
        max_attempts=None,
        key=None,
        headers=None,
        body=message.content.body,
    )


@pytest.mark.invariant(3, 4, 5, 6, 7, 11)
@pytest.mark.timeout(900)
def test_lifecycle_follows_the_model(database: str) -> None:
    run_state_machine_as_test(
        type("LifecycleHere", (Lifecycle,), {"dsn": database}),
        settings=settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
