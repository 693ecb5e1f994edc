"""Addresses of queues: URLs in several forms, and ARNs."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from laneway.server.sqs.owners import ACCOUNT, REGION, Owner, find_partition
from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from laneway.server.settings import SqsSettings
    from laneway.server.sqs.owners import Owned

# A name has at most 255 characters, and each takes up to twelve when encoded.
_LONGEST = 4096
_LONGEST_CREDENTIAL = 256

_SIGNED = b"Credential="
_CREDENTIAL = re.compile(rb"([^/,\s]+)/[0-9]{8}/([^/,\s]*)/")
_ARN = re.compile(r"arn:[^:]+:sqs:([^:]*):([^:]*):([^:]+)")
# sqs.us-east-1.localhost, us-east-1.queue.localhost, queue.localhost
_HOST = re.compile(r"(?:sqs\.([a-z0-9_-]+)|([a-z0-9_-]+)\.queue|queue)\.(.+)")
_AWS_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}")


class Address(NamedTuple):
    """The parts of a queue's URL; None: it leaves this part to the request.

    place: what its host names beside the server, if that may be a region: the region, "" for the
    default one, and the server's host.
    """

    name: str
    region: str | None = None
    account: str | None = None
    place: tuple[str, str] | None = None


def read_owner(authorization: bytes | None, settings: SqsSettings) -> Owner:
    """Return whom a request is made for, by its credential scope, whether signed or not."""
    start = authorization.find(_SIGNED) if authorization else -1
    if authorization is None or start < 0:
        return Owner(settings.region, settings.account)
    end = authorization.find(b",", start)
    credential = authorization[start + len(_SIGNED) : end if end >= 0 else None]
    read = _read_credential if len(credential) <= _LONGEST_CREDENTIAL else _parse_credential
    return read(credential, settings.region, settings.account)


def write_url(queue: Owned, host: str, settings: SqsSettings) -> str:
    """Return a queue's URL; names from other protocols may contain slashes.

    host: the Host header of the request.
    """
    (region, account), name = queue
    path = f"{account}/{quote(name, safe='')}"
    server = settings.host or host
    match settings.url_style:
        case "host":
            return f"http://sqs.{region}.{_find_base(host, region, settings)}/{path}"
        case "domain":
            base = _find_base(host, region, settings).removeprefix("queue.")
            # As the oldest endpoints of AWS do, without the default region.
            place = "queue" if region == settings.region else f"{region}.queue"
            return f"http://{place}.{base}/{path}"
        case "path" if _is_implied(region, server, settings):
            return f"http://{server}/{path}"
        case _:
            return f"http://{server}/queue/{region}/{path}"


def read_url(url: str) -> Address:
    """Return the parts of a queue's URL, or of a bare name."""
    # Bounds the size of the cache below and of the standard library's.
    if len(url) > _LONGEST:
        raise Refusal.QUEUE.fault()
    return _read_url(url)


def read_path(name: str, account: str, region: str, host: str) -> Address:
    """Return the address of a request that was sent to a queue's URL."""
    if region:
        return Address(name, region, account)
    return _read_host(host)._replace(name=name, account=account)


def find_owner(address: Address, caller: Owner, host: str, settings: SqsSettings) -> Owner:
    """Return the owner of the queue with this address."""
    region, account = address.region, address.account
    if region is None and address.place is not None:
        found, base = address.place
        if base == _find_base(host, caller.region, settings).lower():
            region = found or settings.region
    if region is None and account in {None, caller.account}:
        return caller
    return Owner(region or caller.region, account or caller.account)


def write_arn(queue: Owned) -> str:
    (region, account), name = queue
    return f"arn:{find_partition(region)}:sqs:{region}:{account}:{name}"


def read_arn(arn: str, parameter: str) -> Address:
    found = _ARN.fullmatch(arn)
    if found is None:
        raise Refusal.ARN.fault(parameter=parameter)
    return Address(found[3], found[1] or None, found[2] or None)


def _parse_credential(credential: bytes, default_region: str, default_account: str) -> Owner:
    found = _CREDENTIAL.match(credential)
    if found is None:
        return Owner(default_region, default_account)
    region = found[2].decode("latin-1").lower()
    if region and not REGION.fullmatch(region):
        raise Refusal.SIGNATURE_REGION.fault()
    key = found[1].decode("latin-1")
    return Owner(region or default_region, key if ACCOUNT.fullmatch(key) else default_account)


_read_credential = lru_cache(maxsize=1024)(_parse_credential)


@lru_cache(maxsize=1024)
def _read_url(url: str) -> Address:
    if not url:
        raise Refusal.MISSING.fault(parameter="QueueUrl")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise Refusal.QUEUE.fault() from None
    *steps, last = parts.path.rstrip("/").split("/")
    name = unquote(last)
    if not name:
        raise Refusal.QUEUE.fault()
    if not steps or not ACCOUNT.fullmatch(steps[-1]):
        return Address(name)
    if len(steps) > 2 and steps[-3] == "queue":  # noqa: PLR2004 - queue, region, account
        return Address(name, steps[-2], steps[-1])
    return _read_host(parts.netloc)._replace(name=name, account=steps[-1])


def _read_host(host: str) -> Address:
    """Return what a host says of a queue's address.

    Only a region that is named as AWS's are is certain: others may belong to the server's name.
    """
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return Address("")
    region = found[1] or found[2] or ""
    if _AWS_REGION.fullmatch(region):
        return Address("", region)
    return Address("", place=(region, found[3]))


def _is_implied(region: str, server: str, settings: SqsSettings) -> bool:
    """Return whether URLs of a queue need not name its region."""
    named = _read_host(server).region
    return settings.shared or (region == settings.region and named in {None, region})


def _find_base(host: str, region: str, settings: SqsSettings) -> str:
    """Return the server's own host, without the region that a client put before it."""
    if settings.host is not None:
        return settings.host
    found = _HOST.fullmatch(host.lower())
    if found is not None:
        named = found[1] or found[2] or ""
        if named == region or _AWS_REGION.fullmatch(named):
            return found[3]
    return host
