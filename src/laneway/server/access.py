"""Which queues an operation touches: what a key that is limited to some queues may do with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, TypeAlias

from laneway.server.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from laneway.server.calls import Call, Identity

# Return the names of the queues that a call means, or None for all there are.
Names: TypeAlias = "Callable[[Call[Any, Any]], Awaitable[Sequence[str] | None]]"
# Raise what a missing thing raises, unless the caller may use the queues behind the one named.
Check: TypeAlias = "Callable[[Call[Any, Any]], Awaitable[None]]"


@unique
class Kind(Enum):
    """How a key that is limited to some queues is kept from the others."""

    # Touches nothing of any queue: every key may.
    NOTHING = "nothing"
    # The request names its queues: 403 unless the key may use each of them.
    NAMED = "named"
    # The request may name a queue, as above; without one, lists leave out what the key may not use.
    NAMED_OR_FILTERED = "named or filtered"
    # Chooses the queues itself, and leaves out those that `call.identity.may_use` refuses.
    FILTERED = "filtered"
    # The request names something by its id: of another queue, it is as if it did not exist.
    LOOKED_UP = "looked up"
    # The request carries a lease token: 122 random bits that only the holder of the lease was given.
    TOKEN = "token"  # noqa: S105 - a kind, not a secret
    # Touches all queues at once: 403 for a key that is limited to some.
    EVERY = "every"
    # One endpoint for many actions, each of which declares its own reach.
    ACTION = "action"


@dataclass(frozen=True, slots=True)
class Reach:
    """What an operation declares; `names` or `check` is asked before the handler runs.

    Only keys that are limited to some queues are asked about. Without `names` or `check`, the handler
    does what the kind says.
    """

    kind: Kind
    names: Names | None = None
    check: Check | None = None

    async def require(self, call: Call[Any, Any]) -> None:
        """Refuse a limited key where the call touches other queues."""
        if self.kind is Kind.EVERY:
            raise _refuse(call.identity, "this touches all queues")
        if self.names is not None:
            queues = await self.names(call)
            if queues is None:
                raise _refuse(call.identity, "this touches all queues")
            require_queues(call.identity, queues)
        if self.check is not None:
            await self.check(call)


nothing = Reach(Kind.NOTHING)
filtered = Reach(Kind.FILTERED)
by_token = Reach(Kind.TOKEN)
every_queue = Reach(Kind.EVERY)
by_action = Reach(Kind.ACTION)
# The handler looks up what the request names by its id, and finds nothing of other queues.
looked_up = Reach(Kind.LOOKED_UP)
# The handler reads the names from a body that it decodes itself.
named_in_body = Reach(Kind.NAMED)


def named(names: Names) -> Reach:
    return Reach(Kind.NAMED, names)


def named_or_filtered(names: Names) -> Reach:
    return Reach(Kind.NAMED_OR_FILTERED, names)


def checked(check: Check) -> Reach:
    return Reach(Kind.LOOKED_UP, check=check)


def require_queues(identity: Identity, queues: Sequence[str]) -> None:
    """Refuse a key that may not use one of the queues, whether there is such a queue or not."""
    for queue in queues:
        if not identity.may_use(queue):
            raise _refuse(identity, f'it may not use queue "{queue}"')


def _refuse(identity: Identity, why: str) -> Forbidden:
    return Forbidden(
        f'the key "{identity.name}" is limited to queues like "{identity.pattern}": {why}. '
        "Use a key for these queues: laneway key create --role ROLE --queue PATTERN"
    )
