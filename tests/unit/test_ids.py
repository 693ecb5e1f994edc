"""A message id has two forms with the same bits."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.domain.errors import InvalidId
from laneway.domain.ids import MessageId

ids = st.builds(
    MessageId,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
)


@given(ids)
def test_both_forms_of_an_id_are_parsed(message_id: MessageId) -> None:
    assert MessageId.parse(str(message_id)) == message_id
    assert MessageId.from_uuid(message_id.uuid) == message_id


def test_text_form_has_segment_lane_and_seq() -> None:
    assert str(MessageId(2, 17, 4711)) == "2-17-4711"
    assert MessageId(2, 17, 4711).uuid == UUID("00000002-0000-0011-0000-000000001267")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1-2",
        "1-2-3-4",
        "a-2-3",
        "-1-2-3",
        "1-2-3 ",
        "01-2-3",
        "١-٢-٣",  # noqa: RUF001 - digits, but not ours
        "2147483648-1-1",
        "1-2147483648-1",
        "1-1-9223372036854775808",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidId, match="not a message id"):
        MessageId.parse(text)


def test_uuid_beyond_the_range_is_refused() -> None:
    with pytest.raises(InvalidId, match="out of range"):
        MessageId.from_uuid(UUID(int=2**128 - 1))
