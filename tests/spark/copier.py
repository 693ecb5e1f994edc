"""Copies the queue "in" to the queue "out" by a stream; also a program, to be killed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from laneway.lake.session import open_session

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
    local = {"spark.driver.memory": "512m", "spark.driver.host": "127.0.0.1"}
    copy_stream(open_session("local[1]", settings=local), sys.argv[1], sys.argv[2])
