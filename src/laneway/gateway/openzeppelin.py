"""The kind of target that sends transactions to a blockchain: OpenZeppelin Relayer."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from laneway.domain.errors import InvalidSetting
from laneway.domain.transactions import CANCELLED, PENDING
from laneway.gateway.calls import CallFailed, HttpRequest
from laneway.gateway.ethereum import Forwarder, ask_nonce, limit_gas, read_nonce
from laneway.gateway.ethereum_fields import SPEEDS, check_address, check_direct, check_gasless
from laneway.gateway.failures import (
    CallRefused,
    InvalidFields,
    InvalidSignature,
    InvalidTransaction,
    TargetUnreachable,
    refuse,
)
from laneway.gateway.targets import Health, Notice, Report, Words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.gateway.calls import Calls, HttpResponse
    from laneway.gateway.targets import Submission, Target

NAME = "openzeppelin"

DIRECT = "direct"
GASLESS = "gasless"

SUBMITTED = "submitted"
MINED = "mined"
CONFIRMED = "confirmed"
FAILED = "failed"
REVERTED = "reverted"
EXPIRED = "expired"
_FINAL = (CONFIRMED, FAILED, REVERTED, CANCELLED, EXPIRED)
WORDS = Words(
    ranks={PENDING: 0, SUBMITTED: 10, MINED: 20, **dict.fromkeys(_FINAL, 30)},
    terminal=frozenset(_FINAL),
    failed=FAILED,
)

# Words of relayers that mean one of ours.
_SYNONYMS = {"sent": SUBMITTED, "inmempool": SUBMITTED, "canceled": CANCELLED}
# Errors that a repeated call would not avoid, whatever the status of the answer.
_PERMANENT = ("insufficient funds", "nonce too low", "reverted", "invalid signature")

_OK = range(200, 300)
_NOT_FOUND = 404
_ASK_TIMEOUT = timedelta(seconds=10)
_LARGEST_GAS = 2**64 - 1

_REQUIRED = ("relayer_id", "api_key")
_FORWARDER = ("forwarder_address", "forwarder_name", "chain_id", "rpc_url")
_OPTIONS = {*_REQUIRED, *_FORWARDER, "speed", "lookup_url"}


class OpenZeppelinKind:
    """Targets whose URLs are those of OpenZeppelin Relayer services.

    Its options are these.

    relayer_id: the relayer's id; with several URLs, one for all of them, or one of each, separated by
    commas. api_key: of the relayer's API. speed: of transactions that name none. lookup_url: shows
    the transaction that was submitted with an idempotency key, {transaction_id}, as the relayer shows
    transactions, or answers 404; the relayer itself has no such URL. forwarder_address,
    forwarder_name, chain_id, rpc_url: of the contract for gasless transactions, without which they
    are not accepted.
    """

    name = NAME

    def open(self, target: Target) -> OpenZeppelinTarget:
        return OpenZeppelinTarget(target)


class OpenZeppelinTarget:
    words = WORDS

    def __init__(self, target: Target) -> None:
        """Raise InvalidSetting if an option is unknown, missing or wrong."""
        options = target.options
        _check_options(target)
        # The texts are searched in answers beside those that are configured.
        self.target = replace(target, permanent_texts=(*_PERMANENT, *target.permanent_texts))
        self._relayers = _find_relayers(target)
        self._headers = (("authorization", f"Bearer {options['api_key']}"), *target.headers)
        self._speed: str = options.get("speed", "fast")
        self._lookup_url: str | None = options.get("lookup_url")
        self.can_look_up = self._lookup_url is not None
        self._forwarder: Forwarder | None = None
        if "forwarder_address" in options:
            self._forwarder = Forwarder(
                name=options["forwarder_name"],
                chain_id=int(options["chain_id"]),
                address=options["forwarder_address"],
            )
        self._rpc_url: str = options.get("rpc_url", "")
        self.types: tuple[str, ...] = (DIRECT,) if self._forwarder is None else (DIRECT, GASLESS)

    async def check(self, type: str, request: Any, calls: Calls) -> Any:  # noqa: A002 - as Upstream
        if type == DIRECT:
            check_direct(request)
            return request
        check_gasless(request)
        forward = request["request"]
        if int(forward["deadline"]) < time.time():
            raise InvalidTransaction("Transaction deadline expired")
        nonce = await self._load_nonce(forward["from"], calls)
        if int(forward["nonce"]) != nonce:
            raise InvalidTransaction(f"Invalid nonce: expected {nonce}, got {forward['nonce']}")
        if not self._get_forwarder().is_signed(forward, request["signature"]):
            raise InvalidSignature("Invalid EIP-712 signature")
        return request

    async def read_nonce(self, address: str, calls: Calls) -> int:
        if (problem := check_address(address)) is not None:
            raise InvalidFields([("address", problem)])
        return await self._load_nonce(address, calls)

    def submit(self, submission: Submission, url: str) -> HttpRequest:
        body = self._make_body(submission.type, json.loads(submission.request))
        return HttpRequest(
            method="POST",
            url=self._relayers[url] + "/transactions",
            headers=(
                ("content-type", "application/json"),
                # Relayers do not read it; a proxy with a lookup_url does.
                ("idempotency-key", submission.transaction_id),
                *self._headers,
            ),
            body=json.dumps(body).encode(),
            timeout=self.target.timeout,
        )

    def read_submitted(self, submission: Submission, response: HttpResponse) -> Report:  # noqa: ARG002 - as Upstream
        data = self._read_data(response)
        report = _read_report(data)
        if report is None or report.upstream_id is None:
            raise CallRefused(
                f"target {self.target.name} answered {response.status} without data.id and"
                " data.status: it may have accepted the request",
                permanent=True,
            )
        return report

    def look_up(self, submission: Submission, url: str) -> HttpRequest:
        found = (self._lookup_url or url).replace("{transaction_id}", submission.transaction_id)
        return self._ask(found)

    def read_looked_up(self, submission: Submission, response: HttpResponse) -> Report | None:
        if response.status == _NOT_FOUND:
            return None
        return self.read_submitted(submission, response)

    def ask_status(self, submission: Submission) -> HttpRequest | None:
        relayer = self._relayers.get(submission.upstream_url or "")
        if relayer is None or submission.upstream_id is None:
            return None
        return self._ask(f"{relayer}/transactions/{quote(submission.upstream_id, safe='')}")

    def read_status(self, submission: Submission, response: HttpResponse) -> Report | None:  # noqa: ARG002 - as Upstream
        # A relayer forgets transactions some time after they are final.
        return None if response.status == _NOT_FOUND else _read_report(self._read_data(response))

    def ask_health(self, url: str) -> HttpRequest | None:
        return self._ask(self._relayers[url] + "/status")

    def read_health(self, url: str, response: HttpResponse) -> Health:  # noqa: ARG002 - as Upstream
        data = self._read_data(response)
        count = data.get("pending_transactions_count")
        pending = count if isinstance(count, int) else 0
        for name, detail in (("paused", "paused"), ("system_disabled", "disabled by the system")):
            if data.get(name):
                return Health(available=False, pending=pending, detail=f"the relayer is {detail}")
        return Health(available=True, pending=pending)

    def read_notice(self, body: bytes) -> Notice:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InvalidFields([("", f"the body is not JSON: {error}")]) from None
        payload = _get_object(found, "payload")
        # Notices of failures have the transaction one level below, beside the reason.
        data = _get_object(payload, "transaction") or payload
        report = _read_report(data)
        if report is None:
            raise InvalidFields(
                [("payload.status", "is missing, or not the status of a transaction")]
            )
        if report.upstream_id is None:
            raise InvalidFields([("payload.id", "is missing")])
        reason = payload.get("failure_reason")
        if report.error is None and isinstance(reason, str):
            report = replace(report, error=reason)
        return Notice(report, upstream_id=report.upstream_id)

    def _make_body(self, type: str, request: Any) -> dict[str, Any]:  # noqa: A002 - as Upstream
        """Return a transaction as relayers read it.

        value is a string: relayers, like most readers of JSON, would round a number of 256 bits.
        """
        if type == GASLESS:
            forward = request["request"]
            forwarder = self._get_forwarder()
            call = forwarder.execute(forward, request["signature"])
            return {
                "to": forwarder.address,
                "data": call,
                "value": str(int(forward["value"])),
                "gas_limit": min(limit_gas(int(forward["gas"]), call), _LARGEST_GAS),
                "speed": self._speed,
            }
        body = {
            "to": request["to"],
            "data": "0x" + request["data"].removeprefix("0x"),
            "value": str(int(request.get("value") or 0)),
            "speed": request.get("speed") or self._speed,
        }
        # Without a limit, the relayer estimates it.
        gas = request.get("gas") or request.get("gasLimit")
        if gas is not None:
            body["gas_limit"] = int(gas)
        return body

    async def _load_nonce(self, address: str, calls: Calls) -> int:
        """Return the next nonce of an account; raise TargetUnreachable if the chain does not tell it."""
        call = {"to": self._get_forwarder().address, "data": ask_nonce(address)}
        question = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [call, "latest"]}
        request = HttpRequest(
            method="POST",
            url=self._rpc_url,
            headers=(("content-type", "application/json"),),
            body=json.dumps(question).encode(),
            timeout=_ASK_TIMEOUT,
        )
        try:
            response = await calls.send(request)
        except CallFailed as error:
            raise TargetUnreachable(f"cannot read the nonce from the chain: {error}") from None
        answer = _parse(response)
        nonce = read_nonce(answer.get("result"))
        if nonce is None:
            message = _get_object(answer, "error").get("message", "it is not at forwarder_address")
            raise TargetUnreachable(f"the forwarder contract does not tell the nonce: {message}")
        return nonce

    def _get_forwarder(self) -> Forwarder:
        if self._forwarder is None:
            raise InvalidTransaction(
                f"target {self.target.name} accepts no gasless transactions: set the options"
                f" {', '.join(_FORWARDER)}"
            )
        return self._forwarder

    def _ask(self, url: str) -> HttpRequest:
        return HttpRequest(method="GET", url=url, headers=self._headers, timeout=_ASK_TIMEOUT)

    def _read_data(self, response: HttpResponse) -> dict[str, Any]:
        """Return the part `data` of a relayer's answer; raise CallRefused if it reports an error."""
        answer = _parse(response)
        if response.status not in _OK or answer.get("success") is False:
            raise refuse(self.target, response)
        return _get_object(answer, "data")


