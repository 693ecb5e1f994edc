"""The gateway's metrics, and the alert rules that name them."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from aiohttp import web

from laneway.engine import Broker
from laneway.gateway.alerts import list_alerts
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

RULES = Path(__file__).parents[3] / "docs" / "gateway-alerts.yml"

SETTINGS = """
[gateway]
private_networks = ["127.0.0.0/8"]

[gateway.targets.mail]
url = "{url}/send"
attempts = 2
retry_first_seconds = 0.01
breaker_failures = 2
breaker_seconds = 600
callback_url = "{url}/hook"
callback_secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
"""


async def answer(request: web.Request) -> web.Response:
    """Answer with the status that the request names."""
    body = await request.json()
    return web.json_response({}, status=body.get("answer", 200))


@asynccontextmanager
async def run_target() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/{place}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def api(database: str, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a server that delivers to a target."""
    async with run_target() as url:
        settings = tmp_path / "laneway.toml"
        settings.write_text(SETTINGS.format(url=url))
        async with (
            run_laneway(database, "--gateway", "--config", str(settings)) as server,
            server.client() as client,
        ):
            yield client


async def read_metrics(api: httpx.AsyncClient) -> dict[str, float]:
    text = (await api.get(api.base_url.copy_with(path="/metrics"))).text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


async def wait_for_metric(api: httpx.AsyncClient, name: str, value: float) -> dict[str, float]:
    async with asyncio.timeout(60):
        while (found := await read_metrics(api)).get(name) != value:
            await asyncio.sleep(0.1)
    return found


async def send(api: httpx.AsyncClient, status: int) -> None:
    answered = await api.post("/v1/relay/mail", json={"answer": status})
    assert answered.status_code == HTTPStatus.ACCEPTED


async def test_calls_are_counted_by_how_they_end(api: httpx.AsyncClient) -> None:
    name = 'laneway_gateway_calls_total{{target="mail",outcome="{}"}}'
    await send(api, 200)
    await wait_for_metric(api, name.format("succeeded"), 1)
    await send(api, 422)
    await wait_for_metric(api, name.format("rejected"), 1)
    found = await wait_for_metric(api, 'laneway_gateway_webhooks_total{outcome="delivered"}', 2)
    assert found[name.format("retryable")] == found[name.format("unanswered")] == 0
    assert found['laneway_gateway_breaker_open{target="mail"}'] == 0
    assert found['laneway_gateway_webhooks_total{outcome="failed"}'] == 0


async def test_open_breaker_is_shown(api: httpx.AsyncClient) -> None:
    await send(api, 503)
    found = await wait_for_metric(api, 'laneway_gateway_breaker_open{target="mail"}', 1)
    assert found['laneway_gateway_calls_total{target="mail",outcome="retryable"}'] == 2


async def test_server_without_targets_shows_no_metrics_of_the_gateway(database: str) -> None:
    async with run_laneway(database) as server, server.client() as api:
        assert not [name for name in await read_metrics(api) if "gateway" in name]


async def test_rules_name_the_metrics_and_have_the_limits_of_the_alerts(
    api: httpx.AsyncClient, database: str
) -> None:
    shown = await wait_for_metric(api, 'laneway_gateway_breaker_open{target="mail"}', 0)
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    rules = [re.fullmatch(r"max\((\w+)\) > ([\d.]+)", rule["expr"]) for rule in group["rules"]]
    limits = {rule[1]: float(rule[2]) for rule in rules if rule}
    async with Broker(database) as broker:
        alerts = await list_alerts(broker)
    assert limits == {alert.metric: alert.limit for alert in alerts}
    assert [name for name in limits if name not in shown] == []
    assert len(rules) == len(limits) == 6
    for rule in group["rules"]:
        assert set(rule) == {"alert", "expr", "labels", "annotations"}
        assert set(rule["annotations"]) == {"summary", "description"}
