"""The relayer target, without a relayer: its options, and how it reads and writes."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from laneway.domain.errors import InvalidSetting
from laneway.gateway.calls import HttpResponse
from laneway.gateway.failures import CallRefused
from laneway.gateway.gateway import open_upstreams
from laneway.gateway.openzeppelin import OpenZeppelinTarget
from laneway.gateway.targets import Submission, Target

URL = "http://relayer.example:8080"
PLAIN = {"relayer_id": "main", "api_key": "the-key"}
FORWARDER = {
    "forwarder_address": "0x" + "11" * 20,
    "forwarder_name": "Forwarder",
    "chain_id": "1",
    "rpc_url": "http://rpc.example",
}
LARGEST = 2**256 - 1
REQUEST = {"to": "0x" + "22" * 20, "data": "a9059cbb"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"api_key": ""}, "has no option api_key"),
        ({"speed": "slow"}, "option speed: use safeLow"),
        ({"relayerid": "x"}, "unknown options: relayerid"),
        ({"relayer_id": "a,b"}, "name one relayer, or one for each URL"),
        ({"chain_id": "1"}, "has no option forwarder_address, forwarder_name, rpc_url"),
        ({**FORWARDER, "chain_id": "one"}, "option chain_id: is not a number"),
        ({**FORWARDER, "forwarder_address": "0x1"}, "option forwarder_address: is not an Ethereum"),
        ({**FORWARDER, "rpc_url": "rpc.example"}, "option rpc_url: is not an http://"),
        ({"lookup_url": "/lookup"}, "option lookup_url: is not an http://"),
    ],
)
def test_wrong_options_are_named(changed: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        open_target({**PLAIN, **changed})


def test_gasless_transactions_need_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eth_account", None)
    assert open_target(PLAIN).types == ("direct",)
    with pytest.raises(InvalidSetting, match=r"pip install 'laneway\[ethereum\]'"):
        open_target({**PLAIN, **FORWARDER})


def test_two_targets_that_accept_the_same_requests_are_refused() -> None:
    targets = [make_target(PLAIN, name=name) for name in ("first", "second")]
    with pytest.raises(InvalidSetting, match="first and second accept the same requests: direct"):
        open_upstreams(targets)


def test_each_url_has_its_relayer() -> None:
    target = open_target({**PLAIN, "relayer_id": "a, b c"}, urls=(URL, "http://other.example/"))
    submission = Submission(
        transaction_id="1",
        type="direct",
        request=json.dumps(REQUEST),
        upstream_id="x/y",
        upstream_url="http://other.example/",
    )
    request = target.submit(submission, URL)
    assert request.url == f"{URL}/api/v1/relayers/a/transactions"
    assert ("authorization", "Bearer the-key") in request.headers
    status = target.ask_status(submission)
    assert status is not None
    assert status.url == "http://other.example/api/v1/relayers/b%20c/transactions/x%2Fy"


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {"value": "0", "speed": "fast"}),
        ({"gas": "21000"}, {"value": "0", "speed": "fast", "gas_limit": 21000}),
        ({"gasLimit": "0"}, {"value": "0", "speed": "fast", "gas_limit": 0}),
        (
            {"value": str(LARGEST), "speed": "safeLow"},
            {"value": str(LARGEST), "speed": "safeLow"},
        ),
    ],
)
def test_direct_transaction_is_written_for_the_relayer(
    fields: dict[str, str], sent: dict[str, Any]
) -> None:
    submission = Submission(
        transaction_id="1", type="direct", request=json.dumps({**REQUEST, **fields})
    )
    body = open_target(PLAIN).submit(submission, URL).body
    assert body is not None
    assert json.loads(body) == {"to": REQUEST["to"], "data": "0xa9059cbb", **sent}


@pytest.mark.parametrize(
    ("word", "status", "final"),
    [
        ("pending", "pending", False),
        ("sent", "submitted", False),
        ("inmempool", "submitted", False),
        ("submitted", "submitted", False),
        ("mined", "mined", False),
        ("confirmed", "confirmed", True),
        ("failed", "failed", True),
        ("reverted", "reverted", True),
        ("canceled", "cancelled", True),
        ("cancelled", "cancelled", True),
        ("expired", "expired", True),
    ],
)
def test_words_of_the_relayer(word: str, status: str, final: bool) -> None:  # noqa: FBT001 - a parameter
    target = open_target(PLAIN)
    found = read_submitted(target, 201, {"data": {"id": "7", "status": word}})
    assert (found.upstream_id, found.status) == ("7", status)
    assert (status in target.words.terminal) == final


def test_large_numbers_of_the_relayer_are_kept() -> None:
    data = {"id": "7", "status": "confirmed", "value": LARGEST}
    assert read_submitted(open_target(PLAIN), 200, {"data": data}).result["value"] == LARGEST


@pytest.mark.parametrize(
    ("status", "body", "permanent"),
    [
        (400, {"error": "bad"}, True),
        (401, {}, True),
        (422, {}, True),
        (429, {}, False),
        (500, {"error": "no connection"}, False),
        (500, {"error": "Insufficient funds for transfer"}, True),
        (500, {"error": "nonce too low"}, True),
        (500, {"error": "execution reverted"}, True),
        (500, {"error": "invalid signature"}, True),
        (500, {"error": "own words"}, True),
        (200, {"success": False, "error": "nonce too low"}, True),
        (200, {"data": {}}, True),
        (200, {"data": {"id": "7", "status": "elsewhere"}}, True),
    ],
)
def test_errors_of_the_relayer(status: int, body: dict[str, Any], *, permanent: bool) -> None:
    target = open_target(PLAIN, permanent_texts=("own words",))
    with pytest.raises(CallRefused) as refused:
        read_submitted(target, status, body)
    assert refused.value.permanent == permanent


def read_submitted(target: OpenZeppelinTarget, status: int, body: Any) -> Any:
    response = HttpResponse(status=status, headers={}, body=json.dumps(body).encode())
    submission = Submission(transaction_id="1", type="direct", request="{}")
    return target.read_submitted(submission, response)


def open_target(options: dict[str, str], **settings: Any) -> OpenZeppelinTarget:
    return OpenZeppelinTarget(make_target(options, **settings))


def make_target(options: dict[str, str], *, name: str = "chain", **settings: Any) -> Target:
    known = {"urls": (URL,), **settings}
    return Target(name=name, kind="openzeppelin", options=options, **known)
