"""Control characters are escaped before output to a terminal."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from laneway.domain.escapes import escape, escape_json

# Everything below a space, delete and the second set of control characters, turns of direction.
ORDERS = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)])) + "\u202e\u2066\u2028\u200f"


def test_control_characters_are_escaped() -> None:
    assert escape("\x1b[31m\x07\x9b\r\n\t\u202e\ud800") == (r"\x1b[31m\x07\x9b\r\n\t\u202e\ud800")
    assert escape("a\n\tb\r", lines=True) == "a\n\tb\\r"
    assert not set(escape(ORDERS)) & set(ORDERS)


def test_ordinary_text_is_unchanged() -> None:
    text = "naïve 漢字 👩\u200d👩\u200d👧 C:\\x1b [b] \xa0"
    assert escape(text) == text


@given(st.text())
def test_escaped_json_decodes_to_the_same_value(text: str) -> None:
    shown = escape_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(shown) == {text: [text]}
    assert not set(shown) & set(ORDERS)
