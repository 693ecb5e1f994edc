"""Translate Java exceptions from Spark to our errors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from laneway.lake import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laneway.domain.errors import LanewayError

# An error raised in our tasks or plans arrives as the text of its traceback.
_OURS = re.compile(r"^(?:.* )?laneway\.lake\.errors\.(\w+): (.+)$", re.MULTILINE)
_CORRUPT = re.compile(r"FAILED_READ_FILE[^\n]*? reading file file:/*(\S+?)\.?\s")
_CALL = re.compile(r"^An error occurred while calling [^\n]*\n: ")


@contextmanager
def translating_spark() -> Iterator[None]:
    """Translate Spark's errors; usable as a decorator. Our own errors pass unchanged."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translate(str(error)) from error


def translate(text: str) -> LanewayError:
    """Return our error for the text of a Spark error."""
    ours = _OURS.findall(text)
    if ours:
        # The last error is the one that was raised; the others caused it.
        name, message = ours[-1]
        kind = getattr(errors, name, errors.SparkFailed)
        return kind(message.removeprefix("the database failed: "))
    corrupt = _CORRUPT.search(text)
    if corrupt is not None:
        return errors.LakeBroken(f"the lake's file /{unquote(corrupt[1])} is corrupt. Restore it")
    return errors.SparkFailed(f"Spark failed: {shorten(text)}")


def shorten(text: str) -> str:
    """Return the line of Spark's message that names the problem."""
    return _CALL.sub("", text.strip()).split("\n", 1)[0].strip()
