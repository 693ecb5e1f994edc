"""Which queues each operation touches, and what a key limited to some queues may do with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, TypeAlias

from laneway.server.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from laneway.domain.keys import Role
    from laneway.server.calls import Call, Identity

# Returns the names of the queues that a call names, or None for all queues.
Names: TypeAlias = "Callable[[Call[Any, Any]], Awaitable[Sequence[str] | None]]"
# Raises a not-found error unless the caller may use the queues of the thing that the call names.
Check: TypeAlias = "Callable[[Call[Any, Any]], Awaitable[None]]"


@unique
class Kind(Enum):
    """How an operation protects queues from a key that is limited to others."""

    # Touches no queue: every key may call it.
    NOTHING = "nothing"
    # The request names its queues: 403 unless the key may use each of them.
    NAMED = "named"
    # The request may name a queue, as above. Without one, lists leave out the queues that the key
    # may not use.
    NAMED_OR_FILTERED = "named or filtered"
    # The handler chooses the queues, without those that `call.identity.may_use` refuses.
    FILTERED = "filtered"
    # The request names something by its id. If it belongs to another queue, it is not found.
    LOOKED_UP = "looked up"
    # The request carries a lease token: 122 random bits that only the lease's consumer received.
    TOKEN = "token"  # noqa: S105 - a kind, not a secret
    # Touches all queues at once: 403 for a key that is limited to some.
    EVERY = "every"
    # One endpoint for many actions, each of which declares its own reach.
    ACTION = "action"


@dataclass(frozen=True, slots=True)
class Reach:
    """Which queues an operation touches.

    `names` or `check` runs before the handler, for keys that are limited to some queues. Without
    them, the handler does what the kind says.
    """

    kind: Kind
    names: Names | None = None
    check: Check | None = None

    async def require(self, call: Call[Any, Any]) -> None:
        """Raise Forbidden if the call touches a queue that the key may not use."""
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
# The handler looks things up by id, and finds none that belong to other queues.
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
    """Raise Forbidden unless the key may use every one of the queues, existing or not."""
    for queue in queues:
        if not identity.may_use(queue):
            raise _refuse(identity, f'it may not use queue "{queue}"')


def require_role(identity: Identity, role: Role, purpose: str) -> None:
    """Raise Forbidden unless the key has this role; purpose: what requires it."""
    if identity.role < role:
        raise Forbidden(
            f'the key "{identity.name}" has the role {identity.role}: {purpose} requires {role}'
        )


def _refuse(identity: Identity, why: str) -> Forbidden:
    return Forbidden(
        f'the key "{identity.name}" is limited to queues like "{identity.pattern}": {why}. '
        "Use a key for these queues: laneway key create --role ROLE --queue PATTERN"
    )
