"""The server's metrics: counted into memory that its processes share, shown for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from laneway.domain.queues import Counts
    from laneway.engine.measurements import Measurements
    from laneway.server.router import Route
    from laneway.server.shared_counters import Sheet

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
# "none": requests without an answer, because the client was gone.
_OUTCOMES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")


class Event(IntEnum):
    """What happened to messages, as `Traffic` of the engine counts it."""

    PUSHED = 0
    DELIVERED = 1
    ACKED = 2
    REFUSED = 3
    REQUEUED = 4
    DEAD = 5


class Gauge(IntEnum):
    """Numbers that each process has now. The metrics show the sum over the processes."""

    REQUESTS = 0
    POOL_OPEN = 1
    POOL_IDLE = 2
    POOL_WAITING = 3
    PUSH_WAITING = 4
    PUSH_BYTES = 5
    CLAIM_WAITING = 6
    SETTLE_WAITING = 7


class Work(IntEnum):
    """Calls of the database so far, by the pump that made them."""

    PUSH_CALLS = 0
    CLAIM_CALLS = 1
    SETTLE_CALLS = 2


# The gauges in the order of the broker's measurements. Its counters follow them: events, then work.
_OF_BROKER = tuple(Gauge)[1:]
_COUNTERS = len(Event) + len(Work)

# The places in a process's row: gauges, events, work, then for each route its outcomes, its buckets
# (the last one for longer requests) and the sum of its seconds.
_EVENTS = len(Gauge)
_WORK = _EVENTS + len(Event)
_ROUTES = _WORK + len(Work)
_SECONDS = len(_OUTCOMES) + len(BUCKETS) + 1
_ROUTE_WIDTH = _SECONDS + 1


class Metrics:
    """Counts into this process's row, and shows the sum of all rows."""

    def __init__(self, sheet: Sheet, worker: int) -> None:
        self._sheet = sheet
        self._row = sheet.row(worker)
        self._routes: Sequence[Route] = ()
        self._seen = [0] * _COUNTERS

    def name_routes(self, routes: Sequence[Route]) -> None:
        if _ROUTES + len(routes) * _ROUTE_WIDTH > len(self._row):
            raise ValueError(f"{len(routes)} routes do not fit into the shared counters")
        self._routes = routes

    def count_request(self, route: Route | None, status: int, seconds: float) -> None:
        """Count one request. A status below 100 means that there was no answer."""
        if route is None:
            return
        row = self._row
        start = _ROUTES + route.index * _ROUTE_WIDTH
        row[start + (status // 100 if status > 0 else 0)] += 1
        row[start + len(_OUTCOMES) + bisect_left(BUCKETS, seconds)] += 1
        row[start + _SECONDS] += seconds

    def take_stock(self, busy: int, broker: Measurements) -> None:
        """Write this process's numbers into its row. busy: its requests under way."""
        self._row[Gauge.REQUESTS] = busy
        for gauge, value in zip(_OF_BROKER, broker[: len(_OF_BROKER)], strict=True):
            self._row[gauge] = value
        counters = broker[len(_OF_BROKER) :]
        for place, (value, seen) in enumerate(zip(counters, self._seen, strict=True)):
            # Only what is new: the row may have been begun by a process before this one. A claim
            # that is not delivered counts back, but a counter that was shown never falls.
            if value > seen:
                self._row[_EVENTS + place] += value - seen
                self._seen[place] = value

    def render(self, counts: Sequence[Counts]) -> bytes:
        lines: list[str] = []
        totals = [sum(cells) for cells in zip(*self._rows(), strict=True)]
        lines += _render_queues(counts)
        lines += _render_process(totals)
        lines += self._render_routes(totals)
        return ("\n".join(lines) + "\n").encode()

    def _rows(self) -> Iterator[memoryview[float]]:
        used = _ROUTES + len(self._routes) * _ROUTE_WIDTH
        for row in self._sheet.rows():
            yield row[:used]

    def _render_routes(self, totals: Sequence[float]) -> Iterable[str]:
        requests: list[str] = []
        seconds: list[str] = []
        for route in self._routes:
            start = _ROUTES + route.index * _ROUTE_WIDTH
            labels = f'method="{route.operation.method}",path="{_escape(route.path)}"'
            outcomes = totals[start : start + len(_OUTCOMES)]
            if not any(outcomes):
                continue
            for outcome, count in zip(_OUTCOMES, outcomes, strict=True):
                if count:
                    requests.append(
                        f'laneway_http_requests_total{{{labels},status="{outcome}"}} {count:.0f}'
                    )
            name = "laneway_http_request_duration_seconds"
            below = 0.0
            first = start + len(_OUTCOMES)
            for bound, count in zip(BUCKETS, totals[first:], strict=False):
                below += count
                seconds.append(f'{name}_bucket{{{labels},le="{bound:g}"}} {below:.0f}')
            below += totals[first + len(BUCKETS)]
            seconds.append(f'{name}_bucket{{{labels},le="+Inf"}} {below:.0f}')
            seconds.append(f"{name}_sum{{{labels}}} {totals[start + _SECONDS]:.6f}")
            seconds.append(f"{name}_count{{{labels}}} {below:.0f}")
        yield from make_head("laneway_http_requests_total", "counter", "Requests answered.")
        yield from requests
        yield from make_head(
            "laneway_http_request_duration_seconds",
            "histogram",
            "Duration of requests, with the wait of a long poll.",
        )
        yield from seconds


def _render_queues(counts: Sequence[Counts]) -> Iterable[str]:
    now = datetime.now(UTC)
    shown: tuple[tuple[str, str, Callable[[Counts], float]], ...] = (
        ("laneway_queue_depth", "Messages that are ready or delayed.", lambda c: c.queued),
        ("laneway_queue_delayed", "Messages that are not due yet.", lambda c: c.delayed),
        (
            "laneway_queue_in_flight",
            "Messages in flight: claimed and not settled.",
            lambda c: c.processing,
        ),
        ("laneway_queue_dead", "Dead letters.", lambda c: c.dead),
        (
            "laneway_queue_oldest_age_seconds",
            "Age of the oldest message that is ready or delayed.",
            lambda c: max((now - c.oldest).total_seconds(), 0) if c.oldest else 0,
        ),
    )
    for name, meaning, read in shown:
        yield from make_head(name, "gauge", meaning)
        for count in counts:
            labels = f'queue="{_escape(count.queue)}",group="{_escape(count.group)}"'
            yield f"{name}{{{labels}}} {read(count):g}"


def _render_process(totals: Sequence[float]) -> Iterable[str]:
    yield from make_head(
        "laneway_messages_total",
        "counter",
        "Messages pushed, delivered, acked, refused (ack or nack after the lease ended), requeued or dead-lettered.",
    )
    for event in Event:
        yield (
            f'laneway_messages_total{{event="{event.name.lower()}"}} {totals[_EVENTS + event]:.0f}'
        )
    yield from make_head(
        "laneway_database_calls_total", "counter", "Calls of the database, by kind."
    )
    for work in Work:
        kind = work.name.removesuffix("_CALLS").lower()
        yield f'laneway_database_calls_total{{kind="{kind}"}} {totals[_WORK + work]:.0f}'
    for gauge, name, meaning in _GAUGES:
        yield from make_head(name, "gauge", meaning)
        yield f"{name} {totals[gauge]:.0f}"


_GAUGES = (
    (Gauge.REQUESTS, "laneway_http_requests_in_flight", "Requests in progress."),
    (Gauge.POOL_OPEN, "laneway_pool_connections", "Connections to the database."),
    (
        Gauge.POOL_IDLE,
        "laneway_pool_idle_connections",
        "Connections to the database that are idle.",
    ),
    (Gauge.POOL_WAITING, "laneway_pool_waiters", "Calls that wait for a database connection."),
    (Gauge.PUSH_WAITING, "laneway_push_pump_messages", "Messages waiting to be pushed."),
    (Gauge.PUSH_BYTES, "laneway_push_pump_bytes", "Bytes of the messages waiting to be pushed."),
    (Gauge.CLAIM_WAITING, "laneway_claim_pump_waiters", "Consumers waiting for messages."),
    (Gauge.SETTLE_WAITING, "laneway_settle_pump_messages", "Messages waiting to be settled."),
)


def make_head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
