"""Why a request was not accepted, and why a target did not do what it was asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidRequest, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.gateway.calls import HttpResponse
    from laneway.gateway.targets import Target

# Calls that are repeated: the request timed out, is too early or one too many, or the target is not well.
RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
LONGEST_TEXT = 500
# A longer Retry-After counts as this.
LONGEST_PAUSE = timedelta(days=1)
_FIRST_REFUSAL = 300


class InvalidTransaction(InvalidRequest):
    """The request cannot be accepted as it is."""


class InvalidFields(InvalidTransaction):
    """issues: the path of each field that is wrong, and what is wrong with it."""

    def __init__(self, issues: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path}: {reason}" for path, reason in issues))
        self.issues = tuple(issues)


class InvalidSignature(InvalidRequest):
    """The request is not signed by the account that it names."""


class TargetUnreachable(Unavailable):
    """The request can only be checked with an answer that did not come."""


class CallRefused(Exception):
    """The target did not accept a call. permanent: it would not accept it later either."""

    def __init__(
        self, reason: str, *, permanent: bool, retry_after: timedelta | None = None
    ) -> None:
        super().__init__(reason)
        self.permanent = permanent
        self.retry_after = retry_after


def refuse(target: Target, response: HttpResponse) -> CallRefused:
    """Return what an answer means that does not report success."""
    text = response.body[:LONGEST_TEXT].decode("utf-8", "replace").strip()
    lower = text.lower()
    permanent = (
        response.status in target.permanent_statuses
        or any(each.lower() in lower for each in target.permanent_texts)
        # Redirects are not followed, so they are errors too.
        or (response.status >= _FIRST_REFUSAL and response.status not in RETRYABLE)
    )
    reason = f"target {target.name} answered {response.status}" + (f": {text}" if text else "")
    return CallRefused(reason, permanent=permanent, retry_after=read_retry_after(response))


def read_retry_after(response: HttpResponse) -> timedelta | None:
    """Return how long the target asks to wait, in seconds or until a date; None: it does not say."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), LONGEST_PAUSE)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return min(max(at - datetime.now(UTC), timedelta(0)), LONGEST_PAUSE)
