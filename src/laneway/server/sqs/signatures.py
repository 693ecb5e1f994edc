"""AWS Signature Version 4: reads and verifies the signature in a request's header or URL."""

from __future__ import annotations

import hmac
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote_plus

from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from laneway.server.sqs.errors import Fault

ALGORITHM = "AWS4-HMAC-SHA256"
# Tolerated clock difference, the same as AWS's.
SKEW = timedelta(minutes=15)
LONGEST_PRESIGNED = timedelta(days=7)

# Signing keys are derived from it and cached.
_LONGEST_SCOPE = 200

_TIME = "%Y%m%dT%H%M%SZ"
_PART = re.compile(r"(Credential|SignedHeaders|Signature)=([^,\s]+)")
_SPACES = re.compile(r" +")


class Signed(NamedTuple):
    """The signature of a request. lifetime: how long a presigned URL is valid."""

    access_key: str
    scope: str
    signed_headers: Sequence[str]
    signature: str
    at: datetime
    lifetime: timedelta | None


class Signable(NamedTuple):
    """The signed parts of a request. path and query are as sent, still encoded."""

    method: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes


def split_query(query: bytes) -> list[tuple[str, str]]:
    """Return the parameters with their values decoded."""
    pairs = []
    for part in query.decode(errors="replace").split("&"):
        if part:
            name, _, value = part.partition("=")
            pairs.append((unquote_plus(name), unquote_plus(value)))
    return pairs


def read_header(authorization: str, headers: Mapping[str, str]) -> Signed:
    parts = dict(_PART.findall(authorization))
    if not authorization.startswith(ALGORITHM) or len(parts) != 3:  # noqa: PLR2004 - all three
        raise Refusal.SIGNATURE_PARTS.fault()
    return _read(
        parts["Credential"],
        parts["SignedHeaders"],
        parts["Signature"],
        headers.get("x-amz-date", ""),
        None,
    )


def read_presigned(query: Sequence[tuple[str, str]]) -> Signed | None:
    """Return the signature of a presigned URL, None if it has none."""
    values = dict(query)
    if "X-Amz-Signature" not in values:
        return None
    try:
        lifetime = timedelta(seconds=int(values.get("X-Amz-Expires", "")))
    except (ValueError, OverflowError):
        lifetime = timedelta(0)
    if not timedelta(0) < lifetime <= LONGEST_PRESIGNED:
        raise Refusal.URL_LIFETIME.fault()
    return _read(
        values.get("X-Amz-Credential", ""),
        values.get("X-Amz-SignedHeaders", ""),
        values["X-Amz-Signature"],
        values.get("X-Amz-Date", ""),
        lifetime,
    )


def require_scope(signed: Signed, headers: Mapping[str, str], *, now: datetime) -> None:
    """Refuse a request that was signed too long ago or in part, before reading its body."""
    if now > signed.at + (signed.lifetime or SKEW):
        if signed.lifetime is not None:
            raise Refusal.URL_EXPIRED.fault()
        raise _refuse_time(Refusal.SIGNATURE_EXPIRED, signed.at, limit=now - SKEW, now=now)
    if signed.at > now + SKEW:
        raise _refuse_time(Refusal.SIGNATURE_EARLY, signed.at, limit=now + SKEW, now=now)
    if "host" not in signed.signed_headers:
        raise Refusal.UNSIGNED_HEADER.fault(header="Host")
    # This header names the action. Proxies may have added other unsigned headers.
    if "x-amz-target" in headers and "x-amz-target" not in signed.signed_headers:
        raise Refusal.UNSIGNED_HEADER.fault(header="X-Amz-Target")


def verify(signed: Signed, request: Signable, *, secret: str) -> None:
    """Refuse a request whose signature was not made with this secret."""
    expected = sign(signed, request, secret)
    if not hmac.compare_digest(expected.encode(), signed.signature.encode()):
        raise Refusal.SIGNATURE.fault()


def sign(signed: Signed, request: Signable, secret: str) -> str:
    canonical = "\n".join(
        (
            request.method,
            quote(request.path, safe="/~-._"),
            _canonical_query(request.query),
            *(f"{name}:{_trim(request.headers.get(name, ''))}" for name in signed.signed_headers),
            "",
            ";".join(signed.signed_headers),
            _hash_payload(signed, request),
        )
    )
    text = "\n".join(
        (
            ALGORITHM,
            signed.at.strftime(_TIME),
            signed.scope,
            sha256(canonical.encode()).hexdigest(),
        )
    )
    return hmac.new(_derive_key(secret, signed.scope), text.encode(), sha256).hexdigest()


def _read(
    credential: str, headers: str, signature: str, at: str, lifetime: timedelta | None
) -> Signed:
    access_key, _, scope = credential.partition("/")
    try:
        moment = datetime.strptime(at, _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise Refusal.SIGNATURE_DATE.fault() from None
    parts = scope.split("/")
    if (
        len(scope) > _LONGEST_SCOPE
        or len(parts) != 4  # noqa: PLR2004 - date, region, service, end
        or parts[0] != at[:8]
        or parts[2:] != ["sqs", "aws4_request"]
    ):
        raise Refusal.SIGNATURE_SCOPE.fault(date=at[:8])
    return Signed(access_key, scope, headers.split(";"), signature, moment, lifetime)


def _canonical_query(query: Iterable[tuple[str, str]]) -> str:
    pairs = sorted(
        (quote(name, safe="~-._"), quote(value, safe="~-._"))
        for name, value in query
        if name != "X-Amz-Signature"
    )
    return "&".join(f"{name}={value}" for name, value in pairs)


def _hash_payload(signed: Signed, request: Signable) -> str:
    given = request.headers.get("x-amz-content-sha256")
    actual = sha256(request.body).hexdigest()
    if given is not None and "x-amz-content-sha256" in signed.signed_headers and given != actual:
        raise Refusal.SIGNED_BODY.fault()
    return actual


def _trim(value: str) -> str:
    return _SPACES.sub(" ", value.strip())


@lru_cache(maxsize=256)
def _derive_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), sha256).digest()
    return key


def _refuse_time(refusal: Refusal, at: datetime, *, limit: datetime, now: datetime) -> Fault:
    return refusal.fault(at=f"{at:{_TIME}}", limit=f"{limit:{_TIME}}", now=f"{now:{_TIME}}")
