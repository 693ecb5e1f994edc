"""MessageId and SequenceNumber: a message's address and its place in its group, as AWS writes them."""

from __future__ import annotations

from laneway.domain.ids import SHORT_SEQ_BITS

# AWS's numbers have 20 digits and begin like this.
_FIRST_SEQUENCE = 18_860_000_000_000_000_000


def show_id(segment: int, lane: int, seq: int) -> str:
    """Return a message's address as a version 4 UUID; `MessageId.from_uuid` reads it.

    The bits, after those of version and variant: 32 of the segment, 31 of the lane, 59 of the seq.
    A seq that needs more, after 2**59 messages of a lane, is shown as a UUID of the same bits as
    the address, which has another variant.
    """
    if seq >> SHORT_SEQ_BITS:
        return "%08x-%04x-%04x-%04x-%012x" % (  # noqa: UP031 - half the cost of an f-string here
            segment,
            lane >> 16,
            lane & 0xFFFF,
            seq >> 48,
            seq & 0xFFFF_FFFF_FFFF,
        )
    return "%08x-%04x-4%03x-%04x-%012x" % (  # noqa: UP031 - as above
        segment,
        lane >> 15,
        lane >> 3 & 0xFFF,
        0x8000 | (lane & 7) << 11 | seq >> 48,
        seq & 0xFFFF_FFFF_FFFF,
    )


def show_sequence(seq: int) -> str:
    return str(_FIRST_SEQUENCE + seq)
