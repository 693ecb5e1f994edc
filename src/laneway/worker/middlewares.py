"""Middlewares for tracing and metrics; add them with `App.middleware`."""

from __future__ import annotations

from collections import Counter
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from laneway.worker.policies import Snooze

if TYPE_CHECKING:
    from laneway.worker.handlers import Middleware, Proceed, Work

# Upper bounds in seconds.
BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, float("inf"))


class Timing(NamedTuple):
    """Calls, failures and total seconds of a queue's handlers, and calls per histogram bucket.

    Snooze, which workflow timers raise too, does not count as a failure.
    """

    calls: int
    failures: int
    seconds: float
    buckets: dict[float, int]


class Metrics:
    """Counts and times handler calls by queue; `show` returns them in Prometheus' text format."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()
        self._buckets: dict[str, Counter[float]] = {}

    async def __call__(self, work: Work, proceed: Proceed) -> Any:
        queue = _name_queue(work)
        began = perf_counter()
        try:
            return await proceed(work)
        except Snooze:
            raise
        except BaseException:
            self._failures[queue] += 1
            raise
        finally:
            spent = perf_counter() - began
            self._calls[queue] += 1
            self._seconds[queue] += spent  # type: ignore[assignment]
            bound = next(bound for bound in BOUNDS if spent <= bound)
            self._buckets.setdefault(queue, Counter())[bound] += 1

    def timing(self, queue: str) -> Timing:
        return Timing(
            self._calls[queue],
            self._failures[queue],
            float(self._seconds[queue]),
            dict(self._buckets.get(queue, {})),
        )

    def show(self) -> str:
        lines = ["# TYPE laneway_handler_seconds histogram"]
        for queue in sorted(self._calls):
            label = f'queue="{_escape(queue)}"'
            below = 0
            for bound in BOUNDS:
                below += self._buckets[queue][bound]
                edge = "+Inf" if bound == float("inf") else f"{bound:g}"
                lines.append(f'laneway_handler_seconds_bucket{{{label},le="{edge}"}} {below}')
            lines.append(f"laneway_handler_seconds_sum{{{label}}} {self._seconds[queue]}")
            lines.append(f"laneway_handler_seconds_count{{{label}}} {self._calls[queue]}")
        lines.append("# TYPE laneway_handler_failures_total counter")
        lines += [
            f'laneway_handler_failures_total{{queue="{_escape(queue)}"}} {self._failures[queue]}'
            for queue in sorted(self._calls)
        ]
        return "\n".join(lines) + "\n"


def trace(tracer: Any) -> Middleware:
    """Return a middleware that opens a span for every call. tracer: an OpenTelemetry tracer.

    A failed call records its error in the span; Snooze does not count as a failure.
    """

    async def middleware(work: Work, proceed: Proceed) -> Any:
        queue = _name_queue(work)
        with tracer.start_as_current_span(f"{queue} process") as span:
            span.set_attribute("messaging.system", "laneway")
            span.set_attribute("messaging.destination.name", queue)
            if isinstance(work, list):
                span.set_attribute("messaging.batch.message_count", len(work))
            else:
                span.set_attribute("messaging.message.id", str(work.id))
                span.set_attribute("messaging.laneway.attempt", work.attempt)
            try:
                return await proceed(work)
            except Snooze as error:
                snooze = error
        # Raised outside of the span, which would record it as an error.
        raise snooze

    return middleware


def _name_queue(work: Work) -> str:
    return work[0].queue if isinstance(work, list) else work.queue


def _escape(text: str) -> str:
    """Escape a label value for Prometheus' text format."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
