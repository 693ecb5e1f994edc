"""Addresses of queues: URLs in several formats, and ARNs."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from laneway.server.settings import SqsSettings

# A name has at most 255 characters, and each takes up to twelve when encoded.
_LONGEST = 4096

_ACCOUNT = re.compile(r"[0-9]{12}")
_CREDENTIAL = re.compile(rb"Credential=([^/,\s]+)/[0-9]{8}/([^/]+)/")
_ARN = re.compile(r"arn:[^:]+:sqs:[^:]*:[^:]*:([^:]+)")


class Origin(NamedTuple):
    """The parts of queue addresses: the server's URL, the region and the account."""

    base: str
    region: str
    account: str


def read_origin(
    scheme: str, host: str, authorization: bytes | None, settings: SqsSettings
) -> Origin:
    """Return the origin, with region and account from the credential scope, signed or not."""
    region, account = settings.region, settings.account
    found = _CREDENTIAL.search(authorization) if authorization else None
    if found is not None:
        access_key = found[1].decode("latin-1")
        region = found[2].decode("latin-1")
        if _ACCOUNT.fullmatch(access_key):
            account = access_key
    return Origin(f"{scheme}://{settings.host or host}", region, account)


def write_url(name: str, origin: Origin, settings: SqsSettings) -> str:
    """Return the queue's URL; names from other protocols may contain slashes."""
    base, region, account = origin
    name = quote(name, safe="")
    match settings.url_style:
        case "region":
            return f"{base}/queue/{region}/{account}/{name}"
        case "host":
            scheme, _, host = base.partition("://")
            return f"{scheme}://sqs.{region}.{host}/{account}/{name}"
        case _:
            return f"{base}/{account}/{name}"


def read_url(url: str) -> str:
    """Return the queue's name: the last part of the path of any URL, or a bare name."""
    # Bounds the size of the cache below and of the standard library's.
    if len(url) > _LONGEST:
        raise Refusal.QUEUE.fault()
    return _read_url(url)


@lru_cache(maxsize=1024)
def _read_url(url: str) -> str:
    if not url:
        raise Refusal.MISSING.fault(parameter="QueueUrl")
    try:
        name = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    except ValueError:
        name = ""
    if not name:
        raise Refusal.QUEUE.fault()
    return name


def write_arn(name: str, origin: Origin) -> str:
    return f"arn:aws:sqs:{origin.region}:{origin.account}:{name}"


def read_arn(arn: str, parameter: str) -> str:
    """Return the queue's name."""
    found = _ARN.fullmatch(arn)
    if found is None:
        raise Refusal.ARN.fault(parameter=parameter)
    return found[1]
