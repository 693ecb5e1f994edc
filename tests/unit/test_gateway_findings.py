"""Whatever a target reports can be stored."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from laneway.gateway.findings import make_finding
from laneway.gateway.http_target import WORDS
from laneway.gateway.targets import Report


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        ({"n": 2**256 - 1}, {"n": 2**256 - 1}),
        ([float("nan"), float("inf"), 1.5], [None, None, 1.5]),
        ({"a\0": ["\ud800", "\U0001f600"]}, {"a\N{REPLACEMENT CHARACTER}": ["?", "\U0001f600"]}),
        (False, False),
    ],
)
def test_result_is_stored_as_valid_json(result: Any, stored: Any) -> None:
    report = Report(status="success", upstream_id="a\0", hash="\ud800", result=result, error="\0")
    finding = make_finding(uuid4(), report, WORDS)
    assert finding.result is not None
    assert json.loads(finding.result, parse_constant=pytest.fail) == stored
    assert (finding.upstream_id, finding.hash) == ("a\N{REPLACEMENT CHARACTER}", "?")
