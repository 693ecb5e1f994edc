"""What can go wrong between Spark, the database and the lake.

LanewayError
├── OptionInvalid           fix the request: an option, column or offset cannot be understood
├── QueueMissing            fix the request: no such queue
├── DatabaseFailed          retry, or look at the database: it is away, or refused a statement
├── DataLost                give up, or accept the loss: messages left the log before they were read
├── WriteRefused            fix the request: the rows cannot become messages; nothing was pushed
├── LakeBroken              restore the file, or land again: the lake is not as its record says
├── LakeBusy                retry: another run is writing to the lake
├── VerificationFailed      nothing was dropped: the lake and the log differ
└── SparkUnavailable        install what is missing: Spark, its Java, or the extra laneway[spark]
"""

from __future__ import annotations

from laneway.domain.errors import LanewayError


class OptionInvalid(LanewayError):
    pass


class QueueMissing(LanewayError):
    pass


class DatabaseFailed(LanewayError):
    pass


class DataLost(LanewayError):
    pass


class WriteRefused(LanewayError):
    pass


class LakeBroken(LanewayError):
    pass


class LakeBusy(LanewayError):
    pass


class VerificationFailed(LanewayError):
    pass


class SparkUnavailable(LanewayError):
    pass
