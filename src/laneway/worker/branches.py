"""Branches of a workflow run: which task made a step call, and the step's key.

A run's tasks are registered when they are created, by a task factory that is set on the event loop
while runs execute on it. So `asyncio.gather`, `TaskGroup` and `create_task` all make branches.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Context

    from laneway.worker.progress import Progress

# Marks the code of step functions; see `mark_step`.
_STEP_CALL = "<laneway step>"

# The branch or step that the current code belongs to.
place: ContextVar[Branch | StepScope] = ContextVar("laneway workflow")


class StepScope:
    """Code inside a step of a run."""

    __slots__ = ("progress",)

    def __init__(self, progress: Progress) -> None:
        self.progress = progress


class Branch:
    """A run's function or a task created in it; counts step calls.

    Child tasks are counted by the names of their functions, in creation order. The order of their
    first steps would not do: it differs on replay, where finished steps return at once. Counting by
    name lets a library create tasks now and then without renaming the other branches.

    parent: the branch that created this one. creating: the coroutine of the task that this branch
    is being created for, or is creating. in_step: whether its task is executing a step.
    """

    __slots__ = (
        "_calls",
        "_children",
        "_first_key",
        "_path",
        "creating",
        "in_step",
        "parent",
        "progress",
        "task",
    )

    def __init__(
        self,
        progress: Progress,
        *,
        parent: Branch | None = None,
        creating: Any = None,
        path: str = "",
        first_key: str | None = None,
    ) -> None:
        self.progress = progress
        self.parent = parent
        self.creating = creating
        self.task: ref[asyncio.Task[Any]] | None = None
        self.in_step = False
        self._path = path
        self._first_key = first_key
        self._calls: Counter[str] = Counter()
        self._children: Counter[str] = Counter()

    def next_key(self, label: str) -> str:
        """Return the key of this branch's next call of the step."""
        if self._first_key is not None:
            key, self._first_key = self._first_key, None
            return key
        self._calls[label] += 1
        return f"{self._path}{label}#{self._calls[label]}"

    def create_child(self, coroutine: Any) -> Branch:
        """Return the branch of a new task that runs the coroutine.

        If the coroutine is itself a step call, the call is counted here, as if this branch had
        awaited it.
        """
        self.creating = coroutine
        label = _label_of(coroutine)
        first_key = None if label is None else self.next_key(label)
        name = getattr(coroutine, "__name__", type(coroutine).__name__)
        self._children[name] += 1
        return Branch(
            self.progress,
            parent=self,
            creating=coroutine,
            path=f"{self._path}{name}#{self._children[name]}/",
            first_key=first_key,
        )


def mark_step(function: Any, label: str) -> None:
    """Mark a function's coroutines as calls of the step `label`.

    A coroutine refers to its function's code and to nothing else of the function. So the mark is in
    the code's names.
    """
    function.__code__ = function.__code__.replace(co_name=label, co_qualname=_STEP_CALL)


def is_step(function: Any) -> bool:
    """Return whether a function is a step."""
    return getattr(getattr(function, "__code__", None), "co_qualname", None) == _STEP_CALL


def _label_of(coroutine: Any) -> str | None:
    """Return the name of the step that the coroutine is a call of, if it is one."""
    code = getattr(coroutine, "cr_code", None)
    if code is None or code.co_qualname != _STEP_CALL:
        return None
    label: str = code.co_name
    return label


def find_place() -> Branch | StepScope | None:
    """Return the branch or step that the calling code belongs to; None outside of runs."""
    found = place.get(None)
    if found is None or (task := asyncio.current_task()) is None:
        return found
    # Several tasks may share one context, so the task's own branch takes precedence.
    branch = found.progress.tasks.get(task)
    if branch is None:
        return found
    return StepScope(branch.progress) if branch.in_step else branch


@contextmanager
def within_step() -> Iterator[None]:
    """Make the enclosed code part of a step: steps and timers are plain functions in it."""
    found = find_place()
    if found is None:
        yield
        return
    # The context variable is for tasks created in the step, the flag for this task.
    reset = place.set(StepScope(found.progress))
    if isinstance(found, Branch):
        found.in_step = True
    try:
        yield
    finally:
        if isinstance(found, Branch):
            found.in_step = False
        # A coroutine may be closed in another context than the one it ran in.
        with suppress(ValueError):
            place.reset(reset)


@contextmanager
def within_run(progress: Progress) -> Iterator[Branch]:
    """Make the enclosed code a run's function, and the tasks created in it branches of the run."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    found = loop.get_task_factory()
    factory = found if isinstance(found, _TaskFactory) else _TaskFactory(found)
    loop.set_task_factory(factory)
    factory.runs += 1
    root = Branch(progress)
    if task is not None:
        progress.tasks[task] = root
    reset = place.set(root)
    try:
        yield root
    finally:
        with suppress(ValueError):
            place.reset(reset)
        factory.runs -= 1
        if not factory.runs and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.original)


class _TaskFactory:
    """Registers the tasks that runs create; makes all tasks with the loop's original factory."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self.runs = 0

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> asyncio.Future[Any]:
        context = options.get("context")
        branch = find_place()
        if context is not None and not isinstance(branch, Branch):
            branch = context.get(place)
        elif context is not None and context.get(place) is None:
            branch = None
        # Where two of these factories are stacked, each task arrives twice.
        if not isinstance(branch, Branch) or branch.creating is coroutine:
            return self._create(loop, coroutine, options)
        child = branch.create_child(coroutine)
        with _set_place(child, context):
            task = self._create(loop, coroutine, options)
        if isinstance(task, asyncio.Task):
            child.task = ref(task)
            branch.progress.tasks[task] = child
        return task

    def _create(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, options: dict[str, Any]
    ) -> asyncio.Future[Any]:
        if self.original is None:
            return asyncio.Task(coroutine, loop=loop, **options)
        created: asyncio.Future[Any] = self.original(loop, coroutine, **options)
        return created


@contextmanager
def _set_place(branch: Branch, context: Context | None) -> Iterator[None]:
    """Set the place that a task created in the enclosed code starts in.

    An eager task runs up to its first wait before it is registered. context: the task's own; None
    if it copies the current one.
    """
    run: Callable[..., Any] = (lambda call, value: call(value)) if context is None else context.run
    try:
        reset = run(place.set, branch)
    except RuntimeError:
        # Code is running in the context already, so no task can start eagerly in it.
        yield
        return
    try:
        yield
    finally:
        run(place.reset, reset)


def retrieve_errors(branch: Branch | None) -> None:
    """Retrieve the errors of a branch and its ancestors, so that asyncio does not log them."""
    while branch is not None:
        if branch.task is not None and (task := branch.task()) is not None:
            task.add_done_callback(_retrieve_error)
        branch = branch.parent


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
