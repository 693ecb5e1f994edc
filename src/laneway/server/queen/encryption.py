"""AES-256-GCM encryption of message bodies, for queues that are configured to encrypt."""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from laneway.domain.errors import LanewayError, Misconfigured

if TYPE_CHECKING:
    from typing import Self

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16


class KeyUnusable(LanewayError):
    """The configured key is not an AES-256 key."""


class Sealed(msgspec.Struct):
    """An encrypted body, as it is stored."""

    encrypted: str
    iv: str
    auth_tag: str = msgspec.field(name="authTag")


class Vault:
    """Encrypts and decrypts bodies; without a key it raises Misconfigured."""

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and len(key) != KEY_BYTES:
            raise KeyUnusable(f"an AES-256 key has {KEY_BYTES} bytes, this one has {len(key)}")
        self._cipher = AESGCM(key) if key is not None else None
        self._decode = msgspec.json.Decoder(Sealed).decode

    @classmethod
    def from_text(cls, text: str | None) -> Self:
        """Return a vault with a key of 64 hexadecimal digits, or without a key."""
        if not text:
            return cls()
        try:
            return cls(bytes.fromhex(text))
        except ValueError:
            raise KeyUnusable("the encryption key must be 64 hexadecimal digits") from None

    @property
    def usable(self) -> bool:
        return self._cipher is not None

    def seal(self, body: bytes, *, queue: str) -> str:
        cipher = self.require_key(queue)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = cipher.encrypt(nonce, body, queue.encode())
        return msgspec.json.encode(
            Sealed(
                b64encode(sealed[:-_TAG_BYTES]).decode(),
                b64encode(nonce).decode(),
                b64encode(sealed[-_TAG_BYTES:]).decode(),
            )
        ).decode()

    def open(self, body: str, *, queue: str) -> str:
        cipher = self.require_key(queue)
        try:
            sealed = self._decode(body)
            whole = b64decode(sealed.encrypted) + b64decode(sealed.auth_tag)
            return cipher.decrypt(b64decode(sealed.iv), whole, queue.encode()).decode()
        except (InvalidTag, ValueError, msgspec.MsgspecError) as error:
            raise Misconfigured(
                f'a message of queue "{queue}" cannot be decrypted: it was encrypted with another '
                "key, or changed"
            ) from error

    def try_open(self, body: str, *, queue: str) -> str | None:
        """Return the body, or None if this server cannot decrypt it."""
        try:
            return self.open(body, queue=queue)
        except Misconfigured:
            return None

    def require_key(self, queue: str) -> AESGCM:
        if self._cipher is None:
            raise Misconfigured(
                f'queue "{queue}" is encrypted and the server has no key: set QUEEN_ENCRYPTION_KEY'
            )
        return self._cipher
