"""The tokens of consumers: each proves the lease on its own messages, and nothing else."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.domain.ids import LARGEST_SEQ
from laneway.server.lease_tokens import LeasedSpan, LeaseTokens

TOKENS = LeaseTokens(bytes(range(32)))
CLAIM = UUID("933d4cad-a010-45d3-927d-d25f31175c1a")

claims = st.uuids(version=4)
lanes = st.integers(1, 2**31 - 1)
seqs = st.integers(1, LARGEST_SEQ - 10_000)
counts = st.integers(1, 10_000)


@given(claims, lanes, seqs, counts)
def test_token_proves_the_messages_that_it_was_made_for(
    claim: UUID, lane: int, first: int, count: int
) -> None:
    text = TOKENS.write(claim, lane, first, count)
    last = first + count - 1
    assert TOKENS.read(text, lane, first) == (claim, first, last)
    assert TOKENS.read(text, lane, last) == (claim, first, last)
    for lane_asked, seq in ((lane, last + 1), (lane, first - 1), (lane + 1, first)):
        assert TOKENS.read(text, lane_asked, seq) is None
    assert str(claim) not in text
    assert claim.hex not in text


@given(st.text(max_size=80), st.integers(1, 9))
def test_text_of_nobody_proves_nothing(text: str, seq: int) -> None:
    found = TOKENS.read(text, 1, seq)
    assert found is None or found == (UUID(text), 1, LARGEST_SEQ)


def alter(text: str) -> list[str]:
    """Return the text with one character changed, removed, doubled or in upper case."""
    altered = []
    for at, character in enumerate(text):
        start, end = text[:at], text[at + 1 :]
        other = "0" if character != "0" else "1"
        altered += [start + other + end, start + end, start + 2 * character + end]
    return altered


@pytest.mark.parametrize("count", [1, 3])
def test_altered_token_proves_nothing_else(count: int) -> None:
    right = LeasedSpan(CLAIM, 5, 4 + count)
    for text in alter(TOKENS.write(CLAIM, 3, 5, count)):
        assert TOKENS.read(text, 3, 5) in {None, right}
        assert TOKENS.read(text, 3, 8) is None
    # What was read before does not change what is read next.
    assert TOKENS.read(TOKENS.write(CLAIM, 3, 5), 3, 5) == (CLAIM, 5, 5)


@pytest.mark.parametrize("span", ["-5-8", "-1-8", "-5", "-8-5", "-5-8-9", "-x-y", f"-5-{'f' * 80}"])
def test_span_of_a_token_cannot_be_widened(span: str) -> None:
    for count in (1, 3):
        start = TOKENS.write(CLAIM, 3, 5, count).partition("-")[0]
        assert TOKENS.read(start + span, 3, 8) is None
        assert TOKENS.read(start + span, 3, 5) is None


def test_token_of_another_database_proves_nothing() -> None:
    other = LeaseTokens(bytes(range(32, 64)))
    assert other.read(TOKENS.write(CLAIM, 3, 5), 3, 5) is None


def test_token_of_an_earlier_version_proves_every_message_of_its_claim() -> None:
    assert TOKENS.read(str(CLAIM), 3, 5) == (CLAIM, 1, LARGEST_SEQ)
