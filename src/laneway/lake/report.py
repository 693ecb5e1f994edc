"""The report: one self-contained HTML file from gold and the findings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from laneway.lake.pipelines.gold import GRAINS, find_opening, sum_backlog
from laneway.lake.pipelines.silver import DEFAULT_GROUP
from laneway.lake.plots import STYLE, Axis, Mark, draw_lines, format_number
from laneway.lake.translation import translating_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, Row

    from laneway.lake.tables import Lake

_MOST_QUEUES = 20
_MOST_MARKS = 100
_MOST_FINDINGS = 500
_BY_MINUTE = timedelta(hours=12)
_STYLE = """
:root { color-scheme: light dark; --ink: #1e293b; --soft: #64748b; --line: #e2e8f0; --paper: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --soft: #94a3b8; --line: #334155; --paper: #0f172a } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 960px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums } th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line); white-space: nowrap }
.text, .long { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 5rem } .long { min-width: 16rem } .scroll { overflow-x: auto } .soft { color: var(--soft) }
"""
# The findings shown on each chart; all others are shown on the first.
_CHARTS = {
    "Throughput": (),
    "Wait": ("flash_message", "unusual_wait_p95"),
    "Work": ("long_processing", "lock_stolen", "zombie_message", "unusual_work_p95"),
    "Backlog": ("queue_cleared", "bulk_delete", "bulk_move", "unusual_backlog"),
    "Dead letters": ("dlq_movement", "near_dlq", "unusual_dead"),
}
_CHART_OF = {name: chart for chart, names in _CHARTS.items() for name in names}
_PERCENTILES = ("wait_p50", "wait_p95", "wait_p99", "work_p50", "work_p95", "work_p99")
# Messages per second, minute or hour, whichever gives readable numbers.
_PACES = (("messages/s", 1), ("messages/min", 60), ("messages/h", 3600))


@translating_spark()
def make_report(lake: Lake, since: timedelta, *, now: datetime | None = None) -> str:
    """Return the page about the time since `since`, per minute up to half a day, else per hour."""
    # Spark returns times without a zone; they are UTC.
    end = (now or datetime.now(UTC)).astimezone(UTC).replace(tzinfo=None)
    grain = "minute" if since <= _BY_MINUTE else "hour"
    axis = Axis(end - since, end, timedelta(seconds=GRAINS[grain]))
    first = axis.start.date().isoformat()

    def within(frame: DataFrame) -> DataFrame:
        return frame.where(F.col("at").between(F.lit(axis.start), F.lit(axis.end)))

    traffic = lake.traffic.read(lambda file: file.day >= first).where(F.col("grain") == grain)
    opening = find_opening(lake.traffic.read(lambda file: file.day < first))
    counts = ("enqueued", "acked", "dead", "retried")
    rows = (
        within(traffic)
        .groupBy("queue", "group", "at")
        .agg(
            *[F.sum(name).alias(name) for name in counts],
            *[F.max(name).alias(name) for name in _PERCENTILES],
        )
        .join(within(sum_backlog(traffic, opening)), ["queue", "group", "at"])
        .orderBy("at")
        .collect()
    )
    consumers = (
        within(lake.consumers.read(lambda file: file.day >= first))
        .where(F.col("grain") == grain)
        .groupBy("queue", "consumer")
        .agg(
            *[F.sum(name).alias(name) for name in ("claimed", "acked", "dead", "retried")],
            F.max("work_p95").alias("work_p95"),
        )
        .orderBy(F.desc("claimed"), "consumer")
        .collect()
    )
    findings = within(lake.anomalies.read(lambda file: file.day >= first)).orderBy("at").collect()
    return _page(axis, rows, consumers, findings)


def _page(
    axis: Axis, rows: Sequence[Row], consumers: Sequence[Row], findings: Sequence[Row]
) -> str:
    by_queue: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        by_queue.setdefault(row.queue, {}).setdefault(row.group, []).append(row)
    busiest = sorted(by_queue, key=lambda queue: -_measure_traffic(by_queue[queue]))
    shown = {queue: _order_groups(by_queue[queue]) for queue in busiest[:_MOST_QUEUES]}
    left = (
        f"<p class=soft>The {_MOST_QUEUES} busiest of {len(busiest)} queues.</p>"
        if busiest[_MOST_QUEUES:]
        else ""
    )
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Laneway: {axis.start:%d %b} to {axis.end:%d %b %Y}</title><style>{_STYLE}{STYLE}</style>",
        f"<h1>Laneway, {axis.start:%d %b %Y %H:%M} to {axis.end:%d %b %Y %H:%M} UTC</h1>",
        _draw_overview(axis, shown, findings),
        _tabulate_queues(shown),
        left,
        *(_draw_queue(axis, queue, groups, findings) for queue, groups in shown.items()),
        _tabulate_consumers(consumers),
        _tabulate_findings(findings),
        "</html>",
    ]
    return "\n".join(parts)


def _measure_traffic(groups: dict[str, list[Row]]) -> int:
    return max(sum(int(row.enqueued + row.acked) for row in met) for met in groups.values())


def _order_groups(groups: dict[str, list[Row]]) -> dict[str, list[Row]]:
    return {
        name: groups[name]
        for name in sorted(groups, key=lambda each: (each != DEFAULT_GROUP, each))
    }


def _draw_overview(
    axis: Axis, queues: dict[str, dict[str, list[Row]]], findings: Sequence[Row]
) -> str:
    # Enqueued messages are the same for every group.
    counts = {
        queue: _fill(next(iter(groups.values())), "enqueued", axis)
        for queue, groups in queues.items()
    }
    worst = [each for each in findings if each.severity == "critical" or each.score is not None]
    return _draw_rates("Enqueued, by queue", counts, axis, _mark(worst))


def _draw_queue(
    axis: Axis, queue: str, groups: dict[str, list[Row]], findings: Sequence[Row]
) -> str:
    parts = [f"<h2>{escape(queue)}</h2>"]
    for group, rows in groups.items():
        name = "" if group == DEFAULT_GROUP else f" ({group})"
        marks: dict[str, list[Mark]] = {}
        for chart in _CHARTS:
            met = [
                each
                for each in findings
                if each.queue == queue
                and each.group in {None, group}
                and _CHART_OF.get(each.type, "Throughput") == chart
            ]
            marks[chart] = _mark(met)
        counts = {each: _fill(rows, each, axis) for each in ("enqueued", "acked", "retried")}
        parts.append(_draw_rates(f"Throughput{name}", counts, axis, marks["Throughput"]))
        for chart, words in (("Wait", "s until claimed"), ("Work", "s until settled")):
            points = {p: _values(rows, f"{chart.lower()}_{p}") for p in ("p99", "p95", "p50")}
            parts.append(
                draw_lines(f"{chart}{name}", points, unit=words, axis=axis, marks=marks[chart])
            )
        parts.append(
            draw_lines(
                f"Backlog{name}",
                {"backlog": _carry(rows, axis)},
                unit="messages",
                axis=axis,
                marks=marks["Backlog"],
                whole=True,
            )
        )
        each = "minute" if axis.step == timedelta(minutes=1) else "hour"
        parts.append(
            draw_lines(
                f"Dead letters{name}",
                {"dead": _fill(rows, "dead", axis)},
                unit=f"messages each {each}",
                axis=axis,
                marks=marks["Dead letters"],
                whole=True,
            )
        )
    return "".join(parts)


def _draw_rates(
    title: str,
    counts: dict[str, list[tuple[datetime, float]]],
    axis: Axis,
    marks: Sequence[Mark],
) -> str:
    seconds = axis.step.total_seconds()
    most = max((value for points in counts.values() for _, value in points), default=0.0) / seconds
    unit, length = next((pace for pace in _PACES if most * pace[1] >= 1), _PACES[-1])
    rates = {
        name: [(at, value / seconds * length) for at, value in points]
        for name, points in counts.items()
    }
    return draw_lines(title, rates, unit=unit, axis=axis, marks=marks)


def _tabulate_queues(queues: dict[str, dict[str, list[Row]]]) -> str:
    lines = []
    for queue, groups in queues.items():
        for group, rows in groups.items():
            cells = [
                format_number(sum(getattr(row, name) for row in rows))
                for name in ("enqueued", "acked", "retried", "dead")
            ]
            worst = max((row.wait_p95 for row in rows if row.wait_p95 is not None), default=None)
            wait = "" if worst is None else f"{worst:.3g} s"
            lines.append([queue, group, *cells, format_number(rows[-1].backlog), wait])
    head = ["queue", "group", "enqueued", "acked", "retried", "dead", "backlog", "worst p95 wait"]
    return _tabulate(head, lines, texts=2)


def _tabulate_consumers(consumers: Sequence[Row]) -> str:
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
    return "<h2>Consumers</h2>" + _tabulate(head, lines, texts=2)


def _tabulate_findings(findings: Sequence[Row]) -> str:
    lines = [
        [
            f"{each.at:%d %b %H:%M:%S}",
            each.severity,
            each.type,
            each.queue,
            each.consumer or "",
            f"{each.description}{_count_more(each)}",
        ]
        for each in findings[:_MOST_FINDINGS]
    ]
    more = len(findings) - len(lines)
    note = f"<p class=soft>and {more} more</p>" if more > 0 else ""
    head = ["at", "severity", "type", "queue", "consumer", "what"]
    return f"<h2>Anomalies: {len(findings)}</h2>" + _tabulate(head, lines, texts=6) + note


def _count_more(finding: Row) -> str:
    """Return a finding's text, with its number of messages unless the text says it."""
    many = finding.messages or 1
    told = many in {1, finding.actual}
    return "" if told else f", {format_number(many)} messages in all"


def _tabulate(head: Sequence[str], lines: Sequence[Sequence[str]], *, texts: int) -> str:
    """Return a table whose first columns are text and the others numbers."""
    if not lines:
        return "<p class=soft>None.</p>"
    kinds = [
        "long" if place == texts - 1 == len(head) - 1 else "text" if place < texts else "number"
        for place in range(len(head))
    ]
    top = "".join(
        f"<th class={kind}>{escape(cell)}</th>" for cell, kind in zip(head, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td class={kind}>{escape(cell)}</td>" for cell, kind in zip(line, kinds, strict=True)
        )
        + "</tr>"
        for line in lines
    )
    return (
        f"<div class=scroll><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _fill(rows: Sequence[Row], name: str, axis: Axis) -> list[tuple[datetime, float]]:
    """Return a count for every step; steps without a row count 0."""
    found = {row.at: float(getattr(row, name)) for row in rows}
    return [(at, found.get(at, 0.0)) for at in _list_steps(axis)]


def _carry(rows: Sequence[Row], axis: Axis) -> list[tuple[datetime, float]]:
    """Return the backlog at every step from the first known one; without a row it is unchanged."""
    found = {row.at: float(row.backlog) for row in rows}
    points: list[tuple[datetime, float]] = []
    for at in _list_steps(axis):
        if at in found or points:
            points.append((at, found.get(at, points[-1][1] if points else 0.0)))
    return points


def _list_steps(axis: Axis) -> Iterator[datetime]:
    short = axis.step == timedelta(minutes=1)
    at = axis.start.replace(second=0, microsecond=0)
    at = at if short else at.replace(minute=0)
    while at <= axis.end:
        if at >= axis.start:
            yield at
        at += axis.step


def _values(rows: Sequence[Row], name: str) -> list[tuple[datetime, float]]:
    return [(row.at, float(getattr(row, name))) for row in rows if getattr(row, name) is not None]


def _mark(findings: Sequence[Row]) -> list[Mark]:
    order = {"critical": 0, "warning": 1, "info": 2}
    chosen = sorted(
        findings,
        key=lambda each: (order.get(each.severity, 3), -abs(each.score or 0), -each.at.timestamp()),
    )[:_MOST_MARKS]
    return [Mark(each.at, f"{each.type}: {each.description}", each.severity) for each in chosen]
