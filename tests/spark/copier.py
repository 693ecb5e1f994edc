"""Copy the queue "in" to the queue "out" by a stream; also a program that a test kills."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from laneway.lake.session import open_session
from tests.spark.conftest import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def copy_stream(spark: SparkSession, dsn: str, folder: str) -> None:
    frame = spark.readStream.format("laneway").options(dsn=dsn, queue="in").load()
    query = (
        frame.select("body")
        .writeStream.format("laneway")
        .options(dsn=dsn, queue="out", checkpointLocation=f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    spark = open_session("local[1]", settings=SMALL | {"spark.driver.memory": "512m"})
    copy_stream(spark, sys.argv[1], sys.argv[2])
