"""Filters that Spark pushes down: decided for a whole lane, or put into the statement."""

from __future__ import annotations

import operator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from laneway.lake.database import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.datasource import Filter

_COMPARISONS: dict[type[Filter], tuple[str, Callable[[Any, Any], bool]]] = {
    EqualTo: ("=", operator.eq),
    EqualNullSafe: ("is not distinct from", operator.eq),
    GreaterThan: (">", operator.gt),
    GreaterThanOrEqual: (">=", operator.ge),
    LessThan: ("<", operator.lt),
    LessThanOrEqual: ("<=", operator.le),
}
_PATTERNS: dict[type[Filter], tuple[str, Callable[[str, str], bool]]] = {
    StringStartsWith: ("{}%", str.startswith),
    StringEndsWith: ("%{}", str.endswith),
    StringContains: ("%{}%", operator.contains),
}


def name_column(condition: Filter) -> str | None:
    """Return the column it is about, where it is one of ours and not a part of one."""
    if isinstance(condition, Not):
        return name_column(condition.child)
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    return path[0] if len(path) == 1 else None


def write_condition(condition: Filter, expressions: Mapping[str, str]) -> str | None:
    """Return it in SQL, meaning exactly what it means in Spark; None where that cannot be."""
    if isinstance(condition, Not):
        inner = write_condition(condition.child, expressions)
        return None if inner is None else f"not ({inner})"
    expression = expressions.get(name_column(condition) or "")
    test = _write_test(condition)
    return None if expression is None or test is None else f"{expression} {test}"


def decide(condition: Filter, values: Mapping[str, Any]) -> bool:
    """Tell whether it holds for a whole lane, whose `values` are never null."""
    if isinstance(condition, Not):
        return not decide(condition.child, values)
    actual = values[name_column(condition) or ""]
    match condition:
        case IsNull() | IsNotNull():
            return isinstance(condition, IsNotNull)
        case In(value=many):
            return actual in many
        case _:
            _, compare = {**_COMPARISONS, **_PATTERNS}[type(condition)]
            return compare(actual, getattr(condition, "value", None))


def _write_test(condition: Filter) -> str | None:
    value = getattr(condition, "value", None)
    if isinstance(condition, IsNull | IsNotNull):
        return "is null" if isinstance(condition, IsNull) else "is not null"
    if isinstance(condition, In):
        written = [_write_value(each) for each in condition.value]
        texts = [text for text in written if text is not None]
        return f"in ({', '.join(texts)})" if texts and len(texts) == len(written) else None
    if type(condition) in _PATTERNS:
        if not isinstance(value, str) or "\0" in value:
            return None
        escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"like {quote(_PATTERNS[type(condition)][0].format(escaped))}"
    text = _write_value(value)
    sign = _COMPARISONS.get(type(condition))
    return None if text is None or sign is None else f"{sign[0]} {text}"


def _write_value(value: Any) -> str | None:
    match value:
        case bool():
            return None
        case int():
            return str(value)
        case str() if "\0" not in value:
            # Spark compares strings by their bytes, and so does this collation.
            return f'{quote(value)} collate "C"'
        case datetime():
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return f"{quote(moment.isoformat())}::timestamptz"
        case _:
            return None
