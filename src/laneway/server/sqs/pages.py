"""Pages of queue lists, and the tokens that lead from one page to the next."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_RESULTS = 1000


class Page(NamedTuple):
    names: Sequence[str]
    next_token: str | None


def cut_page(names: Sequence[str], token: str | None, most: int | None) -> Page:
    """Return the page after the token; the next token only if the request limits its page."""
    if most is not None and not 1 <= most <= MOST_RESULTS:
        raise Refusal.RESULTS.fault()
    ordered = sorted(names)
    start = bisect_right(ordered, _read_token(token)) if token else 0
    end = start + (most or MOST_RESULTS)
    more = most is not None and end < len(ordered)
    return Page(ordered[start:end], _write_token(ordered[end - 1]) if more else None)


def _write_token(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode()


def _read_token(token: str) -> str:
    try:
        return urlsafe_b64decode(token).decode()
    except ValueError:
        raise Refusal.NEXT_TOKEN.fault() from None
