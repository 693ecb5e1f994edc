"""Counts messages and events, and streams all queues into Parquet: `python tour.py "$(laneway url)"`."""

from __future__ import annotations

import sys
import tempfile

from laneway.lake.lag import measure_lag
from laneway.lake.session import open_session

dsn = sys.argv[1]
spark = open_session("local[2]")

messages = spark.read.format("laneway").option("dsn", dsn).load()
messages.groupBy("queue", "partition").count().show()

events = spark.read.format("laneway").options(dsn=dsn, table="events").load()
events.groupBy("queue", "kind").count().show()

with tempfile.TemporaryDirectory() as folder:
    query = (
        spark.readStream.format("laneway")
        .options(dsn=dsn, maxMessagesPerTrigger=100_000)
        .load()
        .writeStream.format("parquet")
        .option("path", f"{folder}/data")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    if query.lastProgress is not None:
        print("unread messages:", measure_lag(query.lastProgress))
    print("landed:", spark.read.parquet(f"{folder}/data").count())

spark.stop()
