"""The error tree in the docstring matches the classes."""

from __future__ import annotations

import pickle
import re
from datetime import timedelta

from laneway.domain import errors
from laneway.domain.errors import (
    GroupNotFound,
    InvalidRequest,
    LanewayError,
    Overloaded,
    QueueNotFound,
    Retryable,
)


def test_docstring_has_the_whole_error_tree() -> None:
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    assert drawn == [kind.__name__ for kind in walk(LanewayError)]


def test_copied_error_keeps_its_message() -> None:
    error = Overloaded("full", retry_after=timedelta(seconds=3))
    copy = error.copy()
    assert copy is not error
    assert (type(copy), str(copy), copy.retry_after) == (Overloaded, "full", timedelta(seconds=3))


def test_pickled_error_keeps_its_data() -> None:
    again = pickle.loads(pickle.dumps(GroupNotFound(group="readers", queue="mails")))  # noqa: S301 - ours
    assert isinstance(again, GroupNotFound)
    assert (again.group, again.queue) == ("readers", "mails")
    assert str(again) == (
        'group "readers" of queue "mails" not found. Create it with: laneway group create mails readers'
    )


def test_text_is_made_of_the_data() -> None:
    assert str(QueueNotFound(queue="mails")) == (
        'queue "mails" not found. Create it with: laneway queue create mails'
    )
    assert str(QueueNotFound(queue="a b; c")).endswith("laneway queue create 'a b; c'")
    assert str(QueueNotFound()).startswith("queue not found: it was deleted during the call")
    assert str(GroupNotFound(group=7)).startswith("group 7 not found: it was deleted")


def test_no_error_is_both_retryable_and_the_callers_fault() -> None:
    assert not set(walk(Retryable)) & set(walk(InvalidRequest))


def walk(kind: type[LanewayError]) -> list[type[LanewayError]]:
    found = []
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            found += [child, *walk(child)]
    return found
