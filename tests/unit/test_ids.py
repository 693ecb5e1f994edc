"""A message id has several forms, and each leads back to the message's address."""

from __future__ import annotations

from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.domain.errors import InvalidId
from laneway.domain.ids import MessageId
from laneway.server.sqs.ids import show_id, show_sequence

# Up to here a seq fits into a version 4 UUID beside segment and lane.
LAST_SHORT = 2**59 - 1
LAST_INT, LAST_BIGINT = 2**31 - 1, 2**63 - 1

numbers = st.integers(0, LAST_INT)
bounds = st.sampled_from((LAST_SHORT - 1, LAST_SHORT, LAST_SHORT + 1, LAST_BIGINT))
ids = st.builds(MessageId, numbers, numbers, st.integers(0, LAST_BIGINT) | bounds)
short_ids = st.builds(MessageId, numbers, numbers, st.integers(0, LAST_SHORT))


@given(ids)
def test_both_forms_of_an_id_are_parsed(message_id: MessageId) -> None:
    assert MessageId.parse(str(message_id)) == message_id
    assert MessageId.from_uuid(message_id.uuid) == message_id


@given(ids)
def test_id_of_sqs_leads_back_to_the_address(message_id: MessageId) -> None:
    assert MessageId.from_uuid(UUID(show_id(*message_id))) == message_id


@given(short_ids)
def test_id_of_sqs_is_a_version_4_uuid(message_id: MessageId) -> None:
    shown = UUID(show_id(*message_id))
    assert (str(shown), shown.version, shown.variant) == (show_id(*message_id), 4, RFC_4122)


@given(short_ids, short_ids)
def test_ids_of_sqs_sort_as_the_addresses(one: MessageId, other: MessageId) -> None:
    assert (show_id(*one) < show_id(*other)) == (one < other)


def test_id_of_sqs_at_its_bounds() -> None:
    assert show_id(LAST_INT, LAST_INT, LAST_SHORT) == "7fffffff-ffff-4fff-bfff-ffffffffffff"
    # A seq beyond them has the bits of the address; only its variant is another.
    beyond = UUID(show_id(LAST_INT, LAST_INT, LAST_SHORT + 1))
    assert beyond == MessageId(LAST_INT, LAST_INT, LAST_SHORT + 1).uuid
    assert beyond.variant != RFC_4122


@given(st.integers(1, LAST_BIGINT - 1))
def test_sequence_number_has_twenty_digits_and_increases(seq: int) -> None:
    assert len(show_sequence(seq)) == 20
    assert show_sequence(seq) < show_sequence(seq + 1)


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
