"""Lease tokens as consumers get them: each text is valid only for the messages returned with it.

Consumers that are served at once may share a claim, and with it the claim's token. So no consumer
gets that token itself, but a text that hides it and is bound to the consumer's messages.
"""

from __future__ import annotations

from hmac import compare_digest
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

# Equal to the standard library's UUIDs, and made faster.
from asyncpg.pgproto.pgproto import UUID as FAST_UUID
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from laneway.domain.ids import LARGEST_SEQ
from laneway.engine.tokens import read_token

if TYPE_CHECKING:
    from uuid import UUID

    from laneway.domain.messages import Token

# In bytes.
_KEY = 16
# In hexadecimal digits.
_HIDDEN, _TAG = 32, 16
_LONGEST_SPAN = 2**31 - 1
_HALVES = Struct("<QQ")


class LeasedSpan(NamedTuple):
    """What a text proves: a claim's token, for the messages first .. last of a lane."""

    token: UUID
    first: int
    last: int


class LeaseTokens:
    """Writes and reads tokens with the secret that all server processes of a database share.

    A text is AES(token), then half of AES(token xor span) under another key, then the span unless it
    is a single message. Claims' tokens are random, so nobody can compute the text for another span
    from texts, without the secret.
    """

    def __init__(self, secret: bytes) -> None:
        hiding = Cipher(AES(secret[:_KEY]), ECB())  # noqa: S305 - of single, random blocks
        tagging = Cipher(AES(secret[_KEY:]), ECB())  # noqa: S305 - as above
        self._encrypt = hiding.encryptor().update
        self._decrypt = hiding.decryptor().update
        self._tag = tagging.encryptor().update
        self._last: tuple[Token | None, str] = (None, "")

    def write(self, token: Token, lane: int, first: int, count: int = 1) -> str:
        """Return the text for messages first, first + 1, … of a lane."""
        octets = _read_octets(token)
        last, hidden = self._last
        if token is not last:
            hidden = self._encrypt(octets).hex()
            self._last = (token, hidden)
        text = hidden + self._find_tag(octets, lane, first, count)
        return text if count == 1 else f"{text}-{first:x}-{first + count - 1:x}"

    def read(self, text: str, lane: int, seq: int) -> LeasedSpan | None:
        """Return what the text proves, None if that does not include the message.

        A UUID counts as the token of a claim: earlier versions of Laneway returned these.
        """
        start, _, end = text.partition("-")
        hidden = read_token(start[:_HIDDEN])
        if hidden is None or len(start) != _HIDDEN + _TAG:
            token = read_token(text)
            return None if token is None else LeasedSpan(token, 1, LARGEST_SEQ)
        first = last = seq
        if end:
            try:
                first, last = (int(number, 16) for number in end.split("-"))
            except ValueError:
                return None
            if not (0 < first <= seq <= last < first + _LONGEST_SPAN):
                return None
        octets = self._decrypt(hidden.bytes)
        tag = self._find_tag(octets, lane, first, last - first + 1)
        if not compare_digest(tag.encode(), start[_HIDDEN:].encode()):
            return None
        return LeasedSpan(FAST_UUID(octets), first, last)

    def _find_tag(self, octets: bytes, lane: int, first: int, count: int) -> str:
        high, low = _HALVES.unpack(octets)
        return self._tag(_HALVES.pack(high ^ (count << 32 | lane), low ^ first)).hex()[:_TAG]


def _read_octets(token: Token) -> bytes:
    return (FAST_UUID(token) if isinstance(token, str) else token).bytes
