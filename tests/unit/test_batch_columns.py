"""Batches become the arrays that the SQL functions take, without loss."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from laneway.domain.messages import OutgoingMessage, Receipt
from laneway.engine.columns import LostSpan, make_spans, squeeze, turn_messages

if TYPE_CHECKING:
    from laneway.domain.messages import Token

TOKENS: list[Token] = [UUID(int=1), UUID(int=2), str(UUID(int=3))]

receipts = st.lists(
    st.builds(Receipt, st.sampled_from(TOKENS), st.integers(1, 2), st.integers(1, 9))
)


def test_columns_of_defaults_are_null() -> None:
    columns = turn_messages([OutgoingMessage("1"), OutgoingMessage("2")])
    assert columns.bodies == ("1", "2")
    assert set(columns[1:]) == {None}


def test_equal_values_become_one_element() -> None:
    message = OutgoingMessage(
        "1",
        partition="a",
        priority=3,
        delay=timedelta(seconds=1),
        dedup_key="k",
        headers="{}",
        lease=timedelta(seconds=2),
        max_attempts=4,
        dedup_window=timedelta(seconds=3),
    )
    assert turn_messages([message, message]) == (
        ("1", "1"),
        ("a",),
        (3,),
        (timedelta(seconds=1),),
        ("k",),
        ("{}",),
        (timedelta(seconds=2),),
        (4,),
        (timedelta(seconds=3),),
    )


def test_different_values_become_a_whole_column() -> None:
    messages = [OutgoingMessage("1", partition="a"), OutgoingMessage("2", priority=1)]
    columns = turn_messages(messages)
    assert columns.partitions == ("a", "")
    assert columns.priorities == (0, 1)


def test_no_messages_have_no_columns() -> None:
    assert turn_messages([]) == ((), *[None] * 8)


@given(st.lists(st.sampled_from([None, 0, 1]), min_size=1))
def test_shortened_column_means_the_same(column: list[int | None]) -> None:
    squeezed = squeeze(column)
    if squeezed is None:
        squeezed = [None]
    assert (list(squeezed) * len(column) if len(squeezed) == 1 else squeezed) == column


def test_messages_of_a_token_in_order_are_one_span() -> None:
    assert make_spans([Receipt(TOKENS[0], 1, seq) for seq in range(5, 105)]) == (
        [TOKENS[0]],
        [1],
        [5],
        [104],
    )


def test_messages_of_a_token_in_any_order_are_one_span() -> None:
    runs = make_spans([Receipt(TOKENS[0], 1, seq) for seq in (3, 1, 2)])
    assert (runs.first, runs.last) == ([1], [3])


@given(receipts)
def test_spans_cover_exactly_the_receipts(items: list[Receipt]) -> None:
    covered = {
        (token, lane, seq)
        for token, lane, first, last in zip(*make_spans(items), strict=True)
        for seq in range(first, last + 1)
    }
    assert covered == set(items)


def test_lost_messages_are_found_by_their_positions() -> None:
    items = [Receipt(TOKENS[0], 1, seq) for seq in range(5, 9)]
    items += [Receipt(TOKENS[1], 1, seq) for seq in range(1, 4)]
    runs = make_spans(items)
    assert runs.messages == len(items)
    assert runs.find_positions([LostSpan(0, 6, 7), LostSpan(1, 3, 3)]) == [1, 2, 6]
    assert runs.find_positions([]) == []
