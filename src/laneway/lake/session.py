"""A Spark session that knows Laneway, and what to say where there cannot be one."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.lake.errors import SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkConf
    from pyspark.sql import SparkSession

# Filters reach PostgreSQL only where this is on; times are kept and compared in UTC; a queue called
# "7" is not a number; the lake's files are known and need no listing by tasks.
SETTINGS = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}
_NICEST = 19


def open_session(
    master: str = "local[*]",
    *,
    java_home: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or take the session that this process has; stop it when done.

    A Spark on this machine gives way to all else here: it takes the processors that nobody wants.
    """
    check_java(java_home)
    try:
        from pyspark import SparkConf  # noqa: PLC0415 - may be missing
        from pyspark.errors import PySparkException, PySparkRuntimeError  # noqa: PLC0415 - see above
        from pyspark.sql import SparkSession  # noqa: PLC0415 - see above
    except ImportError as error:
        raise SparkUnavailable(
            f"Spark is not installed ({error}): run pip install 'laneway[spark]'"
        ) from error
    conf = SparkConf().setMaster(master).setAppName("laneway")
    conf.setAll(list({**SETTINGS, **(settings or {})}.items()))
    try:
        if master.startswith("local"):
            # Its workers run here, so with the packages of this Python and not of the first on the path.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            _start_here(conf)
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except (PySparkException, PySparkRuntimeError) as error:
        raise SparkUnavailable(f"Spark does not start on {master}: {error}") from error


def _start_here(conf: SparkConf) -> None:
    """Start the Java process, where there is none yet, so that what runs on this machine goes first.

    Its Python workers inherit that, and the backends that serve them wait for them. Linux weighs
    sessions against each other before it looks at the niceness of a process, so it gets one of its own.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - may be missing
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - see above

    if SparkContext._gateway is not None:  # noqa: SLF001 - there is no other way to ask
        return
    gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
    java = gateway.proc.pid
    os.setpriority(os.PRIO_PGRP, java, _NICEST)
    with suppress(OSError):  # where the kernel does not weigh sessions, niceness is enough
        Path(f"/proc/{java}/autogroup").write_text(str(_NICEST))
    SparkContext(conf=conf, gateway=gateway)


def check_java(java_home: str | None) -> None:
    program = Path(java_home, "bin", "java") if java_home else shutil.which("java")
    if program is None or not Path(program).exists():
        raise SparkUnavailable(
            "Spark needs Java 17 or newer, and there is none: install openjdk-17-jre-headless,"
            " or set JAVA_HOME"
        )
