"""Errors of Spark's tasks are the same error in the program, read from the text of Java's."""

from __future__ import annotations

import traceback

import pytest

pytest.importorskip("pyspark")

from laneway.lake import errors
from laneway.lake.translation import translate


@pytest.mark.parametrize(
    "error",
    [
        errors.QueueMissing('no queue "a\\b"\nand another line'),
        errors.DatabaseFailed("away", sqlstate="57P01", detail="two\nlines"),
        errors.WriteRefused("row 1 {x} <y>"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_in_a_traceback_is_raised_as_it_was(error: errors.LakeError) -> None:
    again = translate(f"org.apache.Boom: task failed\n{trace(error)}\n\tat java.Thread.run")
    assert type(again) is type(error)
    assert str(again) == str(error)
    details = {name: value for name, value in vars(error).items() if name != "__notes__"}
    assert vars(again) == details


def test_last_of_several_errors_is_the_one_that_was_raised() -> None:
    error = errors.WriteRefused("the row")
    error.__cause__ = errors.DatabaseFailed("the cause")
    assert type(translate(trace(error))) is errors.WriteRefused


def test_other_text_is_a_failure_of_spark() -> None:
    assert str(translate("org.apache.Boom: no\nat x")) == "Spark failed: org.apache.Boom: no"


def trace(error: Exception) -> str:
    try:
        raise error
    except errors.LakeError as raised:
        return "".join(traceback.format_exception(raised))
