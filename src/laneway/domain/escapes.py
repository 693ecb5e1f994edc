"""Makes untrusted text safe: to print on terminals, and to store in the database."""

from __future__ import annotations

import re

# C0 and C1 control characters, bidirectional marks, unusual line ends, unpaired surrogates.
_ORDERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_NAMES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_ONE_BYTE = 0x100


def escape(text: str, *, lines: bool = False) -> str:
    r"""Return the text with \x1b for an escape and so on; lines: keep line ends and tabs."""

    def spell(match: re.Match[str]) -> str:
        found = match[0]
        if lines and found in "\n\t":
            return found
        code = ord(found)
        return _NAMES.get(found) or (f"\\x{code:02x}" if code < _ONE_BYTE else f"\\u{code:04x}")

    return _ORDERS.sub(spell, text)


def replace_unstorable(text: str) -> str:
    """Replace the characters that the database cannot store: NUL and unpaired surrogates."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def escape_json(text: str) -> str:
    """Return equal JSON, with characters escaped that JSON itself allows in texts."""
    return _ORDERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
