"""The public id of a message: its address in the log."""

from __future__ import annotations

import re
from typing import NamedTuple, Self
from uuid import UUID

from laneway.domain.errors import InvalidId

_FORM = re.compile(r"(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,18})", re.ASCII)
_INT = 2**31 - 1
LARGEST_SEQ = 2**63 - 1
# Of a version 4 UUID, 122 bits are free: 32 for the segment, 31 for the lane, and these.
SHORT_SEQ_BITS = 59
_VERSION_4 = 4 << 76 | 2 << 62
_VERSION_BITS = 15 << 76 | 3 << 62


class MessageId(NamedTuple):
    """The address of a message: `segment-lane-seq`, or a UUID.

    The UUID has the same 32 + 32 + 64 bits, or those of version 4, as SQS clients see it.
    """

    segment: int
    lane: int
    seq: int

    def __str__(self) -> str:
        return f"{self.segment}-{self.lane}-{self.seq}"

    @property
    def uuid(self) -> UUID:
        return UUID(int=self.segment << 96 | self.lane << 64 | self.seq)

    @classmethod
    def parse(cls, text: str) -> Self:
        match = _FORM.fullmatch(text)
        if match is None:
            raise InvalidId(
                f"{text!r} is not a message id: expected segment-lane-seq, such as 2-17-4711"
            )
        return cls._check(text, *map(int, match.groups()))

    @classmethod
    def from_uuid(cls, uuid: UUID) -> Self:
        """Return the address in either form; the variant of a version 4 UUID tells them apart."""
        bits = uuid.int
        if bits & _VERSION_BITS == _VERSION_4:
            lane = (bits >> 80 & 0xFFFF) << 15 | (bits >> 64 & 0xFFF) << 3 | bits >> 59 & 7
            return cls._check(uuid, bits >> 96, lane, bits & (1 << SHORT_SEQ_BITS) - 1)
        return cls._check(uuid, bits >> 96, bits >> 64 & 0xFFFF_FFFF, bits & 0xFFFF_FFFF_FFFF_FFFF)

    @classmethod
    def _check(cls, source: object, segment: int, lane: int, seq: int) -> Self:
        if segment > _INT or lane > _INT or seq > LARGEST_SEQ:
            raise InvalidId(f"{str(source)!r} is not a message id: its numbers are out of range")
        return cls(segment, lane, seq)
