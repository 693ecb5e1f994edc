"""Line charts as SVG, each with its heading."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WIDTH = 920
HEIGHT = 200
STYLE = """
figure { margin: 1.2rem 0; overflow-x: auto } figcaption { font-size: 13px; color: var(--soft) } figcaption b { color: var(--ink) }
.key { float: right; margin-left: 1rem; color: var(--ink) } .key::before { content: ""; display: inline-block; width: 1.2em; height: 3px; margin: 0 .4em .25em 0; background: var(--colour) }
svg { display: block; width: 100%; min-width: 640px; height: auto } svg text { font-size: 11px; fill: var(--soft) } svg .grid { stroke: var(--line) }
svg .mark line { stroke: #f59e0b; stroke-dasharray: 2 4; opacity: .6 } svg .mark circle { fill: #f59e0b }
svg .mark.critical line { stroke: #dc2626 } svg .mark.critical circle { fill: #dc2626 }
svg .mark.info line { stroke: #94a3b8 } svg .mark.info circle { fill: #94a3b8 }
"""
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 24
_COLOURS = ("#3b82f6", "#d97706", "#16a34a", "#a855f7", "#dc2626", "#0891b2", "#64748b", "#be185d")
_TICKS = 4
_MOST_LABELS = 8
_HOURS = (1, 2, 3, 6, 12, 24, 48, 7 * 24, 14 * 24, 28 * 24, 91 * 24)
_THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked moment and its label."""

    at: datetime
    text: str
    severity: str


@dataclass(frozen=True, slots=True)
class Axis:
    """The time range of charts, with one value per step."""

    start: datetime
    end: datetime
    step: timedelta


def draw_lines(
    title: str,
    series: Mapping[str, Sequence[tuple[datetime, float]]],
    *,
    unit: str,
    axis: Axis,
    marks: Sequence[Mark] = (),
    whole: bool = False,
) -> str:
    """Return a chart with one line per series, or one that says there is no data.

    A line is broken where steps are missing. whole: values are numbers of things.
    """
    met = {name: sorted(points) for name, points in series.items() if points}
    keys = "".join(
        f'<span class=key style="--colour: {colour}">{escape(name)}</span>'
        for name, colour in reversed(list(zip(met, itertools.cycle(_COLOURS), strict=False)))
    )
    parts = [
        f"<figure><figcaption>{keys}<b>{escape(title)}</b> {escape(unit)}</figcaption>",
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
    ]
    if met:
        top = max(value for points in met.values() for _, value in points)
        scale = _Scale(axis, _round_up(max(top, _TICKS) if whole else top))
        parts += _draw_axes(scale)
        parts += [_draw_mark(scale, mark) for mark in marks if axis.start <= mark.at <= axis.end]
        for points, colour in zip(met.values(), itertools.cycle(_COLOURS), strict=False):
            parts += [_draw_line(run, colour) for run in _cut(scale, points)]
    else:
        parts.append(
            f'<text x="{WIDTH // 2}" y="{HEIGHT // 2}" text-anchor="middle">nothing in this time</text>'
        )
    return "".join([*parts, "</svg></figure>"])


def format_number(value: float) -> str:
    if value >= _THOUSAND * _THOUSAND:
        return f"{value / _THOUSAND / _THOUSAND:.3g}M"
    if value >= _THOUSAND:
        return f"{value / _THOUSAND:.3g}k"
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class _Scale:
    axis: Axis
    top: float

    def x(self, at: datetime) -> float:
        share = (at - self.axis.start) / (self.axis.end - self.axis.start)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - value / self.top * (HEIGHT - _TOP - _BOTTOM)


def _draw_axes(scale: _Scale) -> list[str]:
    parts = []
    for tick in range(_TICKS + 1):
        value = scale.top * tick / _TICKS
        y = scale.y(value)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{format_number(value)}</text>'
        )
    for at, label in _label_times(scale.axis):
        parts.append(
            f'<text x="{scale.x(at):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{label}</text>'
        )
    return parts


def _label_times(axis: Axis) -> Iterator[tuple[datetime, str]]:
    """Yield round times (hours or days), as many as fit."""
    hours = (axis.end - axis.start) / timedelta(hours=1)
    every = next((each for each in _HOURS if hours / each <= _MOST_LABELS), _HOURS[-1])
    first = datetime(1970, 1, 5, tzinfo=UTC).replace(tzinfo=None)  # a Monday
    step = timedelta(hours=every)
    at = first + math.ceil((axis.start - first) / step) * step
    while at <= axis.end:
        midnight = at.hour == 0
        yield at, f"{at:%d %b}" if midnight else f"{at:%H:%M}"
        at += step


def _cut(
    scale: _Scale, points: Sequence[tuple[datetime, float]]
) -> Iterator[list[tuple[float, float]]]:
    """Yield unbroken sequences of points; of points on one pixel, the highest."""
    run: list[tuple[float, float]] = []
    before: datetime | None = None
    for at, value in points:
        if before is not None and at - before > 1.5 * scale.axis.step:
            yield run
            run = []
        x, y = round(scale.x(at), 1), round(scale.y(value), 1)
        if run and x - run[-1][0] < 1:
            run[-1] = (run[-1][0], min(y, run[-1][1]))
        else:
            run.append((x, y))
        before = at
    yield run


def _draw_line(places: Sequence[tuple[float, float]], colour: str) -> str:
    if len(places) == 1:
        return f'<circle cx="{places[0][0]}" cy="{places[0][1]}" r="2" fill="{colour}"/>'
    path = " ".join(f"{x},{y}" for x, y in places)
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{path}"/>'


def _draw_mark(scale: _Scale, mark: Mark) -> str:
    x = scale.x(mark.at)
    return (
        f'<g class="mark {escape(mark.severity)}"><title>{escape(mark.text)}</title>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
        f'<circle cx="{x:.1f}" cy="{_TOP}" r="3.5"/></g>'
    )


def _round_up(value: float) -> float:
    """Return the next larger number that, like a quarter of it, reads well on an axis."""
    if value <= 0:
        return 1.0
    power = math.pow(10, math.floor(math.log10(value)))
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= value)
