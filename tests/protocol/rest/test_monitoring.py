"""Health, configuration, documents and metrics."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import asyncpg

from tests.protocol.rest.calls import add, dequeue
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    import httpx

    from tests.protocol.conftest import Shared


async def test_health_checks_the_database(api: httpx.AsyncClient) -> None:
    for path in ("/health", "/health/ready"):
        answer = await api.get(path)
        assert answer.status_code == 200
        body = answer.json()
        assert body["status"] == "OK"
        assert body["details"]["status"] == "healthy"
        assert body["details"]["postgres"]["ok"] is True
        assert body["details"]["postgres"]["latency"] > 0
    assert (await api.get("/health/live")).json() == {"status": "OK"}


async def test_database_that_refuses_writes_is_unhealthy(database: str) -> None:
    async with run_laneway(database) as server, server.client() as api:
        assert (await api.get("/health")).status_code == 200
        for setting, status in (("on", 503), ("off", 200)):
            connection = await asyncpg.connect(database)
            try:
                name = await connection.fetchval("select current_database()")
                await connection.execute("set transaction_read_only = off")
                await connection.execute("set default_transaction_read_only = off")
                await connection.execute(
                    f'alter database "{name}" set default_transaction_read_only = {setting}'
                )
                await connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
            finally:
                await connection.close()
            # Until the server has connected again.
            async with asyncio.timeout(60):
                while (answer := await api.get("/health")).status_code != status or (
                    answer.json()["details"]["postgres"].get("error") == "away"
                ):
                    await asyncio.sleep(0.05)
            streams = await api.get(f"{server.url}/health")
            assert (await api.get("/health/ready")).status_code == streams.status_code == status
            postgres = answer.json()["details"]["postgres"]
            assert (postgres["ok"], postgres.get("error")) == (
                (False, "read-only") if setting == "on" else (True, None)
            )
            assert streams.json()["database"] == "connected"
            assert (await api.get("/health/live")).status_code == 200


async def test_config_shows_the_defaults_of_new_queues(api: httpx.AsyncClient) -> None:
    answer = await api.get("/queue/config")
    assert answer.json() == {"ack_timeout_seconds": 30, "max_attempts": 3}


async def test_document_describes_every_route(api: httpx.AsyncClient) -> None:
    document = (await api.get("/doc")).json()
    assert document == (await api.get("/docs")).json()
    assert document["openapi"] == "3.1.0"
    add_one = document["paths"]["/api/queue/message"]["post"]
    assert add_one["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/NewMessage"
    }
    assert {"201", "401", "403", "404", "413", "422", "503"} <= set(add_one["responses"])
    touch = document["paths"]["/api/queue/message/{id}/touch"]["put"]
    assert [(item["name"], item["in"], item["required"]) for item in touch["parameters"]] == [
        ("id", "path", True)
    ]
    schema = document["components"]["schemas"]["NewMessage"]
    assert schema["required"] == ["type", "payload"]
    assert "ackTimeout" in schema["properties"]
    form = document["paths"]["/api/queue/import"]["post"]["requestBody"]["content"]
    assert form["multipart/form-data"]["schema"]["required"] == ["file"]
    names = set(re.findall(r"#/components/schemas/([\w.]+)", (await api.get("/doc")).text))
    assert names == set(document["components"]["schemas"])
    operations = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert len(operations) == len(set(operations))


async def test_openapi_types_are_read_by_the_reference(api: httpx.AsyncClient) -> None:
    schemas = (await api.get("/doc")).json()["components"]["schemas"]
    log = schemas["Log"]["properties"]
    assert log["queue"]["type"] == ["string", "null"]
    assert log["anomaly"] == {
        **schemas["AnomalyObject"],
        "type": ["object", "null"],
        "description": log["anomaly"]["description"],
    }
    assert {"object", "null", "string"} < set(
        schemas["NewMessage"]["properties"]["payload"]["type"]
    )
    # The reference page warns of a property without a type.
    assert all(
        each.keys() - {"description"}
        for schema in schemas.values()
        for each in schema.get("properties", {}).values()
    )


async def test_reference_loads_nothing_from_other_hosts(api: httpx.AsyncClient) -> None:
    page = await api.get("/reference")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "://" not in page.text
    script = await api.get("/reference/scalar.js")
    assert script.status_code == 200
    assert script.headers["content-type"].startswith("text/javascript")
    assert len(script.content) > 1_000_000
    plain = await api.get("/reference/scalar.js", headers={"Accept-Encoding": "identity"})
    assert plain.content == script.content


async def test_metrics_cover_queues_and_server(
    api: httpx.AsyncClient, queue: str, shared: Shared
) -> None:
    await add(api, queue)
    await add(api, queue)
    await dequeue(api, queue)
    found = None
    text = ""
    for _ in range(100):
        # The counts are looked up once a second.
        text = (await api.get(f"{shared.server.url}/metrics")).text
        found = re.search(
            rf'laneway_queue_in_flight{{queue="{queue}",group="default"}} (\S+)', text
        )
        if found is not None and found[1] == "1":
            break
    assert found is not None
    assert f'laneway_queue_depth{{queue="{queue}",group="default"}} 1' in text
    assert f'laneway_queue_dead{{queue="{queue}",group="default"}} 0' in text
    assert f'laneway_queue_oldest_age_seconds{{queue="{queue}",group="default"}}' in text
    labels = 'method="POST",path="/api/queue/message"'
    assert re.search(rf'laneway_http_requests_total{{{labels},status="2xx"}} [1-9]', text)
    name = "laneway_http_request_duration_seconds"
    assert re.search(rf'{name}_bucket{{{labels},le="\+Inf"}} [1-9]', text)
    for name in (
        "laneway_messages_total",
        "laneway_database_calls_total",
        "laneway_http_requests_in_flight",
        "laneway_pool_connections",
        "laneway_push_pump_messages",
        "laneway_claim_pump_waiters",
        "laneway_settle_pump_messages",
    ):
        assert re.search(rf"^{name}(?:{{.*}})? \d+$", text, re.MULTILINE), name
