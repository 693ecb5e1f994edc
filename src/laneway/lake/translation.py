"""Translate Java exceptions from Spark to our errors."""

from __future__ import annotations

import json
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

_decode = json.JSONDecoder().raw_decode
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
    # The last of our errors is the one that was raised; the others caused it.
    at = text.rfind(errors.NOTE)
    if at >= 0:
        return restore(text[at + len(errors.NOTE) :])
    corrupt = _CORRUPT.search(text)
    if corrupt is not None:
        return errors.LakeBroken(f"the lake's file /{unquote(corrupt[1])} is corrupt. Restore it")
    return errors.SparkFailed(f"Spark failed: {shorten(text)}")


def restore(note: str) -> LanewayError:
    """Return the error whose note this text begins with; see `errors.LakeError`."""
    (name, text, details), _ = _decode(note)
    kind: type[LanewayError] = getattr(errors, name, errors.SparkFailed)
    # Without __init__, which takes other arguments.
    error = kind.__new__(kind, text)
    vars(error).update(details)
    return error


def shorten(text: str) -> str:
    """Return the line of Spark's message that names the problem."""
    return _CALL.sub("", text.strip()).split("\n", 1)[0].strip()
