"""A client of the session's server, and a new queue for each test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.protocol.sqs.clients import connect
from tests.protocol.sqs.query_model import write_query_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.conftest import Shared

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def query_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_query_model(folder)
    return folder


@pytest.fixture(scope="session", params=["json", "query"])
def sqs(request: pytest.FixtureRequest, shared: Shared, query_models: Path) -> Iterator[SQSClient]:
    """Yield a client of each wire protocol in turn."""
    client = connect(shared.server.url, models=query_models if request.param == "query" else None)
    assert client.meta.service_model.metadata["protocol"] == request.param
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
