"""Log lines of deliveries: one for each step, with the fields that log searches are made by."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from laneway.domain.transactions import Recorded
    from laneway.gateway.delivery import Job

logger = logging.getLogger(__name__)

LONGEST_ANSWER = 2000

Step: TypeAlias = Literal["message_received", "processing", "success", "failure", "released"]


def log_step(
    action: Step,
    job: Job,
    *,
    error: str | None = None,
    recorded: Recorded | None = None,
) -> None:
    level = logging.WARNING if error is not None else logging.INFO
    if not logger.isEnabledFor(level):
        return
    fields: dict[str, object] = {
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "transactionId": None if job.transaction_id is None else str(job.transaction_id),
        "messageId": str(job.delivery.id),
        "action": action,
        "duration_ms": round((monotonic() - job.started) * 1000),
        "attempt": job.delivery.attempt,
    }
    if error is not None:
        fields["error"] = error
    if recorded is not None:
        fields["status"] = recorded.status
    if job.answer is not None and action in {"success", "failure"}:
        text = job.answer.body[:LONGEST_ANSWER].decode("utf-8", "replace")
        fields["oz_relayer_response"] = {"status": job.answer.status, "body": text}
    logger.log(
        level,
        "%s %s, attempt %d%s",
        action,
        fields["transactionId"],
        job.delivery.attempt,
        "" if error is None else f": {error}",
        extra={"fields": fields},
    )
