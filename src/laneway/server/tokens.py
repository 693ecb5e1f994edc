"""Signed tokens (JWT): verifies them with the configured keys, and reads the caller and its role."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from time import time
from typing import TYPE_CHECKING, Any, Self

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from laneway.domain.errors import LanewayError
from laneway.domain.keys import Role
from laneway.server.calls import Identity
from laneway.server.errors import Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLES = {"read-only": Role.READ, "read-write": Role.WRITE, "admin": Role.ADMIN}

# A secret shorter than the hash is too easy to guess.
SHORTEST_SECRET = 32
# Verified tokens up to this length are cached; beyond this many, the cache is cleared.
_MOST_KNOWN = 5_000
_LONGEST_KNOWN = 4_096


class KeyUnusable(LanewayError):
    """A configured verification key cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Which tokens are accepted.

    secret: for HS256. public_key: PEM, for RS256 or EdDSA (Ed25519). roles_claim: the claim with
    the role, as a text or a list. leeway: tolerated clock difference in seconds.
    """

    secret: str | None = field(default=None, repr=False)
    public_key: str | None = None
    issuer: str | None = None
    audience: str | None = None
    roles_claim: str = "role"
    leeway: float = 30


class Tokens:
    """Verifies tokens with the configured keys; an algorithm without a key is refused."""

    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings
        self._keys = read_keys(settings)
        self._known: dict[bytes, tuple[Identity, float]] = {}

    @classmethod
    def make(cls, settings: TokenSettings) -> Self | None:
        """Return None if no key is configured: then tokens are not accepted."""
        return cls(settings) if settings.secret or settings.public_key else None

    def recall(self, token: bytes) -> Identity | None:
        """Return the identity of a token that was verified before and has not expired since."""
        known = self._known.get(token)
        if known is None or known[1] < time():
            return None
        return known[0]

    def verify(self, token: bytes) -> Identity:
        settings = self._settings
        try:
            kind = jwt.get_unverified_header(token).get("alg")
            key = self._keys.get(str(kind))
            if key is None:
                raise Unauthenticated(f"Invalid token: {kind} is not accepted here")
            claims = jwt.decode(
                token,
                key,
                algorithms=[str(kind)],
                issuer=settings.issuer,
                audience=settings.audience,
                options={
                    "verify_aud": settings.audience is not None,
                    # PyJWT assumes that these claims are numbers; _check_times checks it.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, RecursionError) as error:
            raise Unauthenticated(f"Invalid token: {error}") from None
        _check_times(claims, settings.leeway)
        identity = self._read(claims)
        if len(token) > _LONGEST_KNOWN:
            return identity
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[token] = (identity, claims.get("exp", float("inf")))
        return identity

    def _read(self, claims: Mapping[str, Any]) -> Identity:
        """Return the identity of the claims; without a known role, it may only read."""
        said = claims.get(self._settings.roles_claim)
        names = said if isinstance(said, list) else [said]
        role = max(
            (ROLES[name] for name in names if isinstance(name, str) and name in ROLES),
            default=Role.READ,
        )
        subject = claims.get("sub")
        name = subject if isinstance(subject, str) else "token"
        return Identity(name, role, subject=name if isinstance(subject, str) else None)


def _check_times(claims: Mapping[str, Any], leeway: float) -> None:
    """Refuse a token that is expired or not valid yet, or whose times are not numbers."""
    for name in ("exp", "nbf", "iat"):
        if name in claims and not _is_moment(claims[name]):
            raise Unauthenticated(
                f'Invalid token: its claim "{name}" is not a number: issue the token with {name} in'
                " seconds since 1970"
            )
    now = time()
    if "exp" in claims and claims["exp"] <= now - leeway:
        raise Unauthenticated("Invalid token: it has expired. Get a new one")
    if any(claims.get(name, now) > now + leeway for name in ("nbf", "iat")):
        raise Unauthenticated(
            "Invalid token: it is not valid yet. Check the clocks of issuer and server"
        )


def _is_moment(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def read_keys(settings: TokenSettings) -> dict[str, Any]:
    """Return the verification key of each accepted algorithm."""
    keys: dict[str, Any] = {}
    if settings.secret:
        if len(settings.secret.encode()) < SHORTEST_SECRET:
            raise KeyUnusable(f"the secret of tokens has fewer than {SHORTEST_SECRET} bytes")
        keys["HS256"] = settings.secret
    if settings.public_key:
        try:
            key = load_pem_public_key(settings.public_key.encode())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyUnusable(f"the public key of tokens cannot be read: {error}") from error
        if isinstance(key, RSAPublicKey):
            keys["RS256"] = key
        elif isinstance(key, Ed25519PublicKey):
            keys["EdDSA"] = key
        else:
            raise KeyUnusable("the public key of tokens is neither RSA nor Ed25519")
    return keys
