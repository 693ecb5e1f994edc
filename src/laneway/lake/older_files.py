"""Reads the files of messages that earlier versions landed, whose headers were a map of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import MapType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The form that files have now, and that of files whose record does not say.
FORM = 2
EARLIEST = 1

_HEADERS = "headers"
_MAP = MapType(StringType(), StringType())
_NESTED = r"^[\[{]"


def find_schema(schema: StructType, form: int) -> StructType:
    """Return what a file of that form has in it."""
    if form == FORM:
        return schema
    return StructType(
        [
            StructField(field.name, _MAP if field.name == _HEADERS else field.dataType)
            for field in schema.fields
        ]
    )


def bring_up(frame: DataFrame, form: int) -> DataFrame:
    """Return the rows of a file as they would be now, as far as that can be told."""
    if form == FORM or _HEADERS not in frame.columns:
        return frame
    return frame.withColumn(_HEADERS, _write_headers(F.col(_HEADERS)))


def _write_headers(headers: Column) -> Column:
    """Return JSON: nested values, true and false are restored, numbers remain strings."""
    entries = F.transform(
        F.map_entries(headers),
        lambda each: F.concat(_quote(each["key"]), F.lit(":"), _write_value(each["value"])),
    )
    text = F.concat(F.lit("{"), F.array_join(entries, ","), F.lit("}"))
    return F.when(headers.isNotNull(), text)


def _write_value(value: Column) -> Column:
    nested = value.rlike(_NESTED) & F.get_json_object(value, "$").isNotNull()
    return (
        F.when(value.isNull(), F.lit("null"))
        .when(nested | value.isin("true", "false"), value)
        .otherwise(_quote(value))
    )


def _quote(text: Column) -> Column:
    """Return a string of JSON: Spark writes one only in an array or an object."""
    array = F.to_json(F.array(text))
    return array.substr(F.lit(2), F.length(array) - 2)
