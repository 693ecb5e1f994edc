"""Values pass between the library and a server unchanged."""

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec
import pytest

from laneway.client.wire import Failure, describe, list_shapes, restore
from laneway.domain import errors
from laneway.domain.errors import InternalError
from laneway.engine import Broker

if TYPE_CHECKING:
    from laneway.domain.errors import LanewayError

SAMPLES = [
    errors.RateLimited("slower", retry_after=timedelta(seconds=1.5)),
    errors.Unavailable("away"),
    errors.InvalidPayload("is too long", place="$.a", index=3),
    errors.InvalidStateTransition("ready", "stopped", "worker is ready"),
    errors.QueueNotFound(queue="mails"),
    errors.QueueNotFound(),
    errors.GroupNotFound(group="readers", queue="mails"),
    errors.GroupNotFound(group=7),
    errors.QueueNotEmpty("still 3 messages", queue="mails"),
    errors.WorkerBusy(worker="w", messages=2),
]


# Never rename one: clients and servers of different versions call each other by these names.
NAMES = """
    ack ack_results archive_held ask_run ask_worker beat_worker browse claim create_group
    create_queue delete_queue drive_run end_run extend extend_any find_result fire_schedule
    follow_queue get_queue hold_for_worker install list_queues list_runs list_workers load_run
    load_steps metrics nack ping purge purge_runs purge_workers push reclaim_dead reclaim_worker
    register_worker release replay start_run step_worker store_step system_stats update_queue
    verify
"""


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_error_is_restored_by_the_client(error: LanewayError) -> None:
    sent = msgspec.json.decode(msgspec.json.encode(describe(error)), type=Failure)
    again = restore(sent)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize("name", ["Nonsense", "timedelta", "Self"])
def test_unknown_error_is_an_internal_error(name: str) -> None:
    assert type(restore(Failure(name, "what"))) is InternalError


def test_broker_has_every_call() -> None:
    broker = Broker("postgresql:///")
    for shape in list_shapes().values():
        assert callable(attrgetter(shape.method)(broker))


def test_calls_keep_their_names_on_the_wire() -> None:
    assert set(NAMES.split()) <= list_shapes().keys()
