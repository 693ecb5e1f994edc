"""Formats a run as a table: plain text for a terminal, Markdown for docs/benchmarks.md."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.results import Bound, Figure, Hot, Machine, Row, Run

HEADINGS = ("row", "ours", "compared with", "ratio", "target", "goal", "verdict")
# The table of "compare".
COMPARE_HEADINGS = ("row", "base", "this", "ratio", "95 % interval", "verdict")
# Columns after `ours`, in runs that measure latency or processor time.
LOAD_HEADINGS = ("p50, ms", "p99, ms", "server, µs", "PostgreSQL, µs")

_TITLES = {
    "compare": "Comparison",
    "engine": "Engine",
    "gateway": "Gateway",
    "http": "HTTP",
    "library": "Library",
    "spark": "Spark",
    "sqs": "SQS",
    "streams": "Streams",
}


def format_plain(run: Run) -> str:
    lines = _align(_tabulate(run))
    lines += [f"  {note}" for row in run.rows for note in _notes(row)]
    if run.profile:
        lines += ["", *_align(_tabulate_profile(run.profile))]
    return "\n".join(lines)


def format_markdown(runs: Iterable[Run]) -> str:
    return "\n\n".join(_format_section(run) for run in runs)


def replace_results(document: str, runs: Iterable[Run]) -> str:
    """Replace the results between the markers of each scenario in the document."""
    ordered = sorted(runs, key=lambda run: run.scenario)
    for scenario, members in groupby(ordered, key=lambda run: run.scenario):
        begin, end = f"<!-- {scenario}: begin -->", f"<!-- {scenario}: end -->"
        before, found, rest = document.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(
                f"the document has no markers for these results: add {begin} and {end}"
            )
        document = f"{before}{begin}\n{format_markdown(members)}\n{end}{after}"
    return document


def _format_section(run: Run) -> str:
    size = ", quick sizes" if run.quick else ""
    lines = [
        f"### {_name(run)}, {run.started_at:%Y-%m-%d}{size}",
        "",
        f"{_describe(run.machine)}.",
        "",
        *_mark_up(_tabulate(run)),
    ]
    notes = [f"- {note}" for row in run.rows for note in _notes(row)]
    if notes:
        lines += ["", *notes]
    if run.profile:
        lines += ["", *_mark_up(_tabulate_profile(run.profile))]
    return "\n".join(lines)


def _name(run: Run) -> str:
    title = _TITLES[run.scenario]
    return f"{title} of {run.compared}" if run.compared else title


def _describe(machine: Machine) -> str:
    size = f"{machine.cores} cores of {machine.processor}, {machine.memory_gib:g} GiB"
    python = [machine.python] if machine.python else []  # older results do not include it
    return ", ".join([size, machine.system, f"PostgreSQL {machine.postgres}", *python])


def _tabulate(run: Run) -> list[tuple[str, ...]]:
    """Return the headings, and one line for each row."""
    if run.compared:
        return [COMPARE_HEADINGS, *(_compare_cells(row) for row in run.rows)]
    loaded = any(row.latency or row.cpu for row in run.rows)
    extra = LOAD_HEADINGS if loaded else ()
    headings = (*HEADINGS[:2], *extra, *HEADINGS[2:])
    return [headings, *(_cells(row, loaded=loaded) for row in run.rows)]


def _tabulate_profile(profile: Sequence[Hot]) -> list[tuple[str, ...]]:
    return [
        ("own time", "function", "in"),
        *((f"{hot.own:.1f} %", hot.function, hot.place) for hot in profile),
    ]


def _align(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    table = [_pad(line, widths) for line in lines]
    table.insert(1, "  ".join("-" * width for width in widths))
    return table


def _mark_up(lines: Sequence[Sequence[str]]) -> list[str]:
    table = [f"| {' | '.join(line)} |" for line in lines]
    table.insert(1, f"|{'---|' * len(lines[0])}")
    return table


def _cells(row: Row, *, loaded: bool) -> tuple[str, ...]:
    return (
        row.name,
        _format_figure(row.ours),
        *(_load_cells(row) if loaded else ()),
        _format_figure(row.beside) if row.beside else "-",
        _format_ratio(row),
        _format_bound(row.target, row.ours.unit),
        _format_bound(row.goal, row.ours.unit),
        row.verdict,
    )


def _compare_cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        _format_figure(row.beside) if row.beside else "-",
        _format_figure(row.ours),
        _format_ratio(row),
        f"{row.interval[0]:.3f}-{row.interval[1]:.3f}" if row.interval else "-",
        row.verdict,
    )


def _load_cells(row: Row) -> tuple[str, ...]:
    latency = ("-", "-")
    if row.latency is not None:
        latency = (f"{row.latency.p50:.1f}", f"{row.latency.p99:.1f}")
    cpu = ("-", "-")
    if row.cpu is not None:
        cpu = (f"{row.cpu.server:.1f}", f"{row.cpu.postgres:.1f}")
    return (*latency, *cpu)


def _notes(row: Row) -> Iterable[str]:
    parts = [f"{name} {_format_detail(value)}" for name, value in row.details.items()]
    if row.failure is not None:
        parts.insert(0, row.failure)
    if parts:
        yield f"{row.name}: {'; '.join(parts)}"


def _format_figure(figure: Figure) -> str:
    number = f"{figure.value:,.0f}" if figure.value >= 1000 else f"{figure.value:.1f}"
    gap = "" if figure.unit.startswith("/") else " "
    return f"{number}{gap}{figure.unit} {figure.of}".rstrip()


def _format_ratio(row: Row) -> str:
    if row.ratio is None:
        return "-"
    spread = (
        f" ({row.low:.2f}-{row.high:.2f})" if row.low is not None and row.high is not None else ""
    )
    return f"{row.ratio:.2f}{spread}"


def _format_bound(bound: Bound | None, own_unit: str) -> str:
    if bound is None:
        return "-"
    sign = "≤" if bound.side == "at most" else "≥"
    unit = f" {own_unit}" if bound.figure == "ours" else ""
    return f"{sign} {bound.value:g}{unit}"


def _format_detail(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.2f}"


def _pad(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
