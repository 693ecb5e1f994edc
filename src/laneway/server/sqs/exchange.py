"""One SQS request in its action: the caller, and the queue that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.server.calls import Caller, read_key
from laneway.server.claims import Claims
from laneway.server.sqs.addresses import (
    find_owner,
    read_arn,
    read_owner,
    read_path,
    read_url,
    write_arn,
    write_url,
)
from laneway.server.sqs.owners import Owner, find_owned, name_queue
from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from laneway.domain.queues import Queue
    from laneway.engine import Broker
    from laneway.server.calls import Call, Identity
    from laneway.server.settings import SqsSettings
    from laneway.server.sqs.addresses import Address
    from laneway.server.sqs.attempts import Attempts
    from laneway.server.sqs.owners import Owned
    from laneway.server.sqs.wire import Addressed


class Exchange:
    """A request with its caller.

    access_key: the id of the key that the request is signed with, None if it carries the key.
    owner: whom it is made for. claims: what the request claims; it is answered in their context.
    """

    __slots__ = (
        "attempts",
        "broker",
        "call",
        "claims",
        "identity",
        "owner",
    )

    def __init__(
        self,
        call: Call[Any, Any],
        *,
        identity: Identity,
        access_key: str | None,
        credential: bytes | None,
        attempts: Attempts,
    ) -> None:
        self.call = call
        self.identity = identity
        self.owner = read_owner(credential, call.service.settings.sqs)
        self.attempts = attempts
        self.broker: Broker = call.service.broker
        caller = Caller(identity, read_key(call.request.headers), access_key)
        self.claims = Claims(call, caller)

    @property
    def settings(self) -> SqsSettings:
        return self.call.service.settings.sqs

    @property
    def host(self) -> str:
        return self.call.request.headers.get(b"host", b"localhost").decode("latin-1")

    def write_url(self, queue: str) -> str:
        return write_url(self.find_owned(queue), self.host, self.settings)

    def write_arn(self, queue: str) -> str:
        return write_arn(self.find_owned(queue))

    def find_owned(self, queue: str) -> Owned:
        """Return the owner and the name in SQS of a queue in Laneway."""
        return find_owned(queue, self.owner, self.settings)

    def name_own(self, name: str, account: str | None = None) -> str:
        """Return the name in Laneway of a queue of the caller's region.

        account: whose queue it is; None: the caller's.
        """
        owner = Owner(self.owner.region, account) if account else self.owner
        return name_queue(name, owner, self.settings)

    def name_arn(self, arn: str, parameter: str) -> str:
        """Return the name in Laneway of the queue with this ARN."""
        return self._name(read_arn(arn, parameter))

    def name_queue(self, request: Addressed) -> str:
        """Return the name in Laneway; the URL in the body takes precedence over the path."""
        if request.queue_url:
            return self._name(read_url(request.queue_url))
        path = self.call.parameters
        if path is None:
            raise Refusal.MISSING.fault(parameter="QueueUrl")
        return self._name(read_path(path.queue, path.account, path.region, self.host))

    def _name(self, address: Address) -> str:
        host = "" if address.place is None else self.host
        owner = find_owner(address, self.owner, host, self.settings)
        return name_queue(address.name, owner, self.settings)

    async def find_queue(self, request: Addressed) -> Queue:
        """Return the queue from the cache, at most a few seconds old."""
        return await self.broker.queues.find(self.name_queue(request))

    async def get_queue(self, request: Addressed) -> Queue:
        """Return the queue from the database."""
        return await self.broker.queues.get(self.name_queue(request))

    def require_queue(self, name: str) -> None:
        """Refuse a key that is limited to other queues."""
        if not self.identity.may_use(name):
            raise Refusal.OTHER_QUEUE.fault(
                key=self.identity.name, pattern=self.identity.pattern, queue=name
            )
