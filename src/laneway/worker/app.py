"""The App of a worker program: its handlers, periodic jobs and workflows."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from laneway.domain.errors import InvalidRequest, InvalidSetting
from laneway.domain.messages import require_level
from laneway.domain.queues import DEFAULT_GROUP
from laneway.library.arguments import check_text, settings_of
from laneway.library.connection import Connection, Target
from laneway.worker.cron import Cron
from laneway.worker.handlers import Handler, choose_executor, name_of
from laneway.worker.loops import run_program
from laneway.worker.schedules import Schedule
from laneway.worker.signals import stopped_by_signals
from laneway.worker.worker import Duties, Worker, WorkerSettings
from laneway.worker.workflows import BEGIN_AGAIN, Workflow, drive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import timedelta

    from laneway.domain.backend import Backend
    from laneway.domain.settings import EngineSettings
    from laneway.library.messages import Message
    from laneway.library.rate_limit import RateLimit
    from laneway.worker.handlers import Executor, Middleware
    from laneway.worker.policies import Retry

F = TypeVar("F", bound=Callable[..., Any])

# The connection of the worker whose task this is.
_own_connection: ContextVar[Connection | None] = ContextVar("laneway_own_connection", default=None)


class App:
    """Handlers, periodic jobs and workflows on one database or server.

    address and its options are those of `laneway.connect`; `run` and `work` take an address too.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        name: str = "worker",
        api_key: str | None = None,
        pooled: bool = False,
        direct_dsn: str | None = None,
        settings: EngineSettings | None = None,
        worker: WorkerSettings | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self._options: dict[str, Any] = {
            "api_key": api_key,
            "pooled": pooled,
            "direct_dsn": direct_dsn,
            "settings": settings,
        }
        self._worker_settings = worker or WorkerSettings()
        self._handlers: list[Handler] = []
        self._schedules: dict[str, Schedule] = {}
        self._workflows: dict[str, Workflow] = {}
        self._middlewares: list[Middleware] = []
        # The connections of the running workers.
        self._connections: list[Connection] = []

    def handler(
        self,
        queue: str,
        *,
        concurrency: int = 10,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        lock_time: timedelta | None = None,
        prefetch: int | None = None,
        batch: int | None = None,
        rate_limit: RateLimit | None = None,
        executor: Executor | None = None,
        keep_results: timedelta | None = None,
        group: str = DEFAULT_GROUP,
        partition: str | None = None,
    ) -> Callable[[F], F]:
        """Register a function as handler of a queue's messages; when it returns, the message is acked.

        concurrency: calls at the same time. timeout: limit of one call, after which the attempt
        fails. retry: retry policy; None: the queue's settings. lock_time: lease duration, extended
        while the function runs; None: the message's own, else the queue's. prefetch: messages
        claimed ahead; None: as many as start within 0.1 s. batch: the function takes a list of up to
        this many messages. rate_limit: messages that start per second in this worker process; the
        others stay ready, for other workers too. executor: "loop", "thread" or "process"; by default, an async function
        runs on the loop and any other in a thread. keep_results: how long to store the function's
        result. group, partition: the consumer group to read as, and the only partition to read.
        """

        def decorate(function: F) -> F:
            self._handlers.append(
                Handler(
                    queue=queue,
                    function=function,
                    concurrency=concurrency,
                    timeout=timeout,
                    retry=retry,
                    lock_time=lock_time,
                    prefetch=prefetch,
                    batch=batch,
                    rate_limit=rate_limit,
                    executor=choose_executor(function, executor),
                    keep_results=keep_results,
                    group=group,
                    partition=partition,
                )
            )
            return function

        return decorate

    def schedule(
        self,
        name: str,
        expression: str,
        *,
        queue: str,
        payload: Any = None,
        timezone: str = "UTC",
        priority: int = 0,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> None:
        """Enqueue a message at the times of a cron expression, once however many workers run.

        expression: five fields, or six with seconds first. payload None: the name and the time.
        """
        with settings_of(f"schedule {name!r}"):
            check_text(expression, "expression")
            check_text(timezone, "timezone")
        schedule = Schedule(
            name=name,
            cron=Cron(expression, timezone),
            queue=queue,
            payload=payload,
            priority=priority,
            partition=partition,
            headers=headers,
        )
        if name in self._schedules:
            raise InvalidSetting(f"schedule {name!r} already exists: use another name")
        self._schedules[name] = schedule

    def cron(
        self, expression: str, *, queue: str, timezone: str = "UTC", **options: Any
    ) -> Callable[[F], F]:
        """Register a function as periodic job, named after the function; options: see `handler`."""

        def decorate(function: F) -> F:
            name = function.__name__
            self.schedule(name, expression, queue=queue, timezone=timezone, partition=name)
            return self.handler(queue, partition=name, **options)(function)

        return decorate

    def workflow(
        self,
        *,
        name: str | None = None,
        queue: str = "workflows",
        concurrency: int = 10,
        lock_time: timedelta | None = None,
    ) -> Callable[[F], F]:
        """Register an async function as workflow; `Connection.start` starts runs of it.

        Code between steps runs again each time a run continues, so it must be deterministic.
        """

        def decorate(function: F) -> F:
            if not inspect.iscoroutinefunction(function):
                raise InvalidSetting(
                    f"workflow {name_of(function)} is not asynchronous: define it with async def"
                )
            label = name or function.__name__
            if label in self._workflows:
                raise InvalidSetting(f"workflow {label!r} already exists: use another name")
            workflow = self._workflows[label] = Workflow(label, queue, function)

            async def advance(message: Message) -> None:
                await drive(workflow, self.connection.backend, message)

            self._handlers.append(
                Handler(
                    queue=queue,
                    function=advance,
                    concurrency=concurrency,
                    retry=BEGIN_AGAIN,
                    lock_time=lock_time,
                    partition=label,
                )
            )
            return function

        return decorate

    def middleware(self, function: Middleware) -> Middleware:
        """Call `function(message, proceed)` around every handler; it must await `proceed(message)`.

        The middleware registered first is the outermost. With batch handlers, it gets the list of
        messages.
        """
        if not callable(function):
            raise InvalidSetting(
                f"middleware {function!r} is not callable: use an async def with the parameters message"
                " and proceed"
            )
        self._middlewares.append(function)
        return function

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """The registered handlers, those of workflows included."""
        return tuple(self._handlers)

    @property
    def middlewares(self) -> list[Middleware]:
        """The registered middlewares, the outermost first."""
        return list(self._middlewares)

    @contextmanager
    def bind(self, target: Target, backend: Backend) -> Iterator[None]:
        """Make a connection on this backend the app's `connection`, in the enclosed code."""
        connection = Connection(target, backend)
        self._connections.append(connection)
        before = _own_connection.set(connection)
        try:
            yield
        finally:
            _own_connection.reset(before)
            self._connections.remove(connection)

    @property
    def connection(self) -> Connection:
        """The running worker's connection, for use in handlers. Do not close it.

        Outside of async handlers, the connection of the worker that started last.
        """
        own = _own_connection.get()
        if own is not None and own in self._connections:
            return own
        if not self._connections:
            raise InvalidSetting("the app is not running: open a connection with App.connect")
        return self._connections[-1]

    @property
    def lane(self) -> Connection:
        """Former name of `connection`."""
        return self.connection

    def connect(self, address: str | None = None) -> Connection:
        """Return a connection to the app's database or server; use it in an `async with` statement."""
        return Connection(self._find_target(address))

    def worker(self, *, address: str | None = None, name: str | None = None) -> Worker:
        """Return a worker of this app, ready to run."""
        if not self._handlers and not self._schedules:
            raise InvalidSetting(
                "the app has no handler, schedule or workflow: import the modules that register them"
            )
        target = self._find_target(address)
        for schedule in self._schedules.values():
            require_level(schedule.priority, target.priority_levels)
        return Worker(
            target,
            Duties(
                handlers=self.handlers,
                schedules=tuple(self._schedules.values()),
                middlewares=self.middlewares,
                durable_queues=list(dict.fromkeys(item.queue for item in self._workflows.values())),
                bind=partial(self.bind, target),
            ),
            name=name or self.name,
            settings=self._worker_settings,
        )

    async def work(self, *, address: str | None = None, name: str | None = None) -> None:
        """Run a worker until SIGTERM or Ctrl-C, then drain; a second signal ends it at once."""
        worker = self.worker(address=address, name=name)
        if threading.current_thread() is not threading.main_thread():
            raise InvalidRequest(
                "App.work handles signals and runs in the main thread only: elsewhere, await "
                "App.worker().run(), and call the worker's stop on its event loop"
            )
        with stopped_by_signals(worker.stop):
            await worker.run()

    def run(self, *, address: str | None = None, name: str | None = None) -> None:
        """Run a worker on a new event loop, until SIGTERM or Ctrl-C."""
        run_program(partial(self.work, address=address, name=name))

    def complete(
        self,
        *,
        api_key: str | None = None,
        pooled: bool = False,
        direct_dsn: str | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        """Set those options of the connection that the app's code left out."""
        given = {
            "api_key": api_key,
            "pooled": pooled,
            "direct_dsn": direct_dsn,
            "settings": settings,
        }
        self._options |= {name: value for name, value in given.items() if not self._options[name]}

    def _find_target(self, address: str | None) -> Target:
        chosen = address or self.address
        if chosen is None:
            raise InvalidSetting(
                "the app has no address: pass one to App, or to run, work or connect"
            )
        options = {name: value for name, value in self._options.items() if value is not None}
        return Target(address=chosen, **options)
