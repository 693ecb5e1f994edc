"""A run as a table: plain for a terminal, Markdown for the document."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.results import Bound, Figure, Row, Run

HEADINGS = ("row", "ours", "compared with", "ratio", "target", "goal", "verdict")

_BEGIN = "<!-- results: begin -->"
_END = "<!-- results: end -->"


def format_plain(run: Run) -> str:
    lines = [HEADINGS, *(_cells(row) for row in run.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    table = [_pad(line, widths) for line in lines]
    table.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*table, *(f"  {note}" for row in run.rows for note in _notes(row))])


def format_markdown(runs: Iterable[Run]) -> str:
    return "\n\n".join(_format_section(run) for run in runs)


def replace_results(document: str, results: str) -> str:
    """Put the results where the document has its marks for them."""
    before, found, rest = document.partition(_BEGIN)
    _, closed, after = rest.partition(_END)
    if not found or not closed:
        raise ValueError(f"the document has no place for results: {_BEGIN} … {_END}")
    return f"{before}{_BEGIN}\n{results}\n{_END}{after}"


def _format_section(run: Run) -> str:
    machine = run.machine
    size = ", quick sizes" if run.quick else ""
    lines = [
        f"### {run.scenario.capitalize()}, {run.started_at:%Y-%m-%d}{size}",
        "",
        f"{machine.cores} cores of {machine.processor}, {machine.memory_gib:g} GiB, {machine.system}, PostgreSQL {machine.postgres}.",
        "",
        f"| {' | '.join(HEADINGS)} |",
        f"|{'---|' * len(HEADINGS)}",
        *(f"| {' | '.join(_cells(row))} |" for row in run.rows),
    ]
    notes = [f"- {note}" for row in run.rows for note in _notes(row)]
    return "\n".join([*lines, "", *notes]) if notes else "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        _format_figure(row.ours),
        _format_figure(row.beside) if row.beside else "-",
        _format_ratio(row),
        _format_bound(row.target),
        _format_bound(row.goal),
        row.verdict,
    )


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


def _format_bound(bound: Bound | None) -> str:
    if bound is None:
        return "-"
    sign = "≤" if bound.side == "at most" else "≥"
    unit = " µs" if bound.figure == "ours" else ""
    return f"{sign} {bound.value:g}{unit}"


def _format_detail(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.2f}"


def _pad(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
