"""Jobs: messages as the programs see them that wait for their handlers."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from laneway.domain.messages import Progress, Status

# The failure reason of a cancelled job.
CANCELLED = "cancelled"


class JobInfo(NamedTuple):
    """A message, its handler's progress and its result.

    status: None if the message is no longer kept. error: of its last failed attempt. finished_at:
    when its result was stored; None without one.
    """

    queue: str
    status: Status | None
    attempt: int | None
    error: str | None
    progress_text: str | None
    result_text: str | None
    finished_at: datetime | None

    @property
    def progress(self) -> Progress | None:
        """What the handler has reported, as of the worker's last heartbeat; None if it did not."""
        return None if self.progress_text is None else Progress(*json.loads(self.progress_text))

    @property
    def result(self) -> Any:
        """What the handler returned; None without a stored result."""
        return None if self.result_text is None else json.loads(self.result_text)
