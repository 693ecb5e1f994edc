"""Payloads on the command line or its standard input are checked before any is pushed."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import typer

from laneway.cli.payloads import cut, find_payloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Give = Callable[[bytes], None]


@pytest.fixture
def give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Give]:
    """Have bytes be the standard input."""
    path = tmp_path / "input"
    with ExitStack() as stack:

        def put(data: bytes) -> None:
            path.write_bytes(data)
            monkeypatch.setattr("sys.stdin", stack.enter_context(path.open()))

        yield put


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"{", "is not JSON: Expecting property name enclosed in double quotes at character 2"),
        (b"NaN", "is not JSON: JSON has no number NaN"),
        (b"[-Infinity]", "is not JSON: JSON has no number -Infinity"),
        (b"1e999", ": $ is inf, which JSON does not have"),
        (b"9" * 5000, "is not JSON: Exceeds the limit"),
        (b'"\\ud800"', ": $ cannot be encoded as JSON"),
        (b"[" * 100_000, "is nested too deep"),
        (b"[" * 65 + b"]" * 65, "is nested more than 64 deep"),
        (b"\xff", "is not UTF-8"),
        (b'"' + b"x" * 17_000_000 + b'"', ": $ has 17000000 characters"),
        (b'{"\\u001b": 1e999}', ": $.\\x1b is inf, which JSON does not have"),
    ],
    ids=range(11),
)
@pytest.mark.parametrize("stream", [False, True])
async def test_invalid_line_is_named_by_its_number(
    give: Give, bad: bytes, words: str, *, stream: bool
) -> None:
    give(b"1\n\n2\n" + bad + b"\n3")
    batches = []
    with pytest.raises(typer.BadParameter) as raised:  # noqa: PT012 - where it is raised differs
        _, items = await find_payloads("-", None, stream=stream)
        async for batch in cut(items, 3):
            batches.append(batch)  # noqa: PERF401 - to be looked at after the error
    assert raised.value.message.startswith("line 4")
    assert words in raised.value.message
    assert batches == ([[1, 2]] if stream else [])


async def test_input_is_read_to_the_end(give: Give) -> None:
    for stream in (False, True):
        give(b'1\r\n  \n{"a": "\xc3\xa9"}\n[3]')
        _, items = await find_payloads("-", None, stream=stream)
        assert [batch async for batch in cut(items, 2)] == [[1, {"a": "é"}], [[3]]]


async def test_large_input_is_pushed_while_it_is_read(
    give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.cli.payloads._AHEAD", 10)
    give(b"1\n" * 20 + b"bad\n")
    _, items = await find_payloads("-", None, stream=False)
    for _ in range(20):
        assert await anext(items) == 1
    with pytest.raises(typer.BadParameter, match="line 21"):
        await anext(items)


@pytest.mark.parametrize(
    ("payload", "messages", "stream"), [("-", 2, False), ("1", None, True), (None, None, True)]
)
async def test_option_without_effect_is_refused(
    payload: str | None, messages: int | None, *, stream: bool
) -> None:
    with pytest.raises(typer.BadParameter, match="--"):
        await find_payloads(payload, messages, stream=stream)
