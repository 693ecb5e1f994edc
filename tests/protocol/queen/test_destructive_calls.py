"""Calls that delete or seek refuse names that they do not know: ignored, those would do more than was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from laneway.server.operations import Media
from laneway.server.queen import make_surfaces
from laneway.server.settings import ServerSettings
from tests.protocol.queen.calls import ack, data_of, pop, push

if TYPE_CHECKING:
    import httpx
    from queen import Queen


class Refused(NamedTuple):
    """A call with an unknown name. Q: the queue; P and T: the partition and id of its message."""

    method: str
    path: str
    body: dict[str, Any] | None
    name: str
    advice: str


@pytest.mark.parametrize(
    "case",
    [
        Refused("DELETE", "/dlq?queue=Q&partition=a", None, "partition", "it takes `queue`"),
        Refused("DELETE", "/dlq?queue=Q&consumer=g", None, "consumer", "`consumerGroup`?"),
        Refused("DELETE", "/dlq?queue=Q", {"partition": "a"}, "partition", "takes none"),
        Refused("POST", "/dlq/retry?queue=Q&partition=a", None, "partition", "it takes `queue`"),
        Refused("DELETE", "/queues/Q/clear?partition=a", None, "partition", "takes none"),
        Refused("DELETE", "/queues/Q/clear", {"partition": "a"}, "partition", "takes none"),
        Refused("DELETE", "/resources/queues/Q?partition=a", None, "partition", "takes none"),
        Refused("DELETE", "/messages/P/T?group=g", None, "group", "takes `consumerGroup`"),
        Refused("POST", "/messages/P/T/dlq?group=g", {}, "group", "takes `consumerGroup`"),
        Refused("POST", "/messages/P/T/retry?group=g", {}, "group", "takes `consumerGroup`"),
        Refused("DELETE", "/consumer-groups/g?queue=Q", None, "queue", "it takes `deleteMetadata`"),
        Refused("DELETE", "/consumer-groups/g/queues/Q?partition=a", None, "partition", "it takes"),
        Refused(
            "POST", "/consumer-groups/g/queues/Q/seek", {"toEnd": True, "partition": "a"},
            "partition", "it takes `toEnd`",
        ),
        Refused(
            "POST", "/consumer-groups/g/queues/Q/seek?partition=a", {"toEnd": True},
            "partition", "takes none",
        ),
        Refused(
            "POST", "/consumer-groups/g/subscription",
            {"subscriptionTimestamp": "2030-01-01", "queue": "Q"}, "queue", "it takes",
        ),
    ],
    ids=str,
)  # fmt: skip
async def test_unknown_name_is_refused_and_nothing_changes(
    queen: Queen, http: httpx.AsyncClient, name: str, case: Refused
) -> None:
    await queen.queue(name).create()
    place = ""
    for partition in ("a", "b"):
        await push(queen, name, [1, 2], partition=partition)
        [message] = await pop(queen, name, 1, group="g", partition=partition)
        assert (await ack(queen, message, "dlq", group="g"))["success"]
        place = f"/{message['partitionId']}/{message['transactionId']}"
    path = case.path.replace("=Q", f"={name}").replace("/Q", f"/{name}")
    path = path.replace("/P/T", place)
    answer = await http.request(case.method, path, json=case.body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"].startswith(f"{case.name}: Unknown ")
    assert case.advice in answer.json()["error"]
    dead = (await http.get("/dlq", params={"queue": name})).json()
    assert dead["total"] == 2
    left = [await pop(queen, name, 10, group="g", partition=each) for each in ("a", "b")]
    assert [data_of(messages) for messages in left] == [[2], [2]]


def test_every_call_that_deletes_or_seeks_refuses_unknown_names() -> None:
    surface, _ = make_surfaces(ServerSettings())
    changing = [
        operation
        for operation in surface.operations
        # Names one timer, and is never to fail.
        if (operation.method == "DELETE" and not operation.path.startswith("/timers/"))
        or operation.path.endswith(("/seek", "/subscription"))
        or operation.path == "/dlq/retry"
    ]
    assert len(changing) == 10
    for operation in changing:
        for kind in (operation.parameters, operation.body):
            if operation.path == "/dlq/retry" and kind is None:
                continue
            assert kind is not None, operation.path
            assert not isinstance(kind, Media)
            assert kind.__struct_config__.forbid_unknown_fields, operation.path
