"""Headers are kept byte for byte, from the log through the lake and back."""

from __future__ import annotations

import runpy
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import jwt
import pytest
from pyspark.sql import SparkSession

from laneway.lake import session
from laneway.lake.offload import choose_history, offload, replay
from laneway.lake.tables import open_lake
from tests.protocol.servers import run_laneway
from tests.protocol.sqs.clients import connect, drain
from tests.spark.broker import create_queue, rotate, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

    from laneway.lake.tables import Lake

SECRET = "a secret of thirty-two bytes and more"  # noqa: S105 - of nobody
ROUTE = Path(__file__).parents[2] / "examples" / "spark" / "route.py"

TEXTS = [
    None,
    "{}",
    ' {"a" : 1.50,\n"a":"2", "b": {"c": [1, null, "\\u00e4 ä \\u0000"]}, "d": "x,y=z|"}',
    '{"n": 12345678901234567890.123, "json": "{\\"a\\": 1}", "none": null, "yes": true}',
]


def list_texts(dsn: str, queue: str) -> list[str | None]:
    rows = run(
        dsn,
        "select m.headers::text as headers from laneway.message m join laneway.lane l using (lane_id)"
        " join laneway.queue q using (queue_id) where q.name = $1 order by m.lane_id, m.seq",
        queue,
    )
    return [row["headers"] for row in rows]


def move_to_lake(spark: SparkSession, dsn: str, folder: Path) -> Lake:
    """Land everything and drop it from PostgreSQL."""
    rotate(dsn)
    lake = open_lake(spark, folder)
    done = offload(spark, lake, dsn, older_than=timedelta(0))
    assert [(each.dropped, each.failure) for each in done] == [(True, None)]
    assert run(dsn, "select from laneway.message") == []
    return lake


