"""Receipt handles: the proof of a lease on one message, as text that clients pass around."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID
from zlib import crc32

from laneway.domain.ids import MessageId
from laneway.domain.messages import Receipt
from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from laneway.domain.messages import Delivery, Token
    from laneway.server.sqs.errors import Fault

_FORM = Struct(">16sIIIQQ")
_SUM = 4
_LAST_INT, _LAST_BIGINT = 2**31 - 1, 2**63 - 1


class Handle(NamedTuple):
    """A receipt handle. received: when the message was received, in milliseconds of Unix time.

    text: the handle as the client sent it.
    """

    token: Token
    queue_id: int
    segment: int
    lane: int
    seq: int
    received: int
    text: str

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.token, self.lane, self.seq)

    @property
    def message(self) -> MessageId:
        return MessageId(self.segment, self.lane, self.seq)


def write_handle(delivery: Delivery, queue_id: int, received: int) -> str:
    token, segment, lane, seq = delivery[:4]
    octets = (token if isinstance(token, UUID) else UUID(token)).bytes
    data = _FORM.pack(octets, queue_id, segment, lane, seq, received)
    # This only detects typing errors: every caller with access may settle.
    return b64encode(data + crc32(data).to_bytes(_SUM, "big")).decode()


def read_handle(text: str, queue_id: int) -> Handle:
    """Return the decoded handle; a handle of another queue is invalid."""
    try:
        data = b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise _refuse(text) from None
    form, total = data[:-_SUM], data[-_SUM:]
    if len(form) != _FORM.size or crc32(form).to_bytes(_SUM, "big") != total:
        raise _refuse(text)
    token, queue, segment, lane, seq, received = _FORM.unpack(form)
    handle = Handle(UUID(bytes=token), queue, segment, lane, seq, received, text)
    # Sequence numbers fit into the database's integers.
    beyond = max(handle.segment, handle.lane) > _LAST_INT or handle.seq > _LAST_BIGINT
    if handle.queue_id != queue_id or beyond:
        raise _refuse(text)
    return handle


def _refuse(text: str) -> Fault:
    return Refusal.HANDLE.fault(handle=text)
