"""The synchronous library, on both transports."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import laneway
import laneway.sync
from laneway.domain import errors
from laneway.domain.errors import BrokerClosed, QueueNotFound
from laneway.engine import Broker
from tests.library.conftest import QUIET
from tools import derivation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def sync(address: str) -> Iterator[laneway.sync.Connection]:
    with laneway.sync.connect(address, settings=QUIET) as connection:
        yield connection


def test_life_of_a_message(sync: laneway.sync.Connection, queue: str) -> None:
    producer, consumer = sync.producer(queue), sync.consumer(queue, name="me")
    assert (producer.queue, consumer.name, consumer.group) == (queue, "me", "default")
    ids = producer.batch_enqueue([1, 2, 3])
    seen = []
    for message in consumer:
        seen.append(message.id)
        assert consumer.delete(message)
        if len(seen) == 3:
            break
    assert seen == ids
    assert sync.admin.queue_metrics(queue).acknowledged == 3
    assert consumer.dequeue(wait=timedelta(milliseconds=10)) is None
    with pytest.raises(QueueNotFound):
        sync.producer("nowhere").enqueue(1)


def test_threads_share_a_connection(sync: laneway.sync.Connection, queue: str) -> None:
    def push(n: int) -> None:
        sync.producer(queue).enqueue(n)

    threads = [threading.Thread(target=push, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = sync.consumer(queue).dequeue_many(30)
    assert sorted(message.payload for message in taken) == list(range(20))


def test_workflow_run_is_started_and_awaited(sync: laneway.sync.Connection, queue: str) -> None:
    run = sync.start("nothing", 1, queue=queue)
    assert run.status() == "running"
    assert run.cancel() == "cancelled"
    assert sync.run(run.run_id).info().steps == 0


def test_closed_connection_raises(sync: laneway.sync.Connection, address: str) -> None:
    del sync
    with laneway.sync.connect(address, settings=QUIET) as connection:
        admin = connection.admin
    with pytest.raises(BrokerClosed):
        admin.list_queues()


def test_waiting_thread_returns_when_the_connection_closes(address: str, queue: str) -> None:
    with ThreadPoolExecutor() as threads:
        with laneway.sync.connect(address, settings=QUIET) as connection:
            consumer = connection.consumer(queue)
            waiting = threads.submit(consumer.dequeue, wait=timedelta(hours=1))
            backend: Any = connection._inner.backend
            while not (
                backend.measure().claim_waiters
                if isinstance(backend, Broker)
                else backend._client._busy
            ):
                time.sleep(0.01)
        assert waiting.result(20) is None


def test_derived_roles_are_current() -> None:
    assert derivation.RESULT.read_text() == derivation.derive()


def test_every_public_name_is_importable_and_listed() -> None:
    asked = "import laneway; laneway.sync.connect, laneway.errors.LanewayError, laneway.middlewares.trace"
    subprocess.run([sys.executable, "-c", asked], check=True)
    for name in laneway.__all__:
        assert getattr(laneway, name) is not None
    assert set(laneway.__all__) <= set(dir(laneway))
    with pytest.raises(AttributeError):
        _ = laneway.nothing  # type: ignore[attr-defined]


def test_modules_can_be_imported_from_and_have_all() -> None:
    asked = "from laneway.errors import LeaseLost; from laneway.middlewares import Metrics, trace"
    subprocess.run([sys.executable, "-c", asked], check=True)
    every = {
        name
        for name, item in vars(errors).items()
        if isinstance(item, type) and issubclass(item, errors.LanewayError)
    }
    assert set(laneway.errors.__all__) == every
    assert laneway.errors.LeaseLost is errors.LeaseLost


def test_modules_are_imported_lazily() -> None:
    asked = (
        "import sys, laneway; print(*[name for name in sys.modules if name.startswith('laneway.')])"
    )
    loaded = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True)
    assert loaded.stdout == b"\n"


def test_type_checkers_see_every_public_name(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import laneway
from laneway.errors import LeaseLost
from laneway import Retri

app = laneway.App()


@app.middleware
async def log(work: laneway.Work, proceed: laneway.Proceed) -> object:
    try:
        return await proceed(work)
    except (LeaseLost, laneway.errors.QueueNotFound):
        return laneway.conect
"""
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", program.name],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    wrong = [line.partition(": error: ")[0] for line in checked.stdout.splitlines()]
    assert wrong == ["program.py:4", "program.py:14"], checked.stdout
