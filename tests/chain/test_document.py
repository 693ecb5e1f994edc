"""The relayer target that docs/gateway.md shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chain.chain import make_account
from tests.chain.stack import API_KEY, run_relayer, wait_for
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chain.chain import Chain


@pytest.mark.document("docs/gateway.md", 'kind = "openzeppelin"')
async def test_documented_target_relays(
    texts: list[str], database: str, chain: Chain, tmp_path: Path
) -> None:
    (text,) = texts
    async with run_relayer(chain, tmp_path, "sepolia-example") as relayer:
        for shown, here in {
            "http://10.0.0.5:8080": relayer.url,
            "http://10.0.0.5:8545": chain.url,
            "10.0.0.0/8": "127.0.0.0/8",
            "0x5FbDB2315678afecb367f032d93F642f64180aa3": chain.forwarder,
        }.items():
            assert shown in text
            text = text.replace(shown, here)
        path = tmp_path / "laneway.toml"
        path.write_text(text)
        secrets = {"RELAYER_API_KEY": API_KEY, "WEBHOOK_SIGNING_KEY": "of-the-relayer"}
        async with (
            run_laneway(database, "--gateway", "--config", str(path), **secrets) as server,
            server.client() as api,
        ):
            request = {"to": make_account().address, "data": "0x", "value": "0"}
            accepted = await api.post("/v1/relay/direct", json=request)
            await wait_for(api, accepted.json()["transactionId"], "confirmed")
            nonce = await api.get(f"/v1/relay/gasless/nonce/{make_account().address}")
            assert nonce.json() == {"nonce": "0"}
