"""The forwarder contract of gasless transactions: its calls by ABI, and its signatures by EIP-712.

The contract is OpenZeppelin's ERC2771Forwarder.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES = {
    "ForwardRequest": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "gas", "type": "uint256"},
        {"name": "nonce", "type": "uint256"},
        {"name": "deadline", "type": "uint48"},
        {"name": "data", "type": "bytes"},
    ]
}
_NUMBERS = ("value", "gas", "nonce", "deadline")
# The functions nonces(address), and execute of one request with its signature.
_NONCES = bytes.fromhex("7ecebe00")
_EXECUTE = bytes.fromhex("df905caf")
_EXECUTE_TYPE = "(address,address,uint256,uint256,uint48,bytes,bytes)"
_WORD = 32
# The numbers of a signature are in the order of its curve. The contract accepts only one form of
# each: s is in the lower half, and v is 27 or 28.
_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
_V = (27, 28)

# What execute costs beside the request's own gas, and beside each byte of the call.
_GAS = 100_000
_GAS_PER_BYTE = 40


class Forwarder:
    """A forwarder contract on one chain. Its requests were checked: every field is there."""

    def __init__(self, *, name: str, chain_id: int, address: str) -> None:
        """Raise InvalidSetting if the extra is not installed."""
        depth = sys.getrecursionlimit()
        try:
            from eth_abi.abi import encode  # noqa: PLC0415 - an extra
            from eth_account import Account  # noqa: PLC0415
            from eth_account.messages import encode_typed_data  # noqa: PLC0415
            from eth_keys.exceptions import BadSignature  # noqa: PLC0415
        except ImportError:
            raise InvalidSetting(
                "gasless transactions need eth-account, which is not installed: run"
                " pip install 'laneway[ethereum]'"
            ) from None
        finally:
            # One of the packages raises it so far that a deeply nested request would end the process.
            sys.setrecursionlimit(depth)
        self.address = address
        self._domain = {
            "name": name,
            "version": "1",
            "chainId": chain_id,
            "verifyingContract": address,
        }
        self._encode = encode
        self._encode_typed_data = encode_typed_data
        self._recover = Account.recover_message
        self._bad_signature = BadSignature

    def is_signed(self, request: Mapping[str, str], signature: str) -> bool:
        """Return whether the account that the request is from has signed it."""
        signed = read_bytes(signature)
        r, s, v = int.from_bytes(signed[:32]), int.from_bytes(signed[32:64]), signed[64]
        if not (0 < r < _ORDER and 0 < s <= _ORDER // 2 and v in _V):
            return False
        message: dict[str, Any] = {
            **request,
            **{name: int(request[name]) for name in _NUMBERS},
            **{name: read_bytes(request[name]) for name in ("from", "to")},
            "data": read_bytes(request["data"]),
        }
        signable = self._encode_typed_data(self._domain, _TYPES, message)
        try:
            signer: str = self._recover(signable, signature=signed)
        except self._bad_signature:
            return False
        return signer.lower() == request["from"].lower()

    def execute(self, request: Mapping[str, str], signature: str) -> str:
        """Return the data of the call that has the contract execute a request."""
        fields = (
            read_bytes(request["from"]),
            read_bytes(request["to"]),
            int(request["value"]),
            int(request["gas"]),
            int(request["deadline"]),
            read_bytes(request["data"]),
            read_bytes(signature),
        )
        return "0x" + (_EXECUTE + self._encode([_EXECUTE_TYPE], [fields])).hex()


def ask_nonce(address: str) -> str:
    """Return the data of the call that asks a forwarder for the next nonce of an account."""
    return "0x" + (_NONCES + read_bytes(address).rjust(_WORD, b"\0")).hex()


def read_nonce(result: object) -> int | None:
    """Return the nonce of an answer to `ask_nonce`; None: it has none."""
    try:
        found = read_bytes(result) if isinstance(result, str) else b""
    except ValueError:
        return None
    return int.from_bytes(found) if len(found) == _WORD else None


def limit_gas(gas: int, call: str) -> int:
    """Return the gas that a call of execute needs to give a request its gas."""
    # A contract keeps a 64th of its gas when it calls another one.
    return gas + gas // 63 + 1 + _GAS + _GAS_PER_BYTE * (len(call) // 2)


def read_bytes(text: str) -> bytes:
    """Return what hexadecimal digits say, with or without 0x."""
    return bytes.fromhex(text.removeprefix("0x"))
