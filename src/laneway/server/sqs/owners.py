"""Owners of queues: the region and account that a queue belongs to.

A queue of the default owner has the same name on every surface. A queue of another owner is called
`region:account:name` elsewhere in Laneway, as its ARN ends. With the setting `shared`, owners are
only parts of addresses: every queue has the same name for all of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import QueueNotFound

if TYPE_CHECKING:
    from laneway.server.settings import SqsSettings

REGION = re.compile(r"[a-z0-9_-]{1,63}")
ACCOUNT = re.compile(r"[0-9]{12}")
_OWNED = re.compile(rf"({REGION.pattern}):({ACCOUNT.pattern}):(.+)", re.DOTALL)

# The partitions of AWS by the beginning of their regions; "aws" has all others.
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}


class Owner(NamedTuple):
    """The region and account that a queue belongs to, or that a request is made in."""

    region: str
    account: str


class Owned(NamedTuple):
    """A queue as SQS names it: its owner, and its name there."""

    owner: Owner
    name: str


def name_queue(name: str, owner: Owner, settings: SqsSettings) -> str:
    """Return the name that the owner's queue has in Laneway."""
    if settings.shared:
        return name
    if owner == (settings.region, settings.account):
        if ":" in name and find_owned(name, owner, settings).owner != owner:
            # The name of another owner's queue.
            raise QueueNotFound(queue=name)
        return name
    if not (REGION.fullmatch(owner.region) and ACCOUNT.fullmatch(owner.account)):
        raise QueueNotFound(queue=name)
    return f"{owner.region}:{owner.account}:{name}"


def find_owned(queue: str, caller: Owner, settings: SqsSettings) -> Owned:
    """Return the owner and the name in SQS of a queue in Laneway.

    caller: who asks; the owner of every queue if all are shared.
    """
    if settings.shared:
        return Owned(caller, queue)
    default = Owner(settings.region, settings.account)
    found = _OWNED.fullmatch(queue) if ":" in queue else None
    owner = default if found is None else Owner(found[1], found[2])
    # A queue of the default owner never has the long form of its name.
    return Owned(default, queue) if owner == default or found is None else Owned(owner, found[3])


def find_partition(region: str) -> str:
    """Return the partition that ARNs of this region begin with."""
    found = (name for start, name in _PARTITIONS.items() if region.startswith(start))
    return next(found, "aws")
