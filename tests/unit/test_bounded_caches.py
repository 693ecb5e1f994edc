"""Caches are bounded, whatever clients send."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from uuid import uuid4

import jwt
import pytest

from laneway.activity.feed import Subscription, show_all
from laneway.activity.updates import Change, Update
from laneway.domain.activity import Facts
from laneway.server.queen.leases import Lease, LeasedMessages, Leases
from laneway.server.settings import SqsSettings
from laneway.server.sqs.addresses import (
    _read_credential,
    _read_url,
    read_owner,
    read_url,
)
from laneway.server.sqs.errors import Fault
from laneway.server.tokens import Tokens, TokenSettings

SECRET = "what tokens are signed with, at least 32 bytes"  # noqa: S105 - of this file's tokens
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_queue_urls_are_cached_up_to_a_length() -> None:
    before = _read_url.cache_info().currsize
    assert read_url("http://localhost/000000000000/jobs").name == "jobs"
    with pytest.raises(Fault, match="does not exist"):
        read_url("http://localhost/" + "x" * 5000)
    info = _read_url.cache_info()
    assert info.currsize <= before + 1
    assert info.maxsize is not None
    assert info.maxsize * 4096 * 4 <= 16 * 1024 * 1024


def test_credentials_are_cached_up_to_a_length() -> None:
    before = _read_credential.cache_info().currsize
    for key, region in (("a" * 300, "us-east-1"), ("a", "b" * 63)):
        scope = f"Credential={key}/20300101/{region}/sqs/aws4_request".encode()
        assert read_owner(scope, SqsSettings()).region == region
    assert _read_credential.cache_info().currsize <= before + 1


def hold(*keys: str) -> Lease:
    return Lease("jobs", "group", {"1": LeasedMessages(uuid4(), dict.fromkeys(keys, 1))}, {})


def test_oldest_leases_are_evicted_by_number_and_size() -> None:
    leases = Leases(limit=4, limit_characters=100)
    for number in range(3):
        leases.remember(f"short {number}", hold(f"{number}a", f"{number}b"))
    assert leases.find("short 0") is None
    assert len(leases) == 4
    leases.remember("long", hold("x" * 97))
    assert leases.find("short 1") is None
    assert leases.find("short 2") is None
    leases.settle("long", "1", ["x" * 97])
    assert len(leases) == 0
    leases.remember("next", hold("y" * 50, "z" * 50))
    leases.forget("next")
    leases.remember("last", hold("y" * 100))
    assert leases.find("last") is not None


def test_long_tokens_are_not_cached() -> None:
    tokens = Tokens.make(TokenSettings(secret=SECRET))
    assert tokens is not None
    for filler, remembered in (("", True), ("x" * 10_000, False)):
        claims = {"sub": "somebody", "exp": int(time.time()) + 600, "filler": filler}
        token = jwt.encode(claims, SECRET, algorithm="HS256").encode()
        assert tokens.verify(token).name == "somebody"
        assert (tokens.recall(token) is not None) is remembered


def test_unread_updates_are_bounded_by_number_and_by_bytes() -> None:
    def bring(size: int = 0) -> None:
        facts = Facts(1, 1, 1, "type", 0, NOW, None, size, "x" * size)
        subscription.put(Update(Change.ENQUEUE, "jobs", NOW, 1, [facts.id], [facts]))

    subscription = Subscription(3, 100, show_all)
    for _ in range(3):
        bring(30)
    assert [update.queue for update in subscription._updates] == ["jobs"] * 3
    bring()
    assert [(each.queue, each.force_refresh) for each in subscription._updates] == [(None, True)]
    bring(100)
    assert [each.queue for each in subscription._updates] == [None, "jobs"]
    bring(1)
    assert [(each.queue, each.force_refresh) for each in subscription._updates] == [(None, True)]
