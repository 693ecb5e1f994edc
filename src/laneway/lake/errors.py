"""Errors of Spark, the database and the lake.

LanewayError
├── OptionInvalid           fix the request: an option, column or offset cannot be understood
├── QueueMissing            fix the request: no such queue (a NotFound)
├── DatabaseFailed          retry, or look at the database: it is unreachable, or refused a statement
├── DataLost                give up, or accept the loss: messages left the log before they were read
├── WriteRefused            fix the request: the rows cannot become messages; nothing was pushed
├── LakeBroken              restore the file, or land again: the lake is not as its record says
├── LakeMissing             fix the request: there is no lake in that directory (a NotFound)
├── LakeForeign             use another directory: the lake has the history of another database
├── LakeBusy                retry: another run is writing to the lake
├── VerificationFailed      nothing was dropped: the lake and the log differ
├── SparkFailed             look at Spark: it says why it did not do its part
└── SparkUnavailable        install what is missing: Spark, its Java, or the extra laneway[spark]
"""

from __future__ import annotations

from laneway.domain.errors import LanewayError, NotFound


class OptionInvalid(LanewayError):
    pass


class QueueMissing(NotFound):
    pass


class DatabaseFailed(LanewayError):
    """sqlstate: PostgreSQL's code. detail: its full text, which may have several lines."""

    def __init__(
        self, reason: str, *, sqlstate: str | None = None, detail: str | None = None
    ) -> None:
        super().__init__(f"the database failed: {reason}")
        self.reason = reason
        self.sqlstate = sqlstate
        self.detail = detail


class DataLost(LanewayError):
    pass


class WriteRefused(LanewayError):
    pass


class LakeBroken(LanewayError):
    pass


class LakeMissing(NotFound):
    pass


class LakeForeign(LanewayError):
    pass


class LakeBusy(LanewayError):
    pass


class VerificationFailed(LanewayError):
    pass


class SparkFailed(LanewayError):
    pass


class SparkUnavailable(LanewayError):
    pass
