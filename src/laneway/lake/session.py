"""Open a Spark session with the Laneway data source, with clear errors when Spark cannot start."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.lake.errors import SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

# Times are in UTC; a queue named "7" stays a string; the lake's record lists its
# files, so tasks need not.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}

_MASTERS = ("local", "spark", "k8s")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOGGING = "log4j2.configurationFile"


def open_session(
    master: str = "local[*]",
    *,
    java_home: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or use the session of this process; stop Spark at the end only if started here."""
    check_java(java_home)
    if master != "yarn" and not master.startswith(_MASTERS):
        raise SparkUnavailable(
            f"invalid Spark master {master!r}: use yarn, or a URL that starts with {', '.join(_MASTERS)}"
        )
    try:
        from py4j.protocol import Py4JError  # noqa: PLC0415 - may be missing
        from pyspark.errors import PySparkException  # noqa: PLC0415 - see above
        from pyspark.sql import SparkSession  # noqa: PLC0415 - see above
    except ImportError as error:
        raise SparkUnavailable(
            f"Spark is not installed ({error}). Run: pip install 'laneway[spark]'"
        ) from error
    if master.startswith("local"):
        # Local workers use this Python, not the first one on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("laneway")
    for name, value in _add_logging({**SETTINGS, **(settings or {})}).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        from laneway.lake.translation import shorten  # noqa: PLC0415 - needs Spark

        raise SparkUnavailable(
            f"Spark failed to start on {master}: {shorten(str(error))}"
        ) from error


def _add_logging(settings: Mapping[str, str]) -> dict[str, str]:
    """Use our log configuration, which silences start-up messages, unless another is set."""
    given = settings.get(_JAVA_OPTIONS, "")
    if _LOGGING in given:
        return dict(settings)
    place = Path(__file__).with_name("log4j2.properties").as_uri()
    return {**settings, _JAVA_OPTIONS: f"{given} -D{_LOGGING}={place}".strip()}


def silence(spark: SparkSession) -> None:
    """Turn off Spark's logs of task and query errors, which are raised as well."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - see above

    spark.sparkContext.setLogLevel("FATAL")
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def check_java(java_home: str | None) -> None:
    program = Path(java_home, "bin", "java") if java_home else shutil.which("java")
    if program is None or not Path(program).exists():
        raise SparkUnavailable(
            "Spark needs Java 17 or newer, and there is none: install openjdk-17-jre-headless,"
            " or set JAVA_HOME"
        )
