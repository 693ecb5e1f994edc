"""Random acks of one partition move its group as a model of offset commits says."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx

RETRIES = 2
STEPS = 30
ACKS = {"completed", "success"}
STATUSES = [*ACKS, "completed", "failed", "retry", "dlq"]

Word = tuple[int, str]


class Partition:
    """What became of each message. leased: those of the lease; pending: those of them not passed."""

    def __init__(self) -> None:
        self.retries: list[int] = []
        self.left: set[int] = set()
        self.dead: set[int] = set()
        self.leased: list[int] = []
        self.pending: list[int] = []

    def settle(self, words: list[Word]) -> None:
        here = [(n, status) for n, status in words if n in self.pending]
        failed = min((n for n, status in here if status in {"failed", "retry"}), default=None)
        upto = max((n for n, _ in here if failed is None or n < failed), default=-1)
        self.dead |= {n for n, status in here if status == "dlq" and n <= upto}
        self.left -= {n for n in self.pending if n <= upto}
        self.pending = [n for n in self.pending if n > upto]
        if failed is None:
            return
        self.pending = []
        if (failed, "failed") in here and self.retries[failed] == RETRIES:
            self.dead.add(failed)
            self.left.remove(failed)
        elif (failed, "failed") in here:
            self.retries[failed] += 1


@pytest.mark.parametrize("seed", range(16))
async def test_group_moves_as_its_acks_say(http: httpx.AsyncClient, name: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a repeatable test
    model = Partition()
    options = {"retryDelay": 0, "retryLimit": RETRIES}
    await http.post("/configure", json={"queue": name, "options": options})
    await push_more(http, name, model, chance.randint(2, 8))
    place: dict[str, str] = {}
    for _ in range(STEPS):
        if chance.random() < 0.1:
            await push_more(http, name, model, 1)
        if model.pending:
            words = [
                (chance.choice(model.leased), chance.choice(STATUSES))
                for _ in range(chance.randint(1, 4))
            ]
            acks = [{"transactionId": f"t{n}", "status": status, **place} for n, status in words]
            if chance.random() < 0.25:
                await transact(http, model, words, acks)
            else:
                await settle(http, model, words, acks)
        elif model.left:
            place = await pop_next(http, name, model, chance.randint(1, 6))
    assert (await http.get("/dlq", params={"queue": name})).json()["total"] == len(model.dead)


async def push_more(http: httpx.AsyncClient, name: str, model: Partition, count: int) -> None:
    first = len(model.retries)
    new = range(first, first + count)
    items = [{"queue": name, "payload": n, "transactionId": f"t{n}"} for n in new]
    assert (await http.post("/push", json={"items": items})).status_code == 201
    model.retries += [0] * count
    model.left.update(new)


async def pop_next(
    http: httpx.AsyncClient, name: str, model: Partition, batch: int
) -> dict[str, str]:
    answer = await http.get(f"/pop/queue/{name}", params={"batch": batch})
    messages = answer.json()["messages"]
    assert 0 < len(messages) <= batch
    expected = sorted(model.left)[: len(messages)]
    assert [message["data"] for message in messages] == expected
    assert [message["retryCount"] for message in messages] == [model.retries[n] for n in expected]
    model.leased, model.pending = expected, list(expected)
    return {key: messages[0][key] for key in ("partitionId", "leaseId")}


async def settle(
    http: httpx.AsyncClient, model: Partition, words: list[Word], acks: list[dict[str, Any]]
) -> None:
    verdicts = (await http.post("/ack/batch", json={"acknowledgments": acks})).json()
    for (n, status), verdict in zip(words, verdicts, strict=True):
        passed = n not in model.pending
        assert verdict["success"] == (not passed or status in ACKS), (words, verdict)
        assert verdict.get("noop", False) == (passed and status in ACKS), (words, verdict)
        assert verdict["success"] or "already committed" in verdict["error"]
    model.settle(words)


async def transact(
    http: httpx.AsyncClient, model: Partition, words: list[Word], acks: list[dict[str, Any]]
) -> None:
    operations = [{"type": "ack", **each} for each in acks]
    done = (await http.post("/transaction", json={"operations": operations})).json()
    assert done["success"] == all(n in model.pending or status in ACKS for n, status in words)
    if done["success"]:
        model.settle(words)
    else:
        assert "rolled back" in done["error"]
