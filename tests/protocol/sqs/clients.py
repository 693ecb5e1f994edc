"""boto3 clients of a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.loaders import Loader

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

# The owner of queues that have the same name on every surface.
REGION = "us-east-1"
ACCOUNT = "000000000000"


def connect(
    url: str,
    *,
    key: str = ACCOUNT,
    region: str = REGION,
    secret: str = "any",  # noqa: S107 - none is asked for
    models: Path | None = None,
    **options: Any,
) -> SQSClient:
    """Return a client; models: a folder of service models that go before boto3's own."""
    session = botocore.session.Session()
    if models is not None:
        session.register_component("data_loader", Loader(extra_search_paths=[str(models)]))
    return boto3.Session(botocore_session=session).client(
        "sqs",
        endpoint_url=url,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}, **options),
    )


def drain(sqs: SQSClient, url: str, count: int, **options: Any) -> list[MessageTypeDef]:
    """Receive until `count` messages came; a test's time limit ends a wait for too many."""
    received: list[MessageTypeDef] = []
    while len(received) < count:
        answer = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2, **options
        )
        received += answer.get("Messages", [])
    return received


def bodies(messages: list[MessageTypeDef]) -> list[str]:
    return [message["Body"] for message in messages]


class Refusal:
    """Catches an error, and says what it was."""

    code = ""
    message = ""
    status = 0
    name = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        assert isinstance(error, ClientError), f"not refused: {error!r}"
        self.code = error.response["Error"]["Code"]
        self.message = error.response["Error"]["Message"]
        self.status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        self.name = type(error).__name__
        return True
