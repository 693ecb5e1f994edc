"""A client of the session's server, and a fresh queue for each test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.protocol.sqs.clients import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.conftest import Shared

_numbers = itertools.count(1)


@pytest.fixture
def sqs(shared: Shared) -> Iterator[SQSClient]:
    client = connect(shared.server.url)
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    """Return a name that no other queue has."""
    return f"sqs-{next(_numbers)}"


@pytest.fixture
def url(sqs: SQSClient, name: str) -> str:
    return sqs.create_queue(QueueName=name)["QueueUrl"]


@pytest.fixture
def make(sqs: SQSClient) -> Callable[..., str]:
    """Return what makes a queue with attributes; fifo: of that kind."""

    def create(*, fifo: bool = False, **attributes: str) -> str:
        name = f"sqs-{next(_numbers)}{'.fifo' if fifo else ''}"
        if fifo:
            attributes["FifoQueue"] = "true"
        return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]  # type: ignore[arg-type]

    return create
