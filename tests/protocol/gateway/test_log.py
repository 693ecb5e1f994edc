"""The gateway's log lines."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = """
[gateway]
private_networks = ["127.0.0.0/8"]

[gateway.targets.mail]
url = "http://{place}/send"
attempts = 1
"""


async def test_failed_call_is_logged_with_its_reason(database: str, tmp_path: Path) -> None:
    settings = tmp_path / "laneway.toml"
    with socket.socket() as unused:
        # Bound and not listening, so that every connection to it is refused.
        unused.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{unused.getsockname()[1]}"
        settings.write_text(SETTINGS.format(place=place))
        async with (
            run_laneway(database, "--gateway", "--config", str(settings)) as server,
            server.client() as client,
        ):
            # Waits until the transaction has failed.
            waiting = {"Prefer": "respond-async, wait=60"}
            path = client.base_url.copy_with(path="/api/v1/relay/mail")
            sent = await client.post(path, json={}, headers=waiting)
            transaction = sent.json()["transactionId"]
            # What is logged after the result is logged before the end.
            await server.stop()
            lines = [json.loads(line) for line in server.log.splitlines() if line[:1] == "{"]
    (failure,) = (line for line in lines if line.get("action") == "failure")
    reason = f"target mail: cannot connect to {place}: connection refused"
    assert failure["message"] == f"failure {transaction}, attempt 1: {reason}"
    assert failure["error"] == reason
