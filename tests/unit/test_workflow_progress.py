"""Progress of a run is stored after a short database outage."""

from __future__ import annotations

from typing import Any

from laneway import Retry
from laneway.domain.errors import Unavailable
from laneway.domain.runs import Stored
from laneway.worker.branches import within_run
from laneway.worker.progress import Progress


class Moody:
    """A backend that is away at the first call."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.workflows = self

    async def store_step(self, _run: str, _driver: str, step: str, **done: Any) -> Stored:
        self.kept.append((step, done["result"]))
        if len(self.kept) == 1:
            raise Unavailable("the database restarts")
        return Stored("running", done["result"], None)


async def test_result_is_stored_once_the_database_is_back_and_its_step_not_run_again() -> None:
    backend: Any = Moody()
    progress = Progress(backend, "run", "driver", [])
    runs = []

    async def work() -> str:
        runs.append(1)
        return "done"

    with within_run(progress):
        assert await progress.run_step("work#1", work, retry=Retry(max_attempts=1)) == "done"
    assert runs == [1]
    assert backend.kept == [("work#1", '"done"')] * 2
    assert progress.halt is None
