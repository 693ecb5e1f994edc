"""The declaration of an operation, shared by routing, decoding, access checks and OpenAPI."""

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

# The types of a call's parameters (path and query together) and body.
P = TypeVar("P")
B = TypeVar("B")


class Media(NamedTuple):
    """An answer or a body that is not JSON; `schema` describes its parts where they are known."""

    content_type: str
    schema: Mapping[str, Any] | None = None


Kind: TypeAlias = Literal["request", "document", "health"]

# What an answer may carry: a type that msgspec knows, something else, or nothing.
Content: TypeAlias = "type[Any] | Media | None"


class Response(NamedTuple):
    """An answer of an operation as OpenAPI describes it: its content, and when it is sent."""

    content: Content
    description: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation(Generic[P, B]):
    """One call that the server answers, and which callers may make it.

    path: relative to its surface, with {names} that are fields of `parameters`. summary and
    description: as OpenAPI shows them. role: the least role of an API key, None: open to all. reach:
    which queues it touches. kind: which of the server's limits it counts against; health against
    none. body_optional: an empty body stands for the body's defaults. example: a body, as the
    reference page shows it. compress: its answers are large lists. hidden: not in the OpenAPI
    document. forms: regular expressions that names in the path match. query: the operation answers
    only requests with this parameter, and answers them before any other operation.
    """

    method: str
    path: str
    handler: Callable[[Call[P, B]], Awaitable[Answer | Stream]]
    summary: str
    answers: Mapping[int, Response]
    role: Role | None
    reach: Reach
    description: str = ""
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
        """Whether it changes nothing: dequeuing is a GET that does."""
        reads = self.role in {None, Role.READ} and self.query is None
        return reads and self.method == "GET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """One protocol: its operations under a prefix, and how it writes errors.

    errors: the error answers that any of its operations may give. tags: the description of each group
    of operations, in the order the reference page shows them. tell: used instead of explain where the
    answer depends on the request, for a request that did not reach its operation.
    """

    name: str
    prefix: str
    operations: Sequence[Operation[Any, Any]]
    explain: Callable[[LanewayError], Answer]
    errors: Mapping[int, Response] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    tell: Callable[[LanewayError, Request], Answer] | None = None


__all__ = ["Content", "Media", "Operation", "Response", "Role", "Surface"]
