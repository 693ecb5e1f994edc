"""Dead letters are found by the kind of failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.postgres import Connect


@pytest.mark.parametrize(
    ("reason", "signature"),
    [
        (None, ""),
        ("", ""),
        ("KeyError: 'order-17'", "KeyError: <text>"),
        ('no customer "Ada Lovelace"', "no customer <text>"),
        ("timed out after 30.5 s, attempt 3 of 5", "timed out after <n> s, attempt <n> of <n>"),
        ("order 8400e2b1-3d5c-4f6a-9b1e-0a2b3c4d5e6f failed", "order <id> failed"),
        ("commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit <id>"),
        ("object at 0x7f3a2b", "object at <id>"),
        ("cannot read /var/lib/app/report-7.csv", "cannot read <path>"),
        ("cannot read ./jobs/mail.py:17", "cannot read <path>:<n>"),
        ("connect to 10.0.0.17:5432 refused", "connect to <address> refused"),
        ("GET https://api.example.org/v1/users/17 failed", "GET <url> failed"),
        ("mailbox ada@example.org is full", "mailbox <email> is full"),
        ("boom\nTraceback (most recent call last)", "boom"),
        ("defaced deadbeef", "defaced deadbeef"),
        ("utf8 text", "utf8 text"),
    ],
)
async def test_signature_leaves_out_what_differs(
    connect: Connect, reason: str | None, signature: str
) -> None:
    connection = await connect()
    found = await connection.fetchval("select laneway.failure_signature($1)", reason)
    assert found == signature
