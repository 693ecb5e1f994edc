"""Line charts as SVG: text in, text out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

WIDTH = 920
HEIGHT = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 30, 24
_COLOURS = ("#2563eb", "#d97706", "#16a34a", "#9333ea", "#dc2626", "#0891b2", "#64748b", "#be185d")
_TICKS = 4
_THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment to point at, and what to say about it."""

    at: datetime
    text: str
    severity: str


def draw_lines(
    title: str,
    series: Mapping[str, Sequence[tuple[datetime, float]]],
    *,
    unit: str,
    start: datetime,
    end: datetime,
    marks: Sequence[Mark] = (),
) -> str:
    """Return a chart of one line per series; where there is no data, one that says so."""
    top = max((value for points in series.values() for _, value in points), default=0.0)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<text class="title" x="{_LEFT}" y="16">{escape(title)} <tspan class="unit">{escape(unit)}</tspan></text>',
    ]
    if not any(series.values()):
        middle = f'<text x="{WIDTH // 2}" y="{HEIGHT // 2}" text-anchor="middle">nothing in this time</text>'
        return "".join([*parts, middle, "</svg>"])
    scale = _Scale(start, end, _round_up(top))
    parts += _draw_axes(scale)
    parts += [_draw_mark(scale, mark) for mark in marks if start <= mark.at <= end]
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(_draw_line(scale, points, colour))
        parts.append(
            f'<text class="key" fill="{colour}" x="{WIDTH - _RIGHT}" y="{_TOP + 12 + number * 14}"'
            f' text-anchor="end">{escape(name)}</text>'
        )
    return "".join([*parts, "</svg>"])


def format_number(value: float) -> str:
    if value >= _THOUSAND * _THOUSAND:
        return f"{value / _THOUSAND / _THOUSAND:.3g}M"
    if value >= _THOUSAND:
        return f"{value / _THOUSAND:.3g}k"
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class _Scale:
    start: datetime
    end: datetime
    top: float

    def x(self, at: datetime) -> float:
        share = (at - self.start) / (self.end - self.start)
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
        )
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{format_number(value)}</text>'
        )
        at = scale.start + (scale.end - scale.start) * tick / _TICKS
        anchor = "start" if tick == 0 else "end" if tick == _TICKS else "middle"
        parts.append(
            f'<text class="tick" x="{scale.x(at):.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">'
            f"{at:%d %b %H:%M}</text>"
        )
    return parts


def _draw_line(scale: _Scale, points: Sequence[tuple[datetime, float]], colour: str) -> str:
    places = [(scale.x(at), scale.y(value)) for at, value in sorted(points)]
    if len(places) == 1:
        x, y = places[0]
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{path}"/>'


def _draw_mark(scale: _Scale, mark: Mark) -> str:
    x = scale.x(mark.at)
    return (
        f'<g class="mark {escape(mark.severity)}"><title>{escape(mark.text)}</title>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
        f'<circle cx="{x:.1f}" cy="{_TOP}" r="3.5"/></g>'
    )


def _round_up(value: float) -> float:
    """Return the next number that reads well on an axis."""
    if value <= 0:
        return 1.0
    power = math.pow(10, math.floor(math.log10(value)))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value)
