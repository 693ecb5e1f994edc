"""Read message files of earlier versions, whose headers are a map of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import MapType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The current file format, and the format of files whose record names none.
FORM = 2
EARLIEST = 1

_HEADERS = "headers"
_MAP = MapType(StringType(), StringType())
_NESTED = r"^[\[{]"


def find_schema(schema: StructType, form: int) -> StructType:
    """Return the columns of files in that format."""
    if form == FORM:
        return schema
    return StructType(
        [
            StructField(field.name, _MAP if field.name == _HEADERS else field.dataType)
            for field in schema.fields
        ]
    )


def bring_up(frame: DataFrame, form: int) -> DataFrame:
    """Convert the rows of a file to the current format, as far as possible."""
    if form == FORM or _HEADERS not in frame.columns:
        return frame
    return frame.withColumn(_HEADERS, _write_headers(F.col(_HEADERS)))


def _write_headers(headers: Column) -> Column:
    """Return headers as JSON: nested values, true and false are restored; numbers remain strings."""
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
    """Return a JSON string. Spark writes one only inside an array or object."""
    array = F.to_json(F.array(text))
    return array.substr(F.lit(2), F.length(array) - 2)