def test_headers_keep_their_text(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also spaces, names that come twice, digits, and what no text of PostgreSQL can hold."""
    mail = create_queue(database, "mail")
    create_queue(database, "again")
    create_queue(database, "copy")
    create_queue(database, "routed")
    run(
        database,
        "select * from laneway.push_many(array[$1::int], array_fill('1'::json, array[$2::int]), p_headers => $3,"
        " p_priorities => array[3::smallint])",
        mail,
        len(TEXTS),
        TEXTS,
    )
    assert list_texts(database, "mail") == TEXTS
    frame = spark.read.format("laneway").options(dsn=database, queue="mail").load()
    assert [row.headers for row in frame.orderBy("seq").collect()] == TEXTS
    names = "from_json(headers, 'map<string,string>')['json'] as found"
    assert [row.found for row in frame.orderBy("seq").selectExpr(names).collect()][3] == '{"a": 1}'
    (
        frame.orderBy("seq")
        .select("headers", "body")
        .write.format("laneway")
        .mode("append")
        .options(dsn=database, queue="copy")
        .save()
    )
    assert list_texts(database, "copy") == TEXTS
    with monkeypatch.context() as patch:
        patch.setattr(session, "open_session", lambda _: spark)
        patch.setattr(SparkSession, "stop", lambda _: None)
        patch.setattr(sys, "argv", ["route.py", database, "mail", "routed", "r"])
        runpy.run_path(str(ROUTE))
    assert list_texts(database, "routed") == TEXTS
    run(database, "select laneway.purge(g.group_id) from laneway.consumer_group g")
    lake = move_to_lake(spark, database, tmp_path / "lake")
    assert replay(choose_history(lake, "mail", None), database, to="again", run_id="r") == 4
    assert list_texts(database, "again") == TEXTS


@pytest.fixture
async def url(database: str) -> AsyncIterator[str]:
    """Yield where a server of this database listens."""
    async with run_laneway(database) as running:
        yield running.url


@pytest.fixture
async def guarded(database: str) -> AsyncIterator[str]:
    """Yield the same of a server that knows its clients by their tokens."""
    async with run_laneway(database, JWT_SECRET=SECRET) as running:
        yield running.url


def show(messages: Sequence[MessageTypeDef]) -> list[dict[str, Any]]:
    """Return what a message has of its own, and no redelivery or replay changes."""
    kept = ("AWSTraceHeader", "MessageGroupId", "SenderId")
    shown = [
        {
            "body": message["Body"],
            "md5": message["MD5OfBody"],
            "attributes": message.get("MessageAttributes"),
            "md5 of attributes": message.get("MD5OfMessageAttributes"),
            "system": {
                name: value for name, value in message["Attributes"].items() if name in kept
            },
        }
        for message in messages
    ]
    return sorted(shown, key=lambda each: str(each["body"]))


def receive(sqs: SQSClient, queue: str, count: int) -> list[MessageTypeDef]:
    found = drain(
        sqs, queue, count, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )
    for message in found:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return found


def test_sqs_attributes_come_back_from_the_lake(
    spark: SparkSession, database: str, url: str, tmp_path: Path
) -> None:
    sqs = connect(url)
    try:
        queues = {
            name: sqs.create_queue(QueueName=name)["QueueUrl"]
            for name in ("jobs", "again", "copied")
        }
        attributes: dict[str, Any] = {
            "text": {"DataType": "String", "StringValue": 'snö "☃" {"a": 1}'},
            "count": {"DataType": "Number.int", "StringValue": "042.50"},
            "blob": {"DataType": "Binary.png", "BinaryValue": bytes(range(256))},
        }
        for number in range(3):
            sqs.send_message(
                QueueUrl=queues["jobs"],
                MessageBody=f"body {number}",
                MessageAttributes=attributes if number else {},
                MessageSystemAttributes={
                    "AWSTraceHeader": {"DataType": "String", "StringValue": f"Root=1-{number}"}
                },
                MessageGroupId=f"tenant-{number}",
            )
        frame = spark.read.format("laneway").options(dsn=database, queue="jobs").load()
        (
            frame.select("partition", "priority", "headers", "body")
            .write.format("laneway")
            .mode("append")
            .options(dsn=database, queue="copied")
            .save()
        )
        sent = show(receive(sqs, queues["jobs"], 3))
        assert sent[1]["attributes"] == attributes
        assert sent[1]["system"]["AWSTraceHeader"] == "Root=1-1"
        assert show(receive(sqs, queues["copied"], 3)) == sent
        lake = move_to_lake(spark, database, tmp_path / "lake")
        assert replay(choose_history(lake, "jobs", None), database, to="again", run_id="r") == 3
        assert show(receive(sqs, queues["again"], 3)) == sent
    finally:
        sqs.close()


def test_traces_of_streams_come_back_from_the_lake(
    spark: SparkSession, database: str, guarded: str, tmp_path: Path
) -> None:
    """With the partition, and who produced it; the transaction id stays behind, as all keys do."""
    trace = "0190b5e2-0000-7000-8000-00000000000a"
    token = jwt.encode(
        {"sub": "ada", "exp": time.time() + 600, "role": "read-write"}, SECRET, algorithm="HS256"
    )
    with httpx.Client(
        base_url=f"{guarded}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=30
    ) as client:
        item = {"partition": "p", "payload": {"n": 1}, "transactionId": "t-1", "traceId": trace}
        for queue in ("orders", "again"):
            client.post("/push", json={"items": [{**item, "queue": queue}]}).raise_for_status()

        def pop(queue: str) -> list[dict[str, Any]]:
            answer = client.get(f"/pop/queue/{queue}", params={"batch": 10, "autoAck": "true"})
            messages: list[dict[str, Any]] = answer.raise_for_status().json()["messages"]
            return messages

        (sent,) = pop("orders")
        assert (sent["traceId"], sent["producerSub"], sent["partition"]) == (trace, "ada", "p")
        pop("again")
        lake = move_to_lake(spark, database, tmp_path / "lake")
        rows = choose_history(lake, "orders", None)
        assert [(row.key, row.partition) for row in rows.collect()] == [("t-1", "p")]
        assert replay(rows, database, to="again", run_id="r") == 1
        (found,) = pop("again")
    same = ("data", "partition", "traceId", "producerSub")
    assert {name: found[name] for name in same} == {name: sent[name] for name in same}
