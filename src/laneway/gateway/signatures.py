"""Signatures of webhooks: ours by Standard Webhooks, and those of targets."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIX = "whsec_"
# Shorter secrets can be guessed.
SHORTEST = 24

# Where targets put the signature of a webhook.
INBOUND_HEADERS = (
    "x-signature",
    "x-oz-signature",
    "x-webhook-signature",
    "x-hub-signature-256",
)


def read_secret(text: str) -> bytes:
    """Return the key of a secret: "whsec_" and base64. Raise InvalidSetting if it is not one."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) < SHORTEST:
        raise InvalidSetting(
            f"a webhook secret is whsec_ and the base64 of at least {SHORTEST} bytes: make one with"
            " `openssl rand -base64 32`"
        )
    return key


def sign(message_id: str, body: bytes, keys: Iterable[bytes]) -> tuple[tuple[str, str], ...]:
    """Return the headers of a webhook, with a signature by each key."""
    timestamp = str(int(time.time()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    signatures = [
        "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys
    ]
    return (
        ("webhook-id", message_id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", " ".join(signatures)),
    )


def verify(headers: Mapping[str, str], body: bytes, secrets: Iterable[str]) -> bool:
    """Return whether one of the secrets signed the body: HMAC-SHA256, base64 or hexadecimal."""
    given = next((headers[name] for name in INBOUND_HEADERS if name in headers), None)
    if given is None:
        return False
    signature = given.removeprefix("sha256=").encode("utf-8", "replace")
    valid = False
    for secret in secrets:
        digest = hmac.digest(secret.encode(), body, hashlib.sha256)
        for text in (base64.b64encode(digest), digest.hex().encode()):
            valid |= hmac.compare_digest(signature, text)
    return valid
