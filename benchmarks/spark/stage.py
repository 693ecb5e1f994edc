"""The Spark session that the rows of a run share, and a function that fills a log."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from laneway.lake.session import open_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.engine.site import Connection, Site
    from benchmarks.spark.scale import Scale

BODY = json.dumps({"n": 0, "text": "x" * 179})
_LANES = 8
_AT_ONCE = 1000
_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """thread: the one that started Spark. Spark finds a sink by its name only in that thread."""

    site: Site
    spark: SparkSession
    scale: Scale
    folder: Path
    thread: ThreadPoolExecutor

    async def measure_time(self, work: Callable[[], object]) -> float:
        """Return the seconds that work with Spark takes, without blocking the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, _measure_time, work)

    def read(self, dsn: str, **options: str) -> DataFrame:
        return self.spark.read.format("laneway").options(dsn=dsn, **options).load()


@asynccontextmanager
async def open_stage(site: Site, scale: Scale) -> AsyncIterator[Stage]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = Path(tempfile.mkdtemp(prefix="laneway-benchmark-lake-"))
    with ThreadPoolExecutor(1) as thread:
        spark = thread.submit(open_session, "local[2]", settings=_SETTINGS).result()
        try:
            spark.sparkContext.setLogLevel("ERROR")
            yield Stage(site, spark, scale, folder, thread)
        finally:
            # A signal to the process group may have ended Java already.
            with suppress(OSError, Py4JError):
                spark.stop()
            shutil.rmtree(folder)


async def fill(connection: Connection, messages: int, queue: str = "in") -> None:
    """Push messages of 200 bytes to eight partitions."""
    number = await connection.fetchval("select laneway.create_queue($1)", queue)
    for done in range(0, messages, _AT_ONCE):
        await connection.execute(
            "select laneway.push_many(array[$1::int], array_fill($2::json, array[$3::int]), array[$4::text])",
            number,
            BODY,
            min(_AT_ONCE, messages - done),
            f"lane-{done // _AT_ONCE % _LANES}",
        )
    await connection.execute("vacuum analyze laneway.message")


def _measure_time(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
