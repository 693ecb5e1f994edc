"""Handlers: a function for the messages of one queue, with its settings and middlewares."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from laneway.domain.errors import InvalidSetting
from laneway.domain.queues import DEFAULT_GROUP
from laneway.library.arguments import (
    check_least,
    check_optional_duration,
    check_optional_text,
    check_optional_time,
    check_text,
    settings_of,
)
from laneway.library.rate_limit import RateLimit
from laneway.worker.policies import Retry

if TYPE_CHECKING:
    from laneway.library.messages import Message

# Where a handler runs: on the event loop, in a thread, or in a separate process.
Executor: TypeAlias = Literal["loop", "thread", "process"]

# One message, or a list of messages for a batch handler.
Work: TypeAlias = "Message | list[Message]"

Proceed: TypeAlias = Callable[[Any], Awaitable[Any]]
Middleware: TypeAlias = Callable[[Any, Proceed], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function and how it handles a queue's messages; `App.handler` explains the settings."""

    queue: str
    function: Callable[..., Any]
    concurrency: int = 10
    timeout: timedelta | None = None
    retry: Retry | None = None
    lock_time: timedelta | None = None
    prefetch: int | None = None
    batch: int | None = None
    rate_limit: RateLimit | None = None
    executor: Executor = "loop"
    keep_results: timedelta | None = None
    group: str = DEFAULT_GROUP
    partition: str | None = None

    def __post_init__(self) -> None:
        name = name_of(self.function)
        if not callable(self.function):
            raise InvalidSetting(f"handler {name} is not callable: decorate a function")
        with settings_of(f"handler {name}"):
            self._check_kinds()
        if self.executor not in get_args(Executor):
            raise InvalidSetting(
                f"handler {name}: executor is {self.executor!r}: use one of "
                + ", ".join(get_args(Executor))
            )
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise InvalidSetting(f"handler {name}: retry is {self.retry!r}: use a laneway.Retry")
        self._check_rate_limit(name)
        if _is_kind(self.function, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
            raise InvalidSetting(
                f"handler {name} is a generator, so calling it runs nothing: return instead of yield"
            )
        if self.executor == "loop" and not _is_asynchronous(self.function):
            raise InvalidSetting(
                f'handler {name} is not asynchronous: use executor="thread", or define it with async def'
            )
        if self.executor != "loop" and _is_asynchronous(self.function):
            raise InvalidSetting(
                f'handler {name} is asynchronous and runs on the event loop only: use executor="loop"'
            )
        if self.batch is not None and self.keep_results is not None:
            raise InvalidSetting(
                f"handler {name}: keep_results cannot be combined with batch: a batch has no result per"
                " message"
            )

    def _check_rate_limit(self, name: str) -> None:
        if self.rate_limit is None:
            return
        if not isinstance(self.rate_limit, RateLimit):
            raise InvalidSetting(
                f"handler {name}: rate_limit is {self.rate_limit!r}: use a laneway.RateLimit"
            )
        if self.prefetch:
            raise InvalidSetting(
                f"handler {name}: prefetch cannot be combined with rate_limit: a message is claimed only"
                " when the limit lets it start"
            )
        object.__setattr__(self, "prefetch", 0)

    def _check_kinds(self) -> None:
        check_text(self.queue, "queue name")
        check_text(self.group, "group")
        check_optional_text(self.partition, "partition")
        check_least(self.concurrency, "concurrency", 1)
        if self.batch is not None:
            check_least(self.batch, "batch", 1)
        if self.prefetch is not None:
            check_least(self.prefetch, "prefetch", 0)
        for setting in ("timeout", "lock_time", "keep_results"):
            check = check_optional_duration if setting == "timeout" else check_optional_time
            length = check(getattr(self, setting), setting)
            if length is not None and length <= timedelta(0):
                raise InvalidSetting(f"{setting} is {length}: set more than zero")


def name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))


def choose_executor(function: Callable[..., Any], executor: Executor | None) -> Executor:
    if executor is not None:
        return executor
    return "loop" if _is_asynchronous(function) else "thread"


async def finish(result: Any) -> Any:
    """Return a handler's result; await it first if the handler returned an awaitable."""
    if inspect.isawaitable(result):
        return await result
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError("the handler returned a generator, whose code has not run")
    return result


def wrap(call: Proceed, middlewares: list[Middleware]) -> Proceed:
    """Wrap the call in the middlewares, the first outermost."""
    for middleware in reversed(middlewares):
        call = _surround(middleware, call)
    return call


def _surround(middleware: Middleware, inner: Proceed) -> Proceed:
    def proceed(work: Work) -> Awaitable[Any]:
        return middleware(work, inner)

    return proceed


def _is_asynchronous(function: Callable[..., Any]) -> bool:
    return _is_kind(function, inspect.iscoroutinefunction)


def _is_kind(function: Callable[..., Any], *tests: Callable[[Any], bool]) -> bool:
    """Return whether a function, or a callable object's `__call__`, passes one of the tests."""
    return any(test(function) or test(type(function).__call__) for test in tests)
