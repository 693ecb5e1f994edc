"""One Spark for all these tests, beside the one PostgreSQL that all tests share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from laneway.lake.session import open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = open_session("local[2]", settings=SMALL)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
