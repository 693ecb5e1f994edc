"""The general kind of target: an HTTP API that takes JSON."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jsonschema_rs

from laneway.domain.errors import InvalidSetting
from laneway.domain.transactions import CANCELLED, PENDING
from laneway.gateway.calls import HttpRequest
from laneway.gateway.failures import CallRefused, InvalidFields, refuse
from laneway.gateway.targets import Health, Notice, Report, Words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.gateway.calls import Calls, HttpResponse
    from laneway.gateway.targets import Submission, Target

NAME = "http"

SUCCESS = "success"
FAILED = "failed"
WORDS = Words(
    ranks={PENDING: 0, SUCCESS: 10, FAILED: 10, CANCELLED: 10},
    terminal=frozenset({SUCCESS, FAILED, CANCELLED}),
    failed=FAILED,
)

_OK = range(200, 300)
_NOT_FOUND = 404
# Names of fields in the target's answers, if the target does not configure others.
_FIELDS = {"id": None, "status": "status", "hash": "hash", "error": "error"}
_OPTIONS = {"schema", "status_url", "lookup_url", "health_url", "statuses"} | {
    f"{name}_field" for name in _FIELDS
}


class HttpKind:
    """Targets of any HTTP API.

    Its options are these.

    schema: a file with the JSON schema of requests. id_field, status_field, hash_field, error_field:
    where these are in answers, as names joined by dots. status_url: shows a transaction; {id} is the
    target's id for it, {transaction_id} ours. lookup_url: shows the transaction that was submitted
    with an idempotency key, {transaction_id}, or answers 404. health_url: answers 2xx while the
    target is well. statuses: what the target's own statuses mean: pending, success, failed or
    cancelled.
    """

    name = NAME

    def open(self, target: Target) -> HttpTarget:
        return HttpTarget(target)


class HttpTarget:
    """Without an id_field or a status_url, an answer 2xx is the result, and final."""

    words = WORDS

    def __init__(self, target: Target) -> None:
        """Raise InvalidSetting if an option is unknown or wrong."""
        options = target.options
        if unknown := set(options) - _OPTIONS:
            raise InvalidSetting(
                f"target {target.name} has unknown options: {', '.join(sorted(unknown))}"
            )
        self.target = target
        self.types: tuple[str, ...] = (target.name,)
        self._schema = _load_schema(target, options.get("schema"))
        self._paths = {
            name: path.split(".")
            for name, default in _FIELDS.items()
            if (path := options.get(f"{name}_field", default))
        }
        self._status_url: str | None = options.get("status_url")
        self._lookup_url: str | None = options.get("lookup_url")
        self._health_url: str | None = options.get("health_url")
        self._statuses: Mapping[str, str] = options.get("statuses") or {}
        for word, meaning in self._statuses.items():
            if meaning not in WORDS.ranks:
                raise InvalidSetting(
                    f"target {target.name}: status {word} means {meaning}: use one of"
                    f" {', '.join(WORDS.ranks)}"
                )
        if "{id}" in (self._lookup_url or ""):
            raise InvalidSetting(
                f"target {target.name}: lookup_url contains {{id}}, which is not known when it is used:"
                " use {transaction_id}"
            )
        self.can_look_up = self._lookup_url is not None
        self._asynchronous = "id" in self._paths and self._status_url is not None

    async def check(self, type: str, request: Any, calls: Calls) -> Any:  # noqa: A002, ARG002 - as Upstream
        if self._schema is not None and not self._schema.is_valid(request):
            raise InvalidFields(
                [
                    (".".join(map(str, error.instance_path)), error.message)
                    for error in self._schema.iter_errors(request)
                ]
            )
        return request

    def submit(self, submission: Submission, url: str) -> HttpRequest:
        return HttpRequest(
            method=self.target.method,
            url=url,
            headers=(
                ("content-type", "application/json"),
                ("idempotency-key", submission.transaction_id),
                *self.target.headers,
            ),
            body=submission.request.encode(),
            timeout=self.target.timeout,
        )

    def read_submitted(self, submission: Submission, response: HttpResponse) -> Report:
        return self._read(submission, response)

    def look_up(self, submission: Submission, url: str) -> HttpRequest:
        return self._ask(self._lookup_url or url, submission)

    def read_looked_up(self, submission: Submission, response: HttpResponse) -> Report | None:
        return None if response.status == _NOT_FOUND else self._read(submission, response)

    def ask_status(self, submission: Submission) -> HttpRequest | None:
        if self._status_url is None or submission.upstream_id is None:
            return None
        return self._ask(self._status_url, submission)

    def read_status(self, submission: Submission, response: HttpResponse) -> Report | None:
        return None if response.status == _NOT_FOUND else self._read(submission, response)

    def ask_health(self, url: str) -> HttpRequest | None:  # noqa: ARG002 - as Upstream
        if self._health_url is None:
            return None
        return HttpRequest(
            method="GET",
            url=self._health_url,
            headers=self.target.headers,
            timeout=self.target.timeout,
        )

    def read_health(self, url: str, response: HttpResponse) -> Health:  # noqa: ARG002 - as Upstream
        well = response.status in _OK
        return Health(well, detail=None if well else f"answered {response.status}")

    def read_notice(self, body: bytes) -> Notice:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InvalidFields([("", f"the body is not JSON: {error}")]) from None
        status = self._find_status(found)
        upstream_id = self._find(found, "id") or _find(found, ["id"])
        transaction_id = _find(found, ["transactionId"])
        if status is None:
            raise InvalidFields([(".".join(self._paths["status"]), "no known status")])
        if upstream_id is None and transaction_id is None:
            raise InvalidFields([("id", "neither id nor transactionId is set")])
        return Notice(
            self._report(found, status), transaction_id=transaction_id, upstream_id=upstream_id
        )

    def _ask(self, template: str, submission: Submission) -> HttpRequest:
        url = template.replace("{transaction_id}", submission.transaction_id).replace(
            "{id}", quote(submission.upstream_id or "", safe="")
        )
        return HttpRequest(
            method="GET", url=url, headers=self.target.headers, timeout=self.target.timeout
        )

    def _read(self, submission: Submission, response: HttpResponse) -> Report:
        if response.status not in _OK:
            raise refuse(self.target, response)
        found = _parse(response)
        status = self._find_status(found)
        if self._asynchronous:
            upstream_id = submission.upstream_id or self._find(found, "id")
            if upstream_id is None:
                raise CallRefused(
                    f"target {self.target.name} answered {response.status} without"
                    f" {'.'.join(self._paths['id'])}: it may have accepted the request",
                    permanent=True,
                )
            return self._report(found, status or PENDING, upstream_id)
        return self._report(found, status or SUCCESS, self._find(found, "id"))

    def _report(self, found: Any, status: str, upstream_id: str | None = None) -> Report:
        return Report(
            status=status,
            upstream_id=upstream_id,
            hash=self._find(found, "hash"),
            result=None if status == PENDING else found,
            error=self._find(found, "error") if status == FAILED else None,
        )

    def _find_status(self, found: Any) -> str | None:
        word = self._find(found, "status")
        if word is None:
            return None
        return self._statuses.get(word, word if word in WORDS.ranks else None)

    def _find(self, found: Any, name: str) -> str | None:
        return _find(found, self._paths.get(name, ()))


def _load_schema(target: Target, path: str | None) -> Any:
    if path is None:
        return None
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
        return jsonschema_rs.validator_for(schema)
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"target {target.name}: the schema {path}: {error}") from None


def _parse(response: HttpResponse) -> Any:
    """Return what an answer contains, as text if it is not JSON."""
    if not response.body:
        return None
    try:
        return json.loads(
            response.body, parse_constant=_read_finite_number, parse_float=_read_finite_number
        )
    except (ValueError, RecursionError):
        return response.body.decode("utf-8", "replace")


def _read_finite_number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a JSON number")
    return number


def _find(found: Any, path: Any) -> str | None:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    match found:
        case str() if path:
            return found
        case bool() | None:
            return None
        case int() | float() if path:
            return str(found)
        case _:
            return None
