"""The command: `python -m benchmarks engine` measures, `python -m benchmarks report` writes it up."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.engine.scale import FULL, QUICK
from benchmarks.engine.scenario import ROWS, Plan, run_engine
from benchmarks.progress import Progress
from benchmarks.report import format_markdown, format_plain, replace_results
from benchmarks.results import load

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    arguments = _make_parser().parse_args()
    if arguments.command == "engine":
        _run_engine(arguments)
    else:
        _run_report(arguments)


def _run_engine(arguments: argparse.Namespace) -> None:
    scale = QUICK if arguments.quick else FULL
    if arguments.rounds is not None:
        scale = dataclasses.replace(scale, rounds=arguments.rounds)
    if arguments.pin_seconds is not None:
        scale = dataclasses.replace(scale, pin_time=timedelta(seconds=arguments.pin_seconds))
    plan = Plan(
        names=arguments.only,
        scale=scale,
        quick=arguments.quick,
        dsn=arguments.dsn,
        path=arguments.json or RESULTS / f"engine-{datetime.now(UTC):%Y-%m-%d}.json",
    )
    run = asyncio.run(run_engine(plan, Progress()))
    print(format_plain(run))
    print(f"\nwritten to {plan.path}")


def _run_report(arguments: argparse.Namespace) -> None:
    text = format_markdown(load(path) for path in arguments.files)
    if arguments.into is None:
        print(text)
        return
    document: Path = arguments.into
    document.write_text(replace_results(document.read_text(), text))


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    engine = commands.add_parser("engine", help="measure the SQL functions")
    engine.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    engine.add_argument(
        "--only",
        type=_split_names,
        default=list(ROWS),
        metavar="NAME,...",
        help=f"some of: {', '.join(ROWS)}",
    )
    engine.add_argument("--rounds", type=_parse_count, help="of every interleaved comparison")
    engine.add_argument("--pin-seconds", type=_parse_count, help="how long the horizon is pinned")
    engine.add_argument("--json", type=Path, metavar="FILE", help="where the results go")
    engine.add_argument("--dsn", help="a server on this machine, instead of one of our own")
    report = commands.add_parser("report", help="print results as Markdown")
    report.add_argument("files", type=Path, nargs="+", metavar="FILE")
    report.add_argument("--into", type=Path, metavar="DOCUMENT", help="put them there instead")
    return parser


def _split_names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no row is called {', '.join(unknown)}")
    return names


def _parse_count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return count


if __name__ == "__main__":
    main()
