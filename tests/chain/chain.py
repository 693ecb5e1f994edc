"""A blockchain of its own: a Hardhat node on this machine, with a forwarder and a token."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from eth_abi.abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.abi import function_signature_to_4byte_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eth_account.signers.local import LocalAccount

HERE = Path(__file__).parent / "node"
NODE = os.environ.get("LANEWAY_NODE", "node")
CHAIN_ID = 31337
FORWARDER_NAME = "Laneway's forwarder"

_READY = re.compile(r"Started HTTP and WebSocket JSON-RPC server at (http://127\.0\.0\.1:\d+)")
_FORWARD_REQUEST = (
    ("from", "address"),
    ("to", "address"),
    ("value", "uint256"),
    ("gas", "uint256"),
    ("nonce", "uint256"),
    ("deadline", "uint48"),
    ("data", "bytes"),
)


class Chain:
    """A node, and contracts of this object: the addresses forwarder and token."""

    def __init__(self, url: str, bytecode: dict[str, str]) -> None:
        self.url = url
        self._http = httpx.Client(timeout=60)
        self._owner = self.ask("eth_accounts")[0]
        self.forwarder = self._deploy(bytecode["Forwarder"], "string", FORWARDER_NAME)
        self.token = self._deploy(bytecode["Token"], "address", self.forwarder)

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self._http.post(self.url, json=question).json()
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def fund(self, address: str, wei: int) -> None:
        self.ask("hardhat_setBalance", address, hex(wei))

    def mint(self, address: str, amount: int) -> None:
        receipt = self._send(call("mint(address,uint256)", address, amount), to=self.token)
        assert receipt["status"] == "0x1"

    def count_tokens(self, address: str) -> int:
        question = {"to": self.token, "data": call("balanceOf(address)", address)}
        return int(self.ask("eth_call", question, "latest"), 16)

    def count_wei(self, address: str) -> int:
        return int(self.ask("eth_getBalance", address, "latest"), 16)

    def count_sent(self, address: str) -> int:
        """Return how many transactions an account has sent."""
        return int(self.ask("eth_getTransactionCount", address, "latest"), 16)

    def sign(self, signer: LocalAccount, data: str, **changed: Any) -> dict[str, Any]:
        """Return a gasless request that has the token contract called, signed with these fields."""
        fields = {
            "from": signer.address,
            "to": self.token,
            "value": 0,
            "gas": 100_000,
            "nonce": 0,
            "deadline": int(time.time()) + 3600,
            "data": bytes.fromhex(data.removeprefix("0x")),
            **changed,
        }
        domain = {
            "name": FORWARDER_NAME,
            "version": "1",
            "chainId": CHAIN_ID,
            "verifyingContract": self.forwarder,
        }
        members = [{"name": name, "type": type_} for name, type_ in _FORWARD_REQUEST]
        signed = signer.sign_message(encode_typed_data(domain, {"ForwardRequest": members}, fields))
        request = {
            name: f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
            for name, value in fields.items()
        }
        return {"request": request, "signature": f"0x{signed.signature.hex().removeprefix('0x')}"}

    def _deploy(self, bytecode: str, type_: str, argument: str) -> str:
        receipt = self._send("0x" + bytecode + encode([type_], [argument]).hex())
        address: str = receipt["contractAddress"]
        return address

    def _send(self, data: str, **fields: str) -> Any:
        transaction = {"from": self._owner, "data": data, **fields}
        return self.ask("eth_getTransactionReceipt", self.ask("eth_sendTransaction", transaction))


def call(signature: str, *values: Any) -> str:
    """Return the data that calls a function: its signature is like balanceOf(address)."""
    types = signature.partition("(")[2].removesuffix(")").split(",")
    return "0x" + (function_signature_to_4byte_selector(signature) + encode(types, values)).hex()


def transfer(to: str, amount: int) -> str:
    return call("transfer(address,uint256)", to, amount)


def make_account() -> LocalAccount:
    account: LocalAccount = Account.create()
    return account


@contextmanager
def share_chain(folder: Path) -> Iterator[Chain]:
    """Yield the chain of this test run: the first process starts it, and the last one stops it.

    folder: that all processes of the run have.
    """
    place = folder / "chain.json"
    with (folder / "chain.users").open("w") as users:
        with _lock(folder):
            if not place.exists():
                place.write_text(json.dumps(_start(folder)))
            found = json.loads(place.read_text())
            fcntl.flock(users, fcntl.LOCK_SH)
        chain = Chain(found["url"], found["bytecode"])
        try:
            yield chain
        finally:
            chain.close()
            with _lock(folder), suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.kill(found["pid"], signal.SIGKILL)
                place.unlink()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    with (folder / "chain.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(folder: Path) -> dict[str, Any]:
    log = folder / "chain.log"
    # Not of the module subprocess, which warns of a process that goes on.
    pid = os.posix_spawnp(
        NODE,
        [NODE, str(HERE / "node.js")],
        {**os.environ, "HARDHAT_DISABLE_TELEMETRY_PROMPT": "true"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )
    try:
        compiled = subprocess.run([NODE, "compile.js"], cwd=HERE, check=True, capture_output=True)
        return {"pid": pid, "url": _wait_until_ready(log), "bytecode": json.loads(compiled.stdout)}
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise


def _wait_until_ready(log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready = _READY.search(log.read_text() if log.exists() else "")
        if ready is not None:
            return ready[1]
        time.sleep(0.05)
    raise AssertionError(f"the chain did not start: {log.read_text()}")
