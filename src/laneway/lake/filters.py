"""Filters that Spark pushes down: decided for a whole lane, or put into the statement."""

from __future__ import annotations

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
    from collections.abc import Mapping

    from pyspark.sql.datasource import Filter

_COMPARISONS: dict[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "is not distinct from",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_PATTERNS: dict[type[Filter], str] = {
    StringStartsWith: "{value}%",
    StringEndsWith: "%{value}",
    StringContains: "%{value}%",
}


def name_column(condition: Filter) -> str | None:
    """Return the column it is about, where it is one of ours and not a part of one."""
    if isinstance(condition, Not):
        return name_column(condition.child)
    path = getattr(condition, "attribute", ())
    return path[0] if len(path) == 1 else None


def write_condition(condition: Filter, expressions: Mapping[str, str]) -> str | None:
    """Return it in SQL, meaning exactly what it means in Spark; None where that cannot be."""
    if isinstance(condition, Not):
        inner = write_condition(condition.child, expressions)
        return None if inner is None else f"not ({inner})"
    column = name_column(condition)
    if column is None or column not in expressions:
        return None
    expression = expressions[column]
    match condition:
        case IsNull():
            return f"{expression} is null"
        case IsNotNull():
            return f"{expression} is not null"
        case In(value=values):
            written = [_write_value(value) for value in values]
            if not written or None in written:
                return None
            return f"{expression} in ({', '.join(str(value) for value in written)})"
        case StringStartsWith(value=text) | StringEndsWith(value=text) | StringContains(value=text):
            if "\0" in text:
                return None
            escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            return f"{expression} like {quote(_PATTERNS[type(condition)].format(value=escaped))}"
        case _:
            sign = _COMPARISONS.get(type(condition))
            value = _write_value(getattr(condition, "value", None))
            return None if sign is None or value is None else f"{expression} {sign} {value}"


def decide(condition: Filter, values: Mapping[str, Any]) -> bool | None:
    """Tell whether it holds for a whole lane, whose `values` are never null; None if it can't."""
    if isinstance(condition, Not):
        inner = decide(condition.child, values)
        return None if inner is None else not inner
    column = name_column(condition)
    if column is None or column not in values:
        return None
    actual = values[column]
    match condition:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            return bool(actual == value)
        case In(value=many):
            return actual in many
        case IsNull():
            return False
        case IsNotNull():
            return True
        case GreaterThan(value=value):
            return bool(actual > value)
        case GreaterThanOrEqual(value=value):
            return bool(actual >= value)
        case LessThan(value=value):
            return bool(actual < value)
        case LessThanOrEqual(value=value):
            return bool(actual <= value)
        case StringStartsWith(value=text):
            return str(actual).startswith(text)
        case StringEndsWith(value=text):
            return str(actual).endswith(text)
        case StringContains(value=text):
            return text in str(actual)
        case _:
            return None


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
