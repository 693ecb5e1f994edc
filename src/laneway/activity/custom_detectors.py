"""Custom detectors, run in a process of their own, so that none of them delays or ends the server."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import msgspec

from laneway.activity.detector_process import LOADING, Answer, Call, Loaded, Question
from laneway.activity.detectors import Finding, Occasion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from laneway.activity.detector_process import Described
    from laneway.activity.detectors import Context
    from laneway.activity.settings import ActivitySettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MINUTE = 60.0
# How long to wait for the exit code of a process that closed its pipe.
_ENDING = timedelta(seconds=1)


class ProcessLost(Exception):
    """The process of the detectors ended, or did not answer in time."""


class Reported(NamedTuple):
    """What a custom detector found about a context."""

    detector: str
    context: Context
    findings: Sequence[Finding]


class Asked(NamedTuple):
    """Result of a call. failures: what to report of detectors that failed, at most once a minute each."""

    found: list[Reported]
    failures: list[str]


class CustomDetectors:
    """The custom detectors of the settings, loaded while the context is open.

    A detector that takes too long, or ends its process, is paused, and the process started again.
    """

    def __init__(self, settings: ActivitySettings) -> None:
        self._settings = settings
        self._limits = settings.detectors
        self._process: asyncio.subprocess.Process | None = None
        self._detectors: Sequence[Described] = ()
        # By name, and for the process as a whole by "".
        self._paused: dict[str, float] = {}
        self._quiet: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def look_periodically(self) -> bool:
        return any(Occasion.PERIODIC in each.events for each in self._detectors)

    async def ask(
        self, contexts: Sequence[Context], skip: Callable[[str, Context], bool] = lambda *_: False
    ) -> Asked:
        """Run the enabled detectors on the contexts that they are for, except those to skip."""
        asked = Asked([], [])
        if self._process is None and self._may_run(""):
            await self._open()
        for detector in self._detectors:
            relevant = [
                context
                for context in contexts
                if context.occasion in detector.events and not skip(detector.name, context)
            ]
            if not relevant or self._process is None or not self._may_run(detector.name):
                continue
            try:
                answers = await self._call(detector.name, relevant)
            except ProcessLost as error:
                asked.failures.append(self._pause(detector.name, str(error)))
                await self.close()
                await self._open()
                continue
            for context, answer in zip(relevant, answers, strict=True):
                findings = [Finding(**msgspec.structs.asdict(each)) for each in answer.findings]
                asked.found.append(Reported(detector.name, context, findings))
            failed = [answer for answer in answers if answer.error is not None]
            if failed and self._may_say(detector.name):
                text = f'detector "{detector.name}" failed: {failed[0].error}'
                asked.failures.append(text)
                logger.error(
                    "%s (on %d of %d events)\n%s",
                    text,
                    len(failed),
                    len(answers),
                    failed[0].traceback.rstrip(),
                )
        return asked

    async def _call(self, detector: str, contexts: Sequence[Context]) -> list[Answer]:
        questions = [
            Question(each.occasion, each.event, each.messages, each.claimed, each.counts)
            for each in contexts
        ]
        call = msgspec.json.encode(Call(detector, questions))
        answers = await self._exchange(call, list[Answer], within=self._limits.time_limit)
        if len(answers) != len(contexts):
            raise ProcessLost("answered something else")
        return answers

    async def _open(self) -> None:
        """Start the process and load the detectors; without success, pause all of them."""
        if not self._limits.references:
            return
        try:
            loaded = await self.load()
        except ProcessLost as error:
            self._detectors = ()
            await self.close()
            logger.error("%s", self._pause("", str(error)))  # noqa: TRY400 - it is expected
            return
        self._detectors = [each for each in loaded.detectors if each.enabled]
        if self._may_say(""):
            names = ", ".join(each.name for each in self._detectors) or "none"
            logger.info("custom detectors that run: %s", names)
        for failure in loaded.failures:
            if self._may_say(failure.reference.target):
                logger.error(
                    "detector %s (%s) cannot be loaded: %s",
                    failure.reference.target,
                    failure.reference.where,
                    failure.problem,
                )

    async def load(self) -> Loaded:
        """Start the process, and return what it loaded. Raises ProcessLost."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            # Modules of the working directory are found, but not instead of Laneway's own.
            "-P",
            "-c",
            "from laneway.activity.detector_process import main; main()",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C reaches only the server, which then ends the process.
            start_new_session=True,
        )
        return await self._exchange(msgspec.json.encode(self._settings), Loaded, within=LOADING)

    async def _exchange(self, frame: bytes, kind: type[T], *, within: timedelta) -> T:
        """Write a frame to the process and read its answer. Raises ProcessLost."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise ProcessLost("is not running")
        try:
            async with asyncio.timeout(within.total_seconds()):
                process.stdin.write(len(frame).to_bytes(4) + frame)
                await process.stdin.drain()
                size = int.from_bytes(await process.stdout.readexactly(4))
                answer = await process.stdout.readexactly(size)
            return msgspec.json.decode(answer, type=kind)
        except TimeoutError:
            raise ProcessLost(f"took longer than {within.total_seconds():g} s") from None
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ProcessLost(await _describe_end(process)) from error
        except msgspec.MsgspecError as error:
            raise ProcessLost(f"answered something else: {error}") from error

    async def close(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()

    def _pause(self, detector: str, problem: str) -> str:
        pause = self._limits.pause.total_seconds()
        self._paused[detector] = monotonic() + pause
        who = f'detector "{detector}"' if detector else "loading the custom detectors"
        text = f"{who} {problem}: paused for {pause / _MINUTE:g} minutes"
        if detector:
            logger.error("%s", text)
        return text

    def _may_run(self, detector: str) -> bool:
        return self._paused.get(detector, 0) <= monotonic()

    def _may_say(self, what: str) -> bool:
        """Return whether a problem is to be reported: each once a minute."""
        now = monotonic()
        if self._quiet.get(what, 0) > now:
            return False
        self._quiet[what] = now + _MINUTE
        return True


async def _describe_end(process: asyncio.subprocess.Process) -> str:
    with suppress(TimeoutError):
        async with asyncio.timeout(_ENDING.total_seconds()):
            return f"ended its process with exit code {await process.wait()}"
    return "closed the pipe of its process"


async def load_detectors(settings: ActivitySettings) -> Loaded:
    """Load the custom detectors once, to check them. Raises ProcessLost."""
    detectors = CustomDetectors(settings)
    try:
        return await detectors.load()
    finally:
        await detectors.close()
