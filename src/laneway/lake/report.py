"""The report: one HTML file that needs nothing else, made of gold and the findings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from laneway.lake.plots import Mark, draw_lines, format_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.lake.tables import Lake

_MOST_QUEUES = 20
_MOST_MARKS = 100
_MOST_FINDINGS = 500
_BY_MINUTE = timedelta(hours=12)
_STYLE = """
:root { color-scheme: light dark; --ink: #1e293b; --soft: #64748b; --line: #e2e8f0; --paper: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --soft: #94a3b8; --line: #334155; --paper: #0f172a } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 960px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem }
svg { width: 100%; height: auto; margin: .5rem 0 } svg text { font-size: 11px; fill: var(--soft) }
svg .title { font-size: 13px; font-weight: 600; fill: var(--ink) } svg .unit { font-weight: 400; fill: var(--soft) }
svg .key { font-weight: 600 } svg .grid { stroke: var(--line) }
svg .mark line { stroke: #f59e0b; stroke-dasharray: 3 3 } svg .mark circle { fill: #f59e0b }
svg .mark.critical line { stroke: #dc2626 } svg .mark.critical circle { fill: #dc2626 }
svg .mark.info line { stroke: #94a3b8 } svg .mark.info circle { fill: #94a3b8 }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums } th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child, td.text, th.text { text-align: left } .scroll { overflow-x: auto } .soft { color: var(--soft) }
"""


@dataclass(frozen=True, slots=True)
class _Span:
    start: datetime
    end: datetime
    grain: str

    @property
    def seconds(self) -> int:
        return 60 if self.grain == "minute" else 3600


def make_report(lake: Lake, since: timedelta, *, now: datetime | None = None) -> str:
    """Return the page about the time since then: by the minute where that is half a day or less."""
    # Spark gives times without a zone; they are UTC.
    end = (now or datetime.now(UTC)).astimezone(UTC).replace(tzinfo=None)
    span = _Span(end - since, end, "minute" if since <= _BY_MINUTE else "hour")
    first = span.start.date().isoformat()

    def within(frame: Any) -> Any:
        return frame.where(F.col("at").between(F.lit(span.start), F.lit(span.end)))

    traffic = within(lake.traffic.read(lambda file: file.day >= first)).where(
        F.col("grain") == span.grain
    )
    rows = (
        traffic.groupBy("queue", "group", "at")
        .agg(
            *[
                F.sum(name).alias(name)
                for name in ("enqueued", "acked", "dead", "retried", "backlog")
            ],
            *[F.max(name).alias(name) for name in _PERCENTILES],
        )
        .orderBy("at")
        .collect()
    )
    consumers = (
        within(lake.consumers.read(lambda file: file.day >= first))
        .where(F.col("grain") == span.grain)
        .groupBy("queue", "consumer")
        .agg(
            *[F.sum(name).alias(name) for name in ("claimed", "acked", "dead", "retried")],
            F.max("work_p95").alias("work_p95"),
        )
        .orderBy(F.desc("claimed"))
        .collect()
    )
    findings = within(lake.anomalies.read(lambda file: file.day >= first)).orderBy("at").collect()
    return _page(span, rows, consumers, findings)


_PERCENTILES = ("wait_p50", "wait_p95", "wait_p99", "work_p50", "work_p95", "work_p99")


def _page(
    span: _Span, rows: Sequence[Any], consumers: Sequence[Any], findings: Sequence[Any]
) -> str:
    totals: dict[str, int] = {}
    for row in rows:
        totals[row.queue] = totals.get(row.queue, 0) + row.enqueued + row.acked
    queues = sorted(totals, key=lambda queue: -totals[queue])
    shown = queues[:_MOST_QUEUES]
    left = (
        f"<p class=soft>The {_MOST_QUEUES} busiest of {len(queues)} queues.</p>"
        if queues[_MOST_QUEUES:]
        else ""
    )
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Laneway: {span.start:%d %b} to {span.end:%d %b %Y}</title><style>{_STYLE}</style>",
        f"<h1>Laneway, {span.start:%d %b %Y %H:%M} to {span.end:%d %b %Y %H:%M} UTC</h1>",
        _draw_overview(span, rows, shown, findings),
        _tabulate_queues(rows, shown),
        left,
        *(_draw_queue(span, queue, rows, findings) for queue in shown),
        _tabulate_consumers(consumers),
        _tabulate_findings(findings),
        "</html>",
    ]
    return "\n".join(parts)


def _draw_overview(
    span: _Span, rows: Sequence[Any], queues: Sequence[str], findings: Sequence[Any]
) -> str:
    series = {
        queue: _rates(
            [row for row in rows if row.queue == queue and row.group == "default"], "enqueued", span
        )
        for queue in queues
    }
    worst = [each for each in findings if each.severity != "info"]
    return draw_lines(
        "Enqueued, by queue",
        series,
        unit="messages/s",
        start=span.start,
        end=span.end,
        marks=_mark(worst),
    )


def _draw_queue(span: _Span, queue: str, rows: Sequence[Any], findings: Sequence[Any]) -> str:
    of_queue = [row for row in rows if row.queue == queue]
    marks = _mark([each for each in findings if each.queue == queue])
    parts = [f"<h2>{escape(queue)}</h2>"]
    for group in sorted({row.group for row in of_queue}):
        met = [row for row in of_queue if row.group == group]
        name = "" if group == "default" else f" ({group})"
        charts = {
            f"Throughput{name}": (
                {each: _rates(met, each, span) for each in ("enqueued", "acked", "retried")},
                "messages/s",
            ),
            f"Wait{name}": (
                {p: _values(met, f"wait_{p}") for p in ("p50", "p95", "p99")},
                "s until taken",
            ),
            f"Work{name}": (
                {p: _values(met, f"work_{p}") for p in ("p50", "p95", "p99")},
                "s until settled",
            ),
            f"Backlog{name}": ({"backlog": _values(met, "backlog")}, "messages"),
            f"Dead letters{name}": ({"dead": _values(met, "dead")}, f"messages each {span.grain}"),
        }
        parts += [
            draw_lines(title, series, unit=unit, start=span.start, end=span.end, marks=marks)
            for title, (series, unit) in charts.items()
        ]
    return "".join(parts)


def _tabulate_queues(rows: Sequence[Any], queues: Sequence[str]) -> str:
    lines = []
    for queue in queues:
        met = [row for row in rows if row.queue == queue]
        cells = [
            format_number(sum(getattr(row, name) for row in met))
            for name in ("enqueued", "acked", "retried", "dead")
        ]
        last = max(met, key=lambda row: row.at)
        worst = max((row.wait_p95 for row in met if row.wait_p95 is not None), default=None)
        lines.append(
            [queue, *cells, format_number(last.backlog), "" if worst is None else f"{worst:.3g} s"]
        )
    return _tabulate(
        ["queue", "enqueued", "acked", "retried", "dead", "backlog", "worst p95 wait"], lines
    )


def _tabulate_consumers(consumers: Sequence[Any]) -> str:
    lines = [
        [
            row.consumer,
            row.queue,
            *(
                format_number(getattr(row, name))
                for name in ("claimed", "acked", "retried", "dead")
            ),
            "" if row.work_p95 is None else f"{row.work_p95:.3g} s",
        ]
        for row in consumers
    ]
    head = ["consumer", "queue", "claimed", "acked", "retried", "dead", "worst p95 work"]
    return "<h2>Consumers</h2>" + _tabulate(head, lines)


def _tabulate_findings(findings: Sequence[Any]) -> str:
    lines = [
        [
            f"{each.at:%d %b %H:%M:%S}",
            each.severity,
            each.type,
            each.queue,
            each.consumer or "",
            each.description,
        ]
        for each in findings[:_MOST_FINDINGS]
    ]
    more = len(findings) - len(lines)
    note = f"<p class=soft>and {more} more</p>" if more > 0 else ""
    head = ["at", "severity", "type", "queue", "consumer", "what"]
    return f"<h2>Anomalies: {len(findings)}</h2>" + _tabulate(head, lines) + note


def _tabulate(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    if not lines:
        return "<p class=soft>None.</p>"
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines
    )
    return (
        f"<div class=scroll><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _rates(rows: Sequence[Any], name: str, span: _Span) -> list[tuple[datetime, float]]:
    return [(row.at, getattr(row, name) / span.seconds) for row in rows]


def _values(rows: Sequence[Any], name: str) -> list[tuple[datetime, float]]:
    return [(row.at, float(getattr(row, name))) for row in rows if getattr(row, name) is not None]


def _mark(findings: Sequence[Any]) -> list[Mark]:
    order = {"critical": 0, "warning": 1, "info": 2}
    chosen = sorted(findings, key=lambda each: order.get(each.severity, 3))[:_MOST_MARKS]
    return [Mark(each.at, f"{each.type}: {each.description}", each.severity) for each in chosen]
