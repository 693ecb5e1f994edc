"""Pushes ride together, queue by queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.engine.columns import expand_places, squeeze, turn_messages
from laneway.engine.procedures.delivery import push_many, push_notifying
from laneway.engine.pumps.pump import Pump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import OutgoingMessage, Pushed
    from laneway.domain.settings import PumpSettings
    from laneway.engine.columns import MessageColumns
    from laneway.engine.measurements import Traffic
    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection
    from laneway.engine.tasks import Tasks
    from laneway.engine.wakeups import Wakeups


class PushLoad(NamedTuple):
    """queues: one id for all messages, or one each. delayed: the queue itself delays.

    guards: what the messages reckon with of their queues, as `queues`; None: nothing.
    """

    queues: Sequence[int]
    messages: Sequence[OutgoingMessage]
    delayed: bool
    guards: Sequence[int] | None = None


class PushPump:
    """Appends messages and wakes whoever waits for them."""

    def __init__(
        self,
        *,
        pool: Pool,
        tasks: Tasks,
        settings: PumpSettings,
        wakeups: Wakeups,
        traffic: Traffic,
    ) -> None:
        self._wakeups = wakeups
        self._traffic = traffic
        self._pump: Pump[PushLoad, list[Pushed]] = Pump(
            "push",
            self._carry,
            pool=pool,
            tasks=tasks,
            settings=settings,
            flights_per_key=settings.flights_per_queue,
        )
        self.drain = self._pump.drain
        self.abandon = self._pump.abandon

    @property
    def calls(self) -> int:
        """How many calls the pushes so far took."""
        return self._pump.calls

    @property
    def waiting(self) -> tuple[int, int]:
        """How many messages wait for their push, and their bytes."""
        return self._pump.waiting

    async def push(self, load: PushLoad) -> list[Pushed]:
        """Return where each message is; all of them are pushed, or none."""
        queues, messages, _, _ = load
        return await self._pump.submit(
            load,
            count=len(messages),
            size=sum([len(message[0]) for message in messages]),
            key=queues[0] if len(queues) == 1 else None,
        )

    async def _carry(self, connection: Connection, loads: Sequence[PushLoad]) -> list[list[Pushed]]:
        queues, messages = _join(loads)
        columns = turn_messages(messages)
        delayed = columns.delays is not None or any(load.delayed for load in loads)
        ride, guards = _tell(loads), _join_guards(loads)
        notice = (
            self._wakeups.write_notice(queues[0], delayed=delayed) if len(queues) == 1 else None
        )
        if notice is None:
            rows = await push_many(
                connection, queues=queues, columns=columns, ride=ride, guards=guards
            )
            told = False
        else:
            rows, told = await push_notifying(
                connection,
                queues=queues,
                columns=columns,
                ride=ride,
                guards=guards,
                notice=notice,
            )
        pushed = expand_places(rows)
        self._traffic.pushed += len(pushed)
        self.announce(queues, columns, delayed=delayed, told=told)
        if len(loads) == 1:
            return [pushed]
        answers = []
        start = 0
        for load in loads:
            end = start + len(load.messages)
            answers.append(pushed[start:end])
            start = end
        return answers

    def announce(
        self,
        queues: Sequence[int],
        columns: MessageColumns,
        *,
        delayed: bool,
        told: bool = False,
    ) -> None:
        """Wake the waiters for what was pushed; told: other processes know already."""
        partitions = columns.partitions or ("",)
        plain = columns.priorities is None
        if len(queues) == 1:
            self._wakeups.wake(
                queues[0], partitions=set(partitions), delayed=delayed, plain=plain, told=told
            )
            return
        if len(partitions) == 1:
            partitions = tuple(partitions) * len(queues)
        touched: dict[int, set[str]] = {}
        for queue, partition in set(zip(queues, partitions, strict=True)):
            touched.setdefault(queue, set()).add(partition)
        for queue, names in touched.items():
            self._wakeups.wake(queue, partitions=names, delayed=delayed, plain=plain)


def _tell(loads: Sequence[PushLoad]) -> str | None:
    """Say how much the largest of several requests brought: together they are no bulk."""
    if len(loads) == 1:
        return None
    return f'{{"largest": {max(len(load.messages) for load in loads)}}}'


def _join(loads: Sequence[PushLoad]) -> tuple[Sequence[int], Sequence[OutgoingMessage]]:
    if len(loads) == 1:
        return loads[0].queues, loads[0].messages
    queues: list[int] = []
    messages: list[OutgoingMessage] = []
    for load in loads:
        messages += load.messages
        queues += load.queues if len(load.queues) > 1 else [load.queues[0]] * len(load.messages)
    return squeeze(queues) or queues, messages


def _join_guards(loads: Sequence[PushLoad]) -> Sequence[int | None] | None:
    first = loads[0].guards
    if len(loads) == 1:
        return first
    if (first is None or len(first) == 1) and all(load.guards == first for load in loads):
        return first
    joined: list[int | None] = []
    for load in loads:
        guards: Sequence[int | None] = load.guards or (None,)
        joined += guards if len(guards) > 1 else [guards[0]] * len(load.messages)
    return joined