def _check_options(target: Target) -> None:
    options = target.options
    if unknown := set(options) - _OPTIONS:
        raise InvalidSetting(
            f"target {target.name} has unknown options: {', '.join(sorted(unknown))}"
        )
    needed = (*_REQUIRED, *(_FORWARDER if not options.keys().isdisjoint(_FORWARDER) else ()))
    if missing := [name for name in needed if not options.get(name)]:
        raise InvalidSetting(f"target {target.name} has no option {', '.join(missing)}")
    problems = {
        "speed": f"use {', '.join(SPEEDS)}" if options.get("speed", "fast") not in SPEEDS else None,
        "forwarder_address": check_address(options.get("forwarder_address", "0x" + "0" * 40)),
        "chain_id": None if options.get("chain_id", "1").isdecimal() else "is not a number",
        "rpc_url": _check_url(options.get("rpc_url")),
        "lookup_url": _check_url(options.get("lookup_url")),
    }
    for name, problem in problems.items():
        if problem is not None:
            raise InvalidSetting(f"target {target.name}, option {name}: {problem}")


def _check_url(url: str | None) -> str | None:
    if url is None or urlsplit(url).scheme in {"http", "https"}:
        return None
    return "is not an http:// or https:// URL"


def _find_relayers(target: Target) -> Mapping[str, str]:
    """Return the URL of the relayer at each of the target's URLs."""
    ids = [each.strip() for each in target.options["relayer_id"].split(",")]
    if len(ids) == 1:
        ids *= len(target.urls)
    if len(ids) != len(target.urls) or not all(ids):
        raise InvalidSetting(
            f"target {target.name}, option relayer_id: name one relayer, or one for each URL"
        )
    return {
        url: f"{url.rstrip('/')}/api/v1/relayers/{quote(each, safe='')}"
        for url, each in zip(target.urls, ids, strict=True)
    }


def _read_report(data: Mapping[str, Any]) -> Report | None:
    """Return what a relayer says about a transaction; None: its status is not one that is known."""
    word = str(data.get("status")).lower()
    status = _SYNONYMS.get(word, word)
    if status not in WORDS.ranks:
        return None
    upstream_id, tx_hash = data.get("id"), data.get("hash")
    reason = data.get("status_reason")
    unhappy = status in WORDS.terminal and status != CONFIRMED
    return Report(
        status=status,
        upstream_id=upstream_id if isinstance(upstream_id, str) else None,
        hash=tx_hash if isinstance(tx_hash, str) else None,
        result=data if WORDS.ranks[status] >= WORDS.ranks[MINED] else None,
        error=reason if unhappy and isinstance(reason, str) else None,
        confirmed_at=_read_time(data.get("confirmed_at")) if status == CONFIRMED else None,
    )


def _read_time(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _parse(response: HttpResponse) -> dict[str, Any]:
    """Return the object that an answer is, an empty one if it is none."""
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _get_object(found: Any, name: str) -> dict[str, Any]:
    inner = found.get(name) if isinstance(found, dict) else None
    return inner if isinstance(inner, dict) else {}
