"""Copies urgent messages from one queue to another, once: `python route.py DSN FROM TO RUN_ID`."""

from __future__ import annotations

import sys

from laneway.lake.session import open_session

dsn, source, target, run_id = sys.argv[1:]
spark = open_session("local[2]")
(
    spark.read.format("laneway")
    .options(dsn=dsn, queue=source, priority="1-32767")
    .load()
    .select("partition", "priority", "headers", "body")
    .write.format("laneway")
    .mode("append")
    .options(dsn=dsn, queue=target, runId=run_id)
    .save()
)
spark.stop()
