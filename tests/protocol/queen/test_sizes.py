"""How large messages may be, and how many large ones a pop returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.queen.calls import ack, data_of, pop, push

if TYPE_CHECKING:
    import httpx
    from queen import Queen

MIB = 1024 * 1024


def make_text(size: int) -> str:
    """Return a text whose JSON has this size."""
    return "x" * (size - 2)


async def test_payload_may_have_16_mib(queen: Queen, name: str) -> None:
    await push(queen, name, [make_text(16 * MIB)])
    [message] = await pop(queen, name)
    assert message["data"] == make_text(16 * MIB)
    assert (await ack(queen, message))["success"]


@pytest.mark.parametrize("way", ["push", "transaction"])
async def test_larger_payload_is_refused_by_the_name_of_the_option(
    http: httpx.AsyncClient, name: str, way: str
) -> None:
    await http.post("/configure", json={"queue": name})

    async def send(size: int) -> httpx.Response:
        item = {"queue": name, "payload": make_text(size)}
        if way == "push":
            return await http.post("/push", json={"items": [item]})
        operations = [{"type": "push", "items": [item]}]
        return await http.post("/transaction", json={"operations": operations})

    refused = await send(16 * MIB + 1)
    assert refused.status_code == 413
    assert refused.json()["error"].endswith(
        f'queue "{name}" allows at most {16 * MIB}. Send less, or raise the queue\'s option maxBytes'
    )
    assert "max_bytes" not in refused.json()["error"]
    assert (await http.get(f"/pop/queue/{name}")).status_code == 204
    answer = await http.post("/configure", json={"queue": name, "options": {"maxBytes": 100}})
    assert answer.json()["options"]["maxBytes"] == 100
    assert (await send(101)).status_code == 413
    assert (await send(100)).is_success


@pytest.mark.parametrize("size", [0, -1, 2**31, "large", 1.5])
async def test_an_invalid_limit_is_refused(http: httpx.AsyncClient, name: str, size: Any) -> None:
    answer = await http.post("/configure", json={"queue": name, "options": {"maxBytes": size}})
    assert answer.status_code == 400
    assert "maxBytes" in answer.json()["error"]
    assert (await http.get(f"/resources/queues/{name}")).status_code == 404


@pytest.mark.parametrize("ordered", [True, False])
async def test_pop_returns_fewer_messages_if_they_are_large(
    queen: Queen, http: httpx.AsyncClient, name: str, *, ordered: bool
) -> None:
    await queen.queue(name).create()
    await http.post(f"/consumer-groups/g/queues/{name}", json={"ordered": ordered})
    for n in range(7):
        await push(queen, name, [str(n) + make_text(6 * MIB)])
    seen: list[str] = []
    sizes: list[int] = []
    while messages := await pop(queen, name, 100, group="g"):
        sizes.append(len(messages))
        seen += [text[0] for text in data_of(messages)]
        assert {message["retryCount"] for message in messages} == {0}
        assert (await ack(queen, messages, group="g"))["success"]
    assert seen == [str(n) for n in range(7)]
    assert max(sizes) * 6 <= 32
    await push(queen, name, ["small"] * 5)
    assert data_of(await pop(queen, name, 100, group="g")) == ["small"] * 5
