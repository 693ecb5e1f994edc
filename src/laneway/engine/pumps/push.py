"""Batches pushes by queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.engine.columns import expand_places, squeeze, turn_messages
from laneway.engine.procedures.delivery import push_many, push_notifying
from laneway.engine.procedures.queues import encode_json
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
    """Messages to push. queues: one id for all, or one each. delayed: the queue has a delay.

    guards: the queue options that each message assumes (`queue.guards`), one for all or one each;
    None: not checked. producers: who enqueued each message, as the activity log shows it; None: no
    message has a name.
    """

    queues: Sequence[int]
    messages: Sequence[OutgoingMessage]
    delayed: bool
    guards: Sequence[int] | None = None
    producers: Sequence[str | None] | None = None


class PushPump:
    """Pushes messages and wakes the consumers that wait for them."""

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
            self._send,
            pool=pool,
            tasks=tasks,
            settings=settings,
            calls_per_key=settings.concurrent_calls_per_queue,
        )
        self.drain = self._pump.drain
        self.abandon = self._pump.abandon

    @property
    def calls(self) -> int:
        """Number of calls so far."""
        return self._pump.calls

    @property
    def waiting(self) -> tuple[int, int]:
        """Number of messages that are not pushed yet, and their bytes."""
        return self._pump.waiting

    async def push(self, load: PushLoad) -> list[Pushed]:
        """Return the place of each message; all are pushed, or none."""
        queues, messages, *_ = load
        return await self._pump.submit(
            load,
            count=len(messages),
            size=sum([len(message[0]) for message in messages]),
            key=queues[0] if len(queues) == 1 else None,
        )

    async def _send(self, connection: Connection, loads: Sequence[PushLoad]) -> list[list[Pushed]]:
        queues, messages = _join(loads)
        columns = turn_messages(messages)
        delayed = columns.delays is not None or any(load.delayed for load in loads)
        note, guards = _describe_batch(loads), _join_guards(loads)
        notice = (
            self._wakeups.write_notice(queues[0], delayed=delayed) if len(queues) == 1 else None
        )
        if notice is None:
            rows = await push_many(
                connection, queues=queues, columns=columns, note=note, guards=guards
            )
            notified = False
        else:
            rows, notified = await push_notifying(
                connection,
                queues=queues,
                columns=columns,
                note=note,
                guards=guards,
                notice=notice,
            )
        pushed = expand_places(rows)
        self._traffic.pushed += len(pushed)
        self.announce(queues, columns, delayed=delayed, notified=notified)
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
        notified: bool = False,
    ) -> None:
        """Wake consumers for pushed messages; notified: the push has notified other processes."""
        partitions = columns.partitions or ("",)
        plain = columns.priorities is None
        if len(queues) == 1:
            self._wakeups.wake(
                queues[0],
                partitions=set(partitions),
                delayed=delayed,
                plain=plain,
                notified=notified,
            )
            return
        if len(partitions) == 1:
            partitions = tuple(partitions) * len(queues)
        touched: dict[int, set[str]] = {}
        for queue, partition in set(zip(queues, partitions, strict=True)):
            touched.setdefault(queue, set()).add(partition)
        for queue, names in touched.items():
            self._wakeups.wake(queue, partitions=names, delayed=delayed, plain=plain)


def _describe_batch(loads: Sequence[PushLoad]) -> str | None:
    """Return what push_many takes as p_event_detail, as JSON.

    The size of the largest request shows that a batch of small ones is no bulk.
    """
    named = any(load.producers is not None for load in loads)
    if len(loads) == 1 and not named:
        return None
    largest = max(len(load.messages) for load in loads)
    if not named:
        return f'{{"largest": {largest}}}'
    note: dict[str, object] = {} if len(loads) == 1 else {"largest": largest}
    producers: list[str | None] = []
    for load in loads:
        producers += load.producers or [None] * len(load.messages)
    one = len(set(producers)) == 1
    note |= {"producer": producers[0]} if one else {"producers": producers}
    return encode_json(note)


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
