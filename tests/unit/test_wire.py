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
