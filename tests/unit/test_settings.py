"""Queue settings match the columns of the database."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from datetime import timedelta
from pathlib import Path

import pytest

import laneway.sql
from laneway.domain.settings import QueueChanges, QueueSettings
from laneway.engine.procedures.queues import encode_json

SQL = Path(laneway.sql.__file__).parent


def test_settings_are_those_of_update_queue() -> None:
    text = (SQL / "functions" / "api" / "update_queue.sql").read_text()
    known = re.search(r"k not in \(([^)]*)\)", text)
    assert known is not None
    assert {field.name for field in fields(QueueSettings)} == set(
        re.findall(r"'(\w+)'", known.group(1))
    )


def test_every_setting_but_the_fixed_ones_can_change() -> None:
    names = {field.name for field in fields(QueueSettings)}
    assert set(QueueChanges.__annotations__) == names - {"kind", "ordered"}


def test_durations_are_sent_as_intervals() -> None:
    encoded = json.loads(encode_json(asdict(QueueSettings(delay=timedelta(milliseconds=1.5)))))
    assert encoded["lease"] == "30000000 microseconds"
    assert encoded["delay"] == "1500 microseconds"
    assert encoded["retention"] is None


def test_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be a setting's value"):
        encode_json({"options": {"a": object()}})
