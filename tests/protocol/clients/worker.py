"""A Python worker: a loop around `requests`."""

from __future__ import annotations

import os
from typing import Any

import requests

API_URL = os.environ["API_URL"]
HEADERS = {"X-API-KEY": os.environ.get("SECRET_KEY", "")}


def process_video(payload: dict[str, Any]) -> None:
    print(f"Processed: {payload['quality']}", flush=True)  # noqa: T201 - the test reads it


while True:
    # Get a message (blocks for up to 30 seconds)
    response = requests.get(f"{API_URL}/message", params={"timeout": 30}, headers=HEADERS)  # noqa: S113 - as people write it

    if response.status_code == 200:
        message = response.json()
        print(f"Processing: {message['payload']['file']}", flush=True)  # noqa: T201 - the test reads it

        # Process video...
        process_video(message["payload"])

        # Acknowledge with lock token
        requests.post(  # noqa: S113 - as people write it
            f"{API_URL}/ack",
            headers=HEADERS,
            json={"id": message["id"], "lock_token": message["lock_token"]},
        )
        print("Acknowledged", flush=True)  # noqa: T201 - the test reads it
    elif response.status_code == 404:
        continue
