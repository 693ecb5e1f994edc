"""Calls that several tests of the REST protocol share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

# An id of the right form that no message has.
NOBODY = "2-2000000000-1"
# A token of the right form that nobody was given.
STRANGER = "00000000-0000-4000-8000-000000000000"
# A payload whose JSON has one byte more than a queue allows unless told otherwise.
TOO_LARGE = "x" * (16 * 1024 * 1024 - 1)


async def add(api: httpx.AsyncClient, queue: str, payload: Any = None, **fields: Any) -> str:
    """Return the new message's id."""
    body = {"type": "job", "payload": payload, "queue": queue, **fields}
    answer = await api.post("/queue/message", json=body)
    assert answer.status_code == 201, answer.text
    message_id: str = answer.json()["id"]
    return message_id


async def dequeue(api: httpx.AsyncClient, queue: str, **parameters: Any) -> dict[str, Any]:
    answer = await api.get("/queue/message", params={"queue": queue, **parameters})
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()
    return message


def issues(answer: httpx.Response) -> list[tuple[str, list[str | int]]]:
    """Return the code and place of each issue of a refused input."""
    assert answer.status_code == 422, answer.text
    body = answer.json()
    assert body["success"] is False
    assert body["error"]["name"] == "ZodError"
    assert all(issue["message"] for issue in body["error"]["issues"])
    return [(issue["code"], issue["path"]) for issue in body["error"]["issues"]]
