"""A target for the gateway, with the standard library alone. It answers where laneway.toml says.

POST /send    "send" a mail: a repeated Idempotency-Key is not sent again
POST /hook    receive a webhook, and verify its signature
GET /hook     show the latest webhook that was verified; wait up to 20 seconds for the first
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
import time
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition
from urllib.parse import urlsplit

CONFIGURED = tomllib.loads(Path(__file__).with_name("laneway.toml").read_text())
MAIL = CONFIGURED["gateway"]["targets"]["mail"]
# A webhook that is older, in seconds, may be a copy that somebody sends again.
OLDEST = 300

changed = Condition()
sent: dict[str, dict[str, str]] = {}  # answers by idempotency key
webhooks: list[dict[str, str]] = []


class Target(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/send":
            self.send_mail(json.loads(body))
        elif self.path == "/hook":
            self.receive_webhook(body)
        else:
            self.answer(404, {"error": "not found"})

    def do_GET(self) -> None:
        with changed:
            changed.wait_for(lambda: webhooks, timeout=20)
            self.answer(200, webhooks[-1] if webhooks else {"error": "no webhook yet"})

    def send_mail(self, request: dict[str, str]) -> None:
        if "@" not in request.get("to", ""):
            self.answer(422, {"error": "to is not an address"})
            return
        key = self.headers["Idempotency-Key"]
        with changed:
            if key not in sent:
                sent[key] = {"mail": f"mail-{len(sent) + 1}"}
                say(f"sent {sent[key]['mail']} to {request['to']}")
            self.answer(200, sent[key])

    def receive_webhook(self, body: bytes) -> None:
        if not self.is_signed(body):
            say("refused a webhook with a wrong signature")
            self.answer(401, {"error": "wrong signature"})
            return
        webhook = json.loads(body)
        say(f"verified a webhook: {webhook['transactionId']} is {webhook['status']}")
        with changed:
            webhooks.append(webhook)
            changed.notify_all()
        self.answer(200, {})

    def is_signed(self, body: bytes) -> bool:
        """Return whether one of the secrets signed it, as Standard Webhooks describes."""
        ident, moment = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        given = [each.encode() for each in self.headers.get("webhook-signature", "").split()]
        if not moment or abs(time.time() - int(moment)) > OLDEST:
            return False
        content = f"{ident}.{moment}.".encode() + body
        return any(
            hmac.compare_digest(sign(secret, content), signature)
            for secret in MAIL["callback_secrets"]
            for signature in given
        )

    def answer(self, status: int, answer: dict[str, str]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing about single requests."""


def sign(secret: str, content: bytes) -> bytes:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return b"v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    place = urlsplit(MAIL["url"])
    with ThreadingHTTPServer((place.hostname or "", place.port or 0), Target) as server:
        say(f"The target listens on {place.scheme}://{place.netloc}")
        server.serve_forever()
