"""One SQS request in its action: the caller, and the queue that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.server.calls import Caller, read_key
from laneway.server.claims import Claims
from laneway.server.sqs.addresses import read_origin, read_url, write_arn, write_url
from laneway.server.sqs.errors import Fault
from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from laneway.domain.queues import Queue
    from laneway.engine import Broker
    from laneway.server.calls import Call, Identity
    from laneway.server.settings import SqsSettings
    from laneway.server.sqs.addresses import Origin
    from laneway.server.sqs.attempts import Attempts
    from laneway.server.sqs.wire import Addressed


class Exchange:
    """A request with its caller.

    access_key: the id of the key that the request is signed with, None if it carries the key.
    path: the queue's name in the path, decoded. claims: what the request claims; it is answered in
    their context.
    """

    __slots__ = (
        "_origin",
        "attempts",
        "broker",
        "call",
        "claims",
        "credential",
        "identity",
        "path",
    )

    def __init__(
        self,
        call: Call[Any, Any],
        *,
        identity: Identity,
        access_key: str | None,
        path: str,
        credential: bytes | None,
        attempts: Attempts,
    ) -> None:
        self.call = call
        self.identity = identity
        self.path = path
        self.credential = credential
        self.attempts = attempts
        self.broker: Broker = call.service.broker
        caller = Caller(identity, read_key(call.request.headers), access_key)
        self.claims = Claims(call, caller)
        self._origin: Origin | None = None

    @property
    def settings(self) -> SqsSettings:
        return self.call.service.settings.sqs

    @property
    def origin(self) -> Origin:
        if self._origin is None:
            request = self.call.request
            host = request.headers.get(b"host", b"localhost").decode("latin-1")
            self._origin = read_origin("http", host, self.credential, self.settings)
        return self._origin

    def write_url(self, name: str) -> str:
        return write_url(name, self.origin, self.settings)

    def write_arn(self, name: str) -> str:
        return write_arn(name, self.origin)

    def name_queue(self, request: Addressed) -> str:
        """Return the name of the queue; the URL in the body takes precedence over the path."""
        name = read_url(request.queue_url) if request.queue_url else self.path
        if not name:
            raise Refusal.MISSING.fault(parameter="QueueUrl")
        return name

    async def find_queue(self, request: Addressed) -> Queue:
        """Return the queue from the cache, at most a few seconds old."""
        return await self.broker.queues.find(self.name_queue(request))

    async def get_queue(self, request: Addressed) -> Queue:
        """Return the queue from the database."""
        return await self.broker.queues.get(self.name_queue(request))

    def require_queue(self, name: str) -> None:
        """Refuse a key that is limited to other queues."""
        if not self.identity.may_use(name):
            raise Fault(
                "AccessDeniedException",
                f'The key "{self.identity.name}" is limited to queues like '
                f'"{self.identity.pattern}": it may not use queue "{name}".',
            )
