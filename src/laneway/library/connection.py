"""Connections of the library, to a database or a server."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self
from uuid import uuid4

from laneway.domain.errors import BrokerClosed, InvalidRequest, QueueNotFound, ResultNotFound
from laneway.domain.messages import LARGEST_PRIORITY
from laneway.domain.queues import DEFAULT_GROUP
from laneway.domain.settings import EngineSettings
from laneway.library.admin import Admin
from laneway.library.arguments import (
    check_optional_time,
    check_priority_level,
    check_text,
    find_delay,
    read_id,
)
from laneway.library.consumer import Consumer
from laneway.library.jobs import Job
from laneway.library.messages import decode_payload
from laneway.library.presence import Presence
from laneway.library.producer import Producer
from laneway.library.queues import WORKFLOWS, ensure_queue
from laneway.library.runs import Run
from laneway.library.validation import encode_result

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime, timedelta
    from types import TracebackType

    from laneway.domain.backend import Backend
    from laneway.domain.ids import MessageId
    from laneway.library.messages import Message
    from laneway.library.rate_limit import RateLimit
    from laneway.library.validation import PayloadRules

_DEFAULTS = EngineSettings()
_DATABASES = ("postgresql://", "postgres://")
_SERVERS = ("http://", "https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to connect. address: a PostgreSQL DSN, or a server's http:// or https:// URL.

    pooled: the DSN connects through PgBouncer in transaction mode. direct_dsn: connects past it, for
    LISTEN and maintenance; without it, new messages are found by polling once a second. register:
    whether long-lived producers and consumers are registered as workers.
    """

    address: str = field(repr=False)
    api_key: str | None = field(default=None, repr=False)
    pooled: bool = False
    direct_dsn: str | None = field(default=None, repr=False)
    settings: EngineSettings = _DEFAULTS
    register: bool = True

    def __post_init__(self) -> None:
        _require_address(self.address, (*_DATABASES, *_SERVERS))
        if self.direct_dsn is not None:
            _require_address(self.direct_dsn, _DATABASES)
        if self.api_key is not None and not isinstance(self.api_key, str):
            raise InvalidRequest(
                "api_key is not a str: use the key as `laneway key create` printed it"
            )
        if not isinstance(self.settings, EngineSettings):
            raise InvalidRequest("settings is not an EngineSettings: use one, or omit the argument")

    @property
    def is_server(self) -> bool:
        return self.address.startswith(_SERVERS)

    @property
    def priority_levels(self) -> int:
        """The number of priorities; a server checks its own limit."""
        return LARGEST_PRIORITY + 1 if self.is_server else self.settings.priority_levels

    def open(self, *, aside: bool = False) -> BackendContext:
        """Return a backend. aside: a second one in this process, without maintenance and LISTEN."""
        settings = self.settings
        # Imported here, so that a program loads only the transport that it uses.
        if self.is_server:
            from laneway.client import HttpBackend  # noqa: PLC0415 - see above

            return HttpBackend(self.address, api_key=self.api_key, settings=settings.connections)  # type: ignore[return-value]
        connections = replace(
            settings.connections,
            through_pooler=self.pooled or settings.connections.through_pooler,
            direct_dsn=self.direct_dsn or settings.connections.direct_dsn,
        )
        settings = replace(settings, connections=connections)
        if aside or not connections.have_sessions:
            settings = settings.without_sessions()
        from laneway.engine import Broker  # noqa: PLC0415 - see above

        return Broker(self.address, settings)


def _require_address(address: object, schemes: tuple[str, ...]) -> None:
    """Refuse an address that is not a URL. The error does not repeat it: it may contain a password."""
    if not isinstance(address, str):
        raise InvalidRequest(f"address is a {type(address).__name__}: {_suggest(schemes)}")
    if not address.startswith(schemes):
        raise InvalidRequest(
            "address is not a URL of a known scheme (keywords such as host=… are not supported):"
            f" {_suggest(schemes)}"
        )


def _suggest(schemes: tuple[str, ...]) -> str:
    server = " or http://host:3001" if set(_SERVERS) <= set(schemes) else ""
    return f"use a URL such as postgresql://user:password@host:5432/database{server}"


class BackendContext(Protocol):
    """A backend that is open while its context is."""

    async def __aenter__(self) -> Backend: ...

    def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> Coroutine[Any, Any, None]: ...


