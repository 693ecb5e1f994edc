"""One operation of a protocol: the declaration that routing, decoding, access and OpenAPI share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from laneway.domain.keys import Role

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from laneway.domain.errors import LanewayError
    from laneway.server.access import Reach
    from laneway.server.calls import Call, Request
    from laneway.server.responses import Answer, Stream

# What a call's parameters (path and query together) and its body are decoded to.
P = TypeVar("P")
B = TypeVar("B")


class Media(NamedTuple):
    """An answer or a body that is not JSON; schema: what is known of its parts."""

    content_type: str
    schema: Mapping[str, Any] | None = None


Kind: TypeAlias = Literal["request", "document", "health"]

# What an answer may carry: a type that msgspec knows, something else, or nothing.
Content: TypeAlias = "type[Any] | Media | None"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation(Generic[P, B]):
    """What can be asked of the server, and by whom.

    path: relative to its surface, with {names} that are fields of `parameters`. role None: open to
    all. reach: which queues it touches. kind: which of the server's limits it counts against; health
    against none. body_optional: an empty body stands for the body's
    defaults. example: a body, as the reference shows it. compress: its answers are large lists. hidden: not in the OpenAPI document. forms: what
    names in the path may look like, as regular expressions. query: only requests with that
    parameter are meant, before all others.
    """

    method: str
    path: str
    handler: Callable[[Call[P, B]], Awaitable[Answer | Stream]]
    summary: str
    answers: Mapping[int, Content]
    role: Role | None
    reach: Reach
    kind: Kind = "request"
    parameters: type[P] | None = None
    body: type[B] | Media | None = None
    body_optional: bool = False
    example: Any = None
    compress: bool = False
    hidden: bool = False
    forms: Mapping[str, str] = field(default_factory=dict)
    query: str | None = None
    tag: str = "messages"

    @property
    def safe(self) -> bool:
        """Whether it only looks: taking messages is a GET that does not."""
        looks = self.role in {None, Role.READ} and self.query is None
        return looks and self.method == "GET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """One protocol: its operations under a prefix, and how it words what went wrong.

    tags: what the reference says of each group of operations, in the order it shows them. tell: does
    as explain where that depends on the request, of one that did not get as far as its operation.
    """

    name: str
    prefix: str
    operations: Sequence[Operation[Any, Any]]
    explain: Callable[[LanewayError], Answer]
    errors: Mapping[int, Content] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    tell: Callable[[LanewayError, Request], Answer] | None = None


__all__ = ["Content", "Media", "Operation", "Role", "Surface"]
