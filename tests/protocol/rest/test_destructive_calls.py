"""Calls that delete refuse names that they do not know: ignored, those would delete more than was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from laneway.server.operations import Media
from laneway.server.rest import SURFACE
from tests.protocol.rest.calls import add, issues

if TYPE_CHECKING:
    import httpx

RANGE = "startTimestamp=2020-01-01&endTimestamp=2020-01-02"


async def count(api: httpx.AsyncClient, queue: str) -> int:
    listed = await api.get("/queue/main/messages", params={"queueName": queue})
    total: int = listed.json()["pagination"]["total"]
    return total


class Refused(NamedTuple):
    """A call with an unknown name, and what the error advises. Q: the queue; ID: its message."""

    method: str
    path: str
    body: dict[str, Any] | None
    name: str
    advice: str


CLEAR = "/queue/main/clear"
DELETE_MANY = "/queue/messages/delete?queueType=main"
IDS = {"messageIds": ["ID"]}


@pytest.mark.parametrize(
    "case",
    [
        Refused("DELETE", f"{CLEAR}?queue=Q", None, "queue", "did you mean `queueName`?"),
        Refused("DELETE", f"{CLEAR}?queue=", None, "queue", "did you mean `queueName`?"),
        Refused("DELETE", f"{CLEAR}?queuename=Q", None, "queuename", "did you mean `queueName`?"),
        Refused("DELETE", CLEAR, {"queueName": "Q"}, "queueName", "send it as a query parameter"),
        Refused("DELETE", "/queue/clear?queue=Q", None, "queue", "the operation takes none"),
        Refused("DELETE", "/queue/clear", {"queue": "Q"}, "queue", "the operation takes none"),
        Refused("POST", "/queues/Q/purge?status=dead", None, "status", "send it in the body"),
        Refused("POST", "/queues/Q/purge?state=dead", {}, "state", "`status`, in the body?"),
        Refused("POST", "/queues/Q/purge", {"state": "dead"}, "state", "did you mean `status`?"),
        Refused("DELETE", "/queues/Q?forced=true", None, "forced", "did you mean `force`?"),
        Refused("DELETE", f"/queue/messages?{RANGE}&of=Q", None, "of", "it takes `startTimestamp`"),
        Refused(
            "DELETE", "/queue/message/ID?queueType=main&queue=Q", None, "queue", "`queueType`?"
        ),
        Refused("POST", DELETE_MANY, {**IDS, "of": "Q"}, "of", "it takes `messageIds`"),
        Refused("POST", f"{DELETE_MANY}&dryRun=1", IDS, "dryRun", "it takes `queueType`"),
        Refused("DELETE", "/queue/activity/clear?queue=Q", None, "queue", "takes none"),
    ],
    ids=str,
)
async def test_unknown_name_is_refused_and_nothing_is_deleted(
    api: httpx.AsyncClient, queue: str, case: Refused
) -> None:
    message_id = await add(api, queue)
    path = case.path.replace("ID", message_id).replace("=Q", f"={queue}").replace("/Q", f"/{queue}")
    body = case.body
    if body and "messageIds" in body:
        body = {**body, "messageIds": [message_id]}
    answer = await api.request(case.method, path, json=body)
    assert issues(answer) == [("unrecognized_keys", [case.name])]
    assert case.advice in answer.json()["error"]["issues"][0]["message"]
    assert await count(api, queue) == 1


@pytest.mark.parametrize("body", [b"", b"{}"], ids=str)
async def test_empty_body_of_a_deletion_is_fine(
    api: httpx.AsyncClient, queue: str, body: bytes
) -> None:
    await add(api, queue)
    answer = await api.request(
        "DELETE", "/queue/main/clear", params={"queueName": queue}, content=body
    )
    assert answer.status_code == 200
    assert await count(api, queue) == 0


async def test_other_calls_ignore_unknown_names(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue, unknown=1)
    answer = await api.get("/queue/message", params={"queue": queue, "unknown": 1})
    message = answer.json()
    assert message["id"] == message_id
    lease = {"id": message_id, "lock_token": message["lock_token"], "unknown": 1}
    assert (await api.post("/queue/ack", json=lease)).status_code == 200


DELETING = {"clear", "delete", "purge"}


def test_every_call_that_deletes_refuses_unknown_names() -> None:
    deleting = [
        operation
        for operation in SURFACE.operations
        if operation.method == "DELETE" or DELETING.intersection(operation.path.split("/"))
    ]
    assert len(deleting) == 8
    for operation in deleting:
        for kind in (operation.parameters, operation.body):
            assert kind is not None, operation.path
            assert not isinstance(kind, Media)
            assert kind.__struct_config__.forbid_unknown_fields, operation.path
