"""Message bodies: JSON of 200 bytes, all different."""

from __future__ import annotations

import itertools

SIZE = 200

_numbers = itertools.count(1)


def make_bodies(count: int) -> list[str]:
    return [_make_body(next(_numbers)) for _ in range(count)]


def _make_body(number: int) -> str:
    body = f'{{"order": {number}, "customer": "c-{number % 9973}", "note": "'
    return f'{body}{"x" * (SIZE - len(body) - 2)}"}}'
