"""Branches of a run: the tasks made in it, told apart alike however often it goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from typing import TypeAlias

    from laneway.worker.progress import Progress

    # Of a coroutine: the name of the step that it calls, if it is such a call.
    LabelOf: TypeAlias = Callable[[Any], str | None]

# Where code runs: in a branch of a run, or within one of its steps.
place: ContextVar[Branch | Within] = ContextVar("laneway workflow")


class Within:
    """What is within a step of a run."""

    __slots__ = ("progress",)

    def __init__(self, progress: Progress) -> None:
        self.progress = progress


class Branch:
    """A run's function, or a task made in it: what counts calls of steps.

    Tasks are counted by the names of their functions, in the order in which the branch makes them
    and not that of their first steps, which is another where finished steps return at once. So those
    that a library makes now and then do not change what others are called. parent: the branch that
    made it; making: the coroutine of the task that is being made; stepping: its task is in a step.
    """

    __slots__ = (
        "_calls",
        "_first",
        "_forks",
        "_path",
        "making",
        "parent",
        "progress",
        "stepping",
        "task",
    )

    def __init__(
        self, progress: Progress, *, parent: Branch | None = None, making: Any = None
    ) -> None:
        self.progress = progress
        self.parent = parent
        self.making = making
        self.task: ref[asyncio.Task[Any]] | None = None
        self.stepping = False
        self._path = ""
        self._first: str | None = None
        self._calls: Counter[str] = Counter()
        self._forks: Counter[str] = Counter()

    def number(self, label: str) -> str:
        """Return the key of the next call of a step."""
        if self._first is not None:
            key, self._first = self._first, None
            return key
        self._calls[label] += 1
        return f"{self._path}{label}#{self._calls[label]}"

    def fork(self, coroutine: Any, label: str | None) -> Branch:
        """Return the branch of a task that runs the coroutine; label: it is the call of this step.

        Such a call is the maker's, as if it awaited the step itself.
        """
        self.making = coroutine
        child = Branch(self.progress, parent=self, making=coroutine)
        if label is not None:
            child._first = self.number(label)
        name = getattr(coroutine, "__name__", type(coroutine).__name__)
        self._forks[name] += 1
        child._path = f"{self._path}{name}#{self._forks[name]}/"
        return child


def find_place() -> Branch | Within | None:
    found = place.get(None)
    if found is None or (task := asyncio.current_task()) is None:
        return found
    # Several tasks may share one context: what is known of the task itself goes before.
    branch = found.progress.tasks.get(task)
    if branch is None:
        return found
    return Within(branch.progress) if branch.stepping else branch


@contextmanager
def within_step() -> Iterator[None]:
    """Have what is called be part of a step: steps and timers are plain functions in it."""
    found = find_place()
    if found is None:
        yield
        return
    # For the tasks that are made in it, and for this one.
    mark = place.set(Within(found.progress))
    if isinstance(found, Branch):
        found.stepping = True
    try:
        yield
    finally:
        if isinstance(found, Branch):
            found.stepping = False
        # A coroutine that is closed may be closed from anywhere.
        with suppress(ValueError):
            place.reset(mark)


@contextmanager
def within_run(progress: Progress, label_of: LabelOf) -> Iterator[Branch]:
    """Have what is called be a run's function, and the tasks made in it its branches."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    found = loop.get_task_factory()
    factory = found if isinstance(found, _Factory) else _Factory(found, label_of)
    loop.set_task_factory(factory)
    factory.runs += 1
    root = Branch(progress)
    if task is not None:
        progress.tasks[task] = root
    mark = place.set(root)
    try:
        yield root
    finally:
        with suppress(ValueError):
            place.reset(mark)
        factory.runs -= 1
        if not factory.runs and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.make)


class _Factory:
    """Makes a loop's tasks as before, and those of runs known to them; set while there are runs."""

    def __init__(self, make: Any, label_of: LabelOf) -> None:
        self.make = make
        self.runs = 0
        self._label_of = label_of

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> asyncio.Future[Any]:
        context = options.get("context")
        branch = find_place()
        if context is not None and not isinstance(branch, Branch):
            branch = context.get(place)
        elif context is not None and context.get(place) is None:
            branch = None
        # One that is set upon another of its kind gets each task twice.
        if not isinstance(branch, Branch) or branch.making is coroutine:
            return self._make(loop, coroutine, options)
        child = branch.fork(coroutine, self._label_of(coroutine))
        if context is None:
            # The task copies the context. An eager one begins before it is known to be a task.
            mark = place.set(child)
            try:
                task = self._make(loop, coroutine, options)
            finally:
                place.reset(mark)
        else:
            task = self._make(loop, coroutine, options)
        if isinstance(task, asyncio.Task):
            child.task = ref(task)
            branch.progress.tasks[task] = child
        return task

    def _make(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, options: dict[str, Any]
    ) -> asyncio.Future[Any]:
        if self.make is None:
            return asyncio.Task(coroutine, loop=loop, **options)
        made: asyncio.Future[Any] = self.make(loop, coroutine, **options)
        return made


def forgive(error_of: Branch) -> None:
    """Have nobody complain of what a branch and those it was made in end with."""
    branch: Branch | None = error_of
    while branch is not None:
        if branch.task is not None and (task := branch.task()) is not None:
            task.add_done_callback(_look_at_error)
        branch = branch.parent


def waits_for_tasks(task: asyncio.Task[Any], tasks: Container[Any]) -> bool:
    """Tell whether a task waits for nothing but some of these tasks, as far as can be seen."""
    waiter = getattr(task, "_fut_waiter", None)
    if waiter is None or waiter.done():
        return False
    if isinstance(waiter, asyncio.Task):
        return waiter in tasks
    if (gathered := getattr(waiter, "_children", None)) is not None:
        return all(child in tasks for child in gathered)
    return _waits_in_asyncio(task, tasks)


def _look_at_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _waits_in_asyncio(task: asyncio.Task[Any], tasks: Container[Any]) -> bool:
    """Tell whether a task is in the middle of a function of asyncio's that waits for tasks."""
    frame, inner = None, task.get_coro()
    while (deeper := getattr(inner, "cr_await", None)) is not None:
        frame, inner = getattr(inner, "cr_frame", None), deeper
    if frame is None:
        return False
    match frame.f_globals.get("__name__"), frame.f_code.co_name:
        case "asyncio.taskgroups", _:
            return True
        case "asyncio.tasks", "_wait":
            seen = frame.f_locals
            return seen["timeout"] is None and all(item in tasks for item in seen["fs"])
        case _:
            return False
