"""Errors of Spark, the database and the lake.

LakeError (a LanewayError)
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

import json

from laneway.domain.errors import LanewayError, NotFound

# What a note with an error's data begins with.
NOTE = "laneway error: "


class LakeError(LanewayError):
    """Base of these errors.

    One that is raised in a Spark task reaches the program as part of a Java error's text, which has
    its Python traceback. So each has its data as JSON in a note, which tracebacks show.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        details = {name: value for name, value in vars(self).items() if name != "__notes__"}
        self.add_note(NOTE + json.dumps([type(self).__name__, text, details]))


class OptionInvalid(LakeError):
    pass


class QueueMissing(LakeError, NotFound):
    pass


class DatabaseFailed(LakeError):
    """sqlstate: PostgreSQL's code. detail: its full text, which may have several lines."""

    def __init__(
        self, reason: str, *, sqlstate: str | None = None, detail: str | None = None
    ) -> None:
        self.reason = reason
        self.sqlstate = sqlstate
        self.detail = detail
        super().__init__(f"the database failed: {reason}")


class DataLost(LakeError):
    pass


class WriteRefused(LakeError):
    pass


class LakeBroken(LakeError):
    pass


class LakeMissing(LakeError, NotFound):
    pass


class LakeForeign(LakeError):
    pass


class LakeBusy(LakeError):
    pass


class VerificationFailed(LakeError):
    pass


class SparkFailed(LakeError):
    pass


class SparkUnavailable(LakeError):
    pass
