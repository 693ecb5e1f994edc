"""The process that runs custom detectors: it reads questions from stdin and writes their answers.

Whatever a detector does, the server and its messages go on: see custom_detectors.py.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence  # noqa: TC003 - msgspec reads the annotations
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from laneway.activity.builtin import DETECTORS
from laneway.activity.detectors import Context, Detector, Finding, Occasion, Registry
from laneway.activity.settings import ActivitySettings, DetectorReference  # noqa: TC001 - see above
from laneway.domain.activity import Event, Severity  # noqa: TC001 - see above
from laneway.domain.escapes import replace_unstorable
from laneway.domain.queues import Counts  # noqa: TC001 - see above

if TYPE_CHECKING:
    from collections.abc import Iterator

# How long loading may take: imports may be slow on a busy machine.
LOADING = timedelta(seconds=60)
# The type of the anomaly that reports a detector that failed.
FAILED = "detector_failed"

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST_DESCRIPTION = 1000
_LONGEST_TRACEBACK = 4000
# Of one event; no more are stored in a minute.
_MOST_FINDINGS = 200


class Described(msgspec.Struct):
    """A detector that is loaded."""

    name: str
    events: frozenset[Occasion]
    enabled: bool


class NotLoaded(msgspec.Struct):
    reference: DetectorReference
    problem: str


class Loaded(msgspec.Struct):
    """The first answer: the detectors, and which references could not be loaded."""

    detectors: list[Described]
    failures: list[NotLoaded]


class Question(msgspec.Struct):
    """A context, without the settings."""

    occasion: Occasion
    event: Event | None
    messages: int
    claimed: int
    counts: Sequence[Counts]


class Call(msgspec.Struct):
    """A detector to run, and on what."""

    detector: str
    questions: list[Question]


class Answer(msgspec.Struct):
    """The findings about one question, or how the detector failed."""

    findings: list[Found] = []
    error: str | None = None
    traceback: str = ""


class Found(msgspec.Struct):
    """A finding that can be stored."""

    severity: Severity
    description: str
    threshold: float | None = None
    actual: float | None = None
    seqs: list[int] | None = None
    queue: str | None = None


def main() -> None:
    questions, answers = _take_pipes()
    frames = read_frames(questions)
    settings = msgspec.json.decode(next(frames), type=ActivitySettings)
    # The server kills a process that takes too long. If the server is gone, the timer does, whatever
    # code runs.
    signal.setitimer(signal.ITIMER_REAL, 2 * LOADING.total_seconds())
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - a string
    registry, loaded = load(settings)
    signal.setitimer(signal.ITIMER_REAL, 0)
    write_frame(answers, msgspec.json.encode(loaded))
    longest = 2 * settings.detectors.time_limit.total_seconds() + 1
    detectors = {detector.name: detector for detector in registry.get_detectors()}
    for frame in frames:
        call = msgspec.json.decode(frame, type=Call)
        signal.setitimer(signal.ITIMER_REAL, longest)
        done = [_answer(detectors[call.detector], each, settings) for each in call.questions]
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_frame(answers, msgspec.json.encode(done))


def load(settings: ActivitySettings) -> tuple[Registry, Loaded]:
    """Import the custom detectors; return those that are usable, and what to say about all."""
    registry = Registry()
    failures = []
    taken = {FAILED, *(detector.name for detector in DETECTORS)}
    for reference in settings.detectors.references:
        try:
            for detector in _import(reference.target):
                if detector.name in taken:
                    raise ValueError(f'there already is a detector "{detector.name}"')  # noqa: TRY301
                taken.add(detector.name)
                registry.register(detector)
        except BaseException as error:  # noqa: BLE001 - also SystemExit: it is not ours
            failures.append(NotLoaded(reference, _describe(error)))
    registry.apply(settings.detectors)
    described = [
        Described(each.name, each.events, registry.is_enabled(each.name))
        for each in registry.get_detectors()
    ]
    return registry, Loaded(described, failures)


def run(detector: Detector, context: Context) -> list[Found]:
    """Return the detector's findings; raise what it raises, and TypeError or ValueError for unusable ones."""
    found = detector.detect(context)
    if found is None:
        return []
    if isinstance(found, Finding) or not isinstance(found, Iterable):
        findings = [found]
    else:
        findings = list(islice(found, _MOST_FINDINGS))
    return [_check(finding, context) for finding in findings]


def read_frames(file: BinaryIO) -> Iterator[bytes]:
    while head := file.read(4):
        yield file.read(int.from_bytes(head))


def write_frame(file: BinaryIO, frame: bytes) -> None:
    file.write(len(frame).to_bytes(4) + frame)
    file.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the pipes. What detectors print goes to stderr, and they read nothing."""
    questions = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return questions, answers


def _import(target: str) -> list[Detector]:
    module, _, name = target.partition(":")
    found = attrgetter(name)(importlib.import_module(module))
    detectors = [found] if isinstance(found, Detector) else found
    if not isinstance(detectors, list | tuple) or not detectors:
        raise TypeError(f"{target} is no detector: make it a laneway.activity.Detector, or a list")
    for detector in detectors:
        if not isinstance(detector, Detector):
            raise TypeError(f"{target} contains {detector!r}, which is no detector")
        if not _NAME.fullmatch(str(detector.name)):
            raise ValueError(
                f"the name of detector {detector.name!r} is invalid: use up to 64 of A-Z, a-z, 0-9, _, . and -"
            )
    return [
        replace(each, events=frozenset(Occasion(occasion) for occasion in each.events))
        for each in detectors
    ]


def _answer(detector: Detector, question: Question, settings: ActivitySettings) -> Answer:
    context = Context(
        occasion=question.occasion,
        settings=settings,
        event=question.event,
        messages=question.messages,
        claimed=question.claimed,
        counts=question.counts,
    )
    try:
        return Answer(run(detector, context))
    except BaseException as error:  # noqa: BLE001 - also SystemExit: it is not ours
        return Answer(
            error=_describe(error),
            traceback=replace_unstorable(traceback.format_exc()[-_LONGEST_TRACEBACK:]),
        )


def _check(finding: Any, context: Context) -> Found:
    if not isinstance(finding, Finding):
        raise TypeError(f"it returned {finding!r}: return a Finding, several, or None")
    found = msgspec.convert(msgspec.to_builtins(finding), Found)
    for number in (found.threshold, found.actual):
        if number is not None and not math.isfinite(number):
            raise ValueError(f"a finding has the number {number}")
    if found.seqs is not None:
        event = context.event
        if event is None or event.first_seq is None or event.last_seq is None:
            raise ValueError("a finding has sequence numbers, but its event has no messages")
        if not all(event.first_seq <= seq <= event.last_seq for seq in found.seqs):
            raise ValueError("a finding has sequence numbers outside of its event")
    found.description = replace_unstorable(found.description[:_LONGEST_DESCRIPTION])
    if found.queue is not None:
        found.queue = replace_unstorable(found.queue)
    return found


def _describe(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = f"{name}: {error}".removesuffix(": ")
    except Exception:  # noqa: BLE001 - a detector's own error class may raise anything
        return f"{name}: (str() of the error failed)"
    return replace_unstorable(text[:_LONGEST_DESCRIPTION])
