"""The command line: `python -m benchmarks SCENARIO` runs benchmarks, `report` formats their results."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import uvloop

from benchmarks.compare import scenario as compare
from benchmarks.compare.revision import RevisionUnusable
from benchmarks.engine import scale as engine_scale
from benchmarks.engine import scenario as engine
from benchmarks.gateway import scenario as gateway
from benchmarks.http import scale as http_scale
from benchmarks.http import scenario as http
from benchmarks.library import scale as library_scale
from benchmarks.library import scenario as library
from benchmarks.progress import Progress
from benchmarks.report import format_markdown, format_plain, replace_results
from benchmarks.results import load
from benchmarks.spark import scale as spark_scale
from benchmarks.spark import scenario as spark
from benchmarks.sqs import scenario as sqs
from benchmarks.streams import scale as streams_scale
from benchmarks.streams import scenario as streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.results import Run

Scale = TypeVar(
    "Scale",
    engine_scale.Scale,
    http_scale.Scale,
    library_scale.Scale,
    streams_scale.Scale,
    spark_scale.Scale,
)

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    arguments = _make_parser().parse_args()
    # A process that a shell starts in the background ignores SIGINT. Both signals must end a run cleanly.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        _run(arguments)
    except KeyboardInterrupt:
        sys.exit("stopped; the rows that finished are in the results file")


def _run(arguments: argparse.Namespace) -> None:
    match arguments.command:
        case "engine":
            _run_engine(arguments)
        case "spark":
            _run_spark(arguments)
        case "http":
            _run_http(arguments)
        case "sqs":
            _run_sqs(arguments)
        case "gateway":
            _run_gateway(arguments)
        case "library":
            _run_library(arguments)
        case "streams":
            _run_streams(arguments)
        case "compare":
            _run_compare(arguments)
        case _:
            _run_report(arguments)


def _run_engine(arguments: argparse.Namespace) -> None:
    scale = _choose_scale(arguments, engine_scale.QUICK, engine_scale.FULL)
    if arguments.pin_seconds is not None:
        scale = dataclasses.replace(scale, pin_time=timedelta(seconds=arguments.pin_seconds))
    plan = engine.Plan(
        names=arguments.only,
        scale=scale,
        quick=arguments.quick,
        dsn=arguments.dsn,
        path=_choose_path(arguments),
    )
    _show(asyncio.run(engine.run_engine(plan, Progress())), plan.path)


def _run_http(arguments: argparse.Namespace) -> None:
    scale = _choose_scale(arguments, http_scale.QUICK, http_scale.FULL)
    plan = http.Plan(
        names=arguments.only,
        scale=scale,
        quick=arguments.quick,
        profile=arguments.profile,
        path=_choose_path(arguments),
    )
    _show(asyncio.run(http.run_http(plan, Progress())), plan.path)


def _run_sqs(arguments: argparse.Namespace) -> None:
    scale = _choose_scale(arguments, http_scale.QUICK, http_scale.FULL)
    plan = sqs.Plan(
        names=arguments.only,
        scale=scale,
        quick=arguments.quick,
        profile=arguments.profile,
        path=_choose_path(arguments),
    )
    _show(asyncio.run(sqs.run_sqs(plan, Progress())), plan.path)


def _run_gateway(arguments: argparse.Namespace) -> None:
    scale = _choose_scale(arguments, http_scale.QUICK, http_scale.FULL)
    plan = gateway.Plan(
        names=arguments.only,
        scale=scale,
        quick=arguments.quick,
        profile=arguments.profile,
        path=_choose_path(arguments),
    )
    # The load generator shares the machine with the server, so it uses the cheaper event loop.
    _show(uvloop.run(gateway.run_gateway(plan, Progress())), plan.path)


def _run_library(arguments: argparse.Namespace) -> None:
    scale = _choose_scale(arguments, library_scale.QUICK, library_scale.FULL)
    plan = library.Plan(
        names=arguments.only, scale=scale, quick=arguments.quick, path=_choose_path(arguments)
    )
    _show(asyncio.run(library.run_library(plan, Progress())), plan.path)


def _run_streams(arguments: argparse.Namespace) -> None:
    scale = _choose_scale(arguments, streams_scale.QUICK, streams_scale.FULL)
    plan = streams.Plan(
        names=arguments.only, scale=scale, quick=arguments.quick, path=_choose_path(arguments)
    )
    # The load generator shares the machine with the server, so it uses the cheaper event loop.
    _show(uvloop.run(streams.run_streams(plan, Progress())), plan.path)


def _run_compare(arguments: argparse.Namespace) -> None:
    rows = compare.ROWS[arguments.scenario]
    try:
        names = _splitter(rows)(arguments.only) if arguments.only else rows
    except argparse.ArgumentTypeError as error:
        sys.exit(f"{error}; the rows of {arguments.scenario}: {', '.join(rows)}")
    plan = compare.Plan(
        base=arguments.base,
        scenario=arguments.scenario,
        names=names,
        scale=compare.QUICK if arguments.quick else compare.FULL,
        rounds=arguments.rounds,
        quick=arguments.quick,
        path=_choose_path(arguments),
    )
    try:
        _show(asyncio.run(compare.run_compare(plan, Progress())), plan.path)
    except RevisionUnusable as error:
        sys.exit(str(error))


def _run_spark(arguments: argparse.Namespace) -> None:
    scale = _choose_scale(arguments, spark_scale.QUICK, spark_scale.FULL)
    plan = spark.Plan(
        names=arguments.only, scale=scale, quick=arguments.quick, path=_choose_path(arguments)
    )
    _show(asyncio.run(spark.run_spark(plan, Progress())), plan.path)


def _choose_scale(arguments: argparse.Namespace, quick: Scale, full: Scale) -> Scale:
    scale = quick if arguments.quick else full
    if arguments.rounds is None:
        return scale
    return dataclasses.replace(scale, rounds=arguments.rounds)


def _choose_path(arguments: argparse.Namespace) -> Path:
    chosen: Path | None = arguments.json
    name = "-".join([arguments.command, *([arguments.scenario] if "scenario" in arguments else [])])
    return chosen or RESULTS / f"{name}-{datetime.now(UTC):%Y-%m-%d}.json"


def _show(run: Run, path: Path) -> None:
    print(format_plain(run))
    print(f"\nwritten to {path}")


def _run_report(arguments: argparse.Namespace) -> None:
    runs = [load(path) for path in arguments.files]
    if arguments.into is None:
        print(format_markdown(runs))
        return
    document: Path = arguments.into
    document.write_text(replace_results(document.read_text(), runs))


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    of_engine = commands.add_parser("engine", help="measure the SQL functions")
    _add_options(of_engine, engine.ROWS)
    of_engine.add_argument(
        "--pin-seconds", type=_parse_count, help="how long to pin the horizon, in seconds"
    )
    of_engine.add_argument(
        "--dsn", help="PostgreSQL server on this machine to use instead of starting one"
    )
    of_http = commands.add_parser("http", help="measure the server")
    _add_options(of_http, http.ROWS)
    of_http.add_argument("--profile", action="store_true", help="also profile the server")
    of_sqs = commands.add_parser("sqs", help="measure the SQS endpoint")
    _add_options(of_sqs, sqs.ROWS)
    of_sqs.add_argument("--profile", action="store_true", help="also profile the server")
    of_gateway = commands.add_parser("gateway", help="measure the gateway")
    _add_options(of_gateway, gateway.ROWS)
    of_gateway.add_argument("--profile", action="store_true", help="also profile the server")
    of_library = commands.add_parser(
        "library", help="measure workers, compared with other job queues"
    )
    _add_options(of_library, library.ROWS)
    _add_options(commands.add_parser("streams", help="measure streams"), streams.ROWS)
    of_spark = commands.add_parser("spark", help="measure the Spark source, the sink and the lake")
    _add_options(of_spark, spark.ROWS)
    _add_compare(
        commands.add_parser("compare", help="measure a base revision and this checkout in turns")
    )
    report = commands.add_parser("report", help="print results as Markdown")
    report.add_argument("files", type=Path, nargs="+", metavar="FILE")
    report.add_argument(
        "--into", type=Path, metavar="DOCUMENT", help="write them into this document instead"
    )
    return parser


def _add_options(parser: argparse.ArgumentParser, rows: Iterable[str]) -> None:
    names = list(rows)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to check that everything works"
    )
    parser.add_argument(
        "--only",
        type=_splitter(names),
        default=names,
        metavar="NAME,...",
        help=f"rows to run, some of: {', '.join(names)}",
    )
    parser.add_argument(
        "--rounds", type=_parse_count, help="rounds of every interleaved comparison"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the results")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("base", metavar="BASE", help="revision to compare this checkout with")
    parser.add_argument(
        "--scenario", choices=list(compare.ROWS), default="engine", help="rows to compare (engine)"
    )
    parser.add_argument("--only", metavar="NAME,...", help="run only these rows of the scenario")
    parser.add_argument("--rounds", type=_parse_count, help="rounds of every row")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to check that everything works"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the results")


def _splitter(rows: Sequence[str]) -> Callable[[str], list[str]]:
    def split(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in rows]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown row: {', '.join(unknown)}")
        return names

    return split


def _parse_count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return count


if __name__ == "__main__":
    main()