class Connection:
    """A connection to one database or server, open within `async with` or from `open` to `close`."""

    def __init__(self, target: Target, backend: Backend | None = None) -> None:
        self.target = target
        # A backend passed in is already open, and its opener closes it.
        self._context = target.open() if backend is None else None
        self._backend = backend
        self._presence: Presence | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> Self:
        """Open the connection and return it; do nothing if it is open. It opens once."""
        if self._closed:
            raise BrokerClosed("the connection is closed: create another with connect")
        if self._context is not None and self._backend is None:
            self._backend = await self._context.__aenter__()
            if self.target.register:
                self._presence = Presence(self._backend)
        return self

    async def close(self) -> None:
        """Finish the calls that are running, and close the connection; do nothing if it is closed."""
        if self._context is None or self._closed:
            return
        self._closed = True
        if self._presence is not None:
            await self._presence.close()
        if self._backend is not None:
            await self._context.__aexit__(None, None, None)

    @property
    def backend(self) -> Backend:
        if self._backend is None:
            raise InvalidRequest(
                "the connection is not open: call its open(), or use it in a `with` statement"
                " (`async with` in asynchronous code)"
            )
        return self._backend

    @property
    def admin(self) -> Admin:
        return Admin(self.backend)

    def producer(
        self,
        queue: str,
        *,
        rules: PayloadRules | None = None,
        rate_limit: RateLimit | None = None,
    ) -> Producer:
        return Producer(
            self.backend,
            queue,
            rules=rules,
            rate_limit=rate_limit,
            priority_levels=self.target.priority_levels,
            presence=self._presence,
        )

    def consumer(
        self,
        queue: str,
        *,
        group: str = DEFAULT_GROUP,
        name: str | None = None,
        partition: str | None = None,
        priority: int | None = None,
    ) -> Consumer:
        """Return a consumer. partition, priority: claim only messages of these."""
        return Consumer(
            self.backend,
            queue,
            group=group,
            name=name,
            partition=partition,
            priority=priority,
            presence=self._presence,
        )

    async def install(self) -> int:
        """Install or upgrade the schema to this version of Laneway; return the schema's version."""
        return await self.backend.schema.install()

    async def verify(self) -> list[str]:
        """Return the schema's problems; [] if there are none."""
        return await self.backend.schema.verify()

    def job(self, message: MessageId | Message | str) -> Job:
        """Return a handle of the job with this message id. Whether it exists is not checked."""
        return Job(self.backend, read_id(message))

    async def job_result(self, message: MessageId | Message | str) -> Any:
        """Return the stored result of a message's handler; raise ResultNotFound if there is none."""
        message_id = read_id(message)
        found = await self.backend.workers.find_result(message_id)
        if found is None:
            raise ResultNotFound(message=str(message_id))
        return None if found.result is None else decode_payload(found.result)

    async def start(
        self,
        workflow: str,
        *arguments: Any,
        queue: str = "workflows",
        run_id: str | None = None,
        priority: int = 0,
        delay: timedelta | None = None,
        at: datetime | None = None,
    ) -> Run:
        """Start a run of the workflow of this name; a run that exists under `run_id` is unchanged.

        The workflow's queue is created if it is missing. priority: of the run among those of its
        workflow. delay, at: how long, or until when, the run does not begin.
        """
        run = self.run(run_id or uuid4().hex)
        name, place = check_text(workflow, "workflow name"), check_text(queue, "queue name")
        given = encode_result(list(arguments))
        start = partial(
            self.backend.workflows.start_run,
            run.run_id,
            name=name,
            queue=place,
            arguments=given,
            priority=check_priority_level(priority, self.target.priority_levels),
            delay=check_optional_time(find_delay(delay, at), "delay"),
        )
        try:
            await start()
        except QueueNotFound as missing:
            # No worker of the workflow ever ran here.
            try:
                await ensure_queue(self.backend, place, WORKFLOWS)
            except QueueNotFound:
                raise missing from None
            await start()
        return run

    def run(self, run_id: str) -> Run:
        """Return a handle of the workflow run with this id. Whether it exists is not checked."""
        return Run(self.backend, check_text(run_id, "run id"))


def connect(
    address: str,
    *,
    api_key: str | None = None,
    pooled: bool = False,
    direct_dsn: str | None = None,
    settings: EngineSettings | None = None,
    register: bool = True,
) -> Connection:
    """Return a connection. Open it with `async with`, or with `open()`, and then `close()` it.

    address: a PostgreSQL DSN or the URL of a Laneway server; the API is the same on both. api_key:
    the server's API key. pooled: the DSN connects through PgBouncer in transaction mode, direct_dsn
    past it. register: whether producers and consumers that are used for longer than half a minute
    are listed among the workers. The first call connects, so an unreachable database raises no error
    before.
    """
    return Connection(
        Target(
            address=address,
            api_key=api_key,
            pooled=pooled,
            direct_dsn=direct_dsn,
            settings=settings or _DEFAULTS,
            register=bool(register),
        )
    )
