"""Starting, stopping, several processes, and an unreachable database."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.postgres import open_directory, run_server
from tests.protocol.blocking import block, wait_for_gauge, wait_until_refused
from tests.protocol.rest.calls import add, dequeue
from tests.protocol.servers import LANEWAY, run_laneway, wait_for_workers

SECRET = "s"  # noqa: S105 - what is tested
EVERYWHERE = "0.0.0.0"  # noqa: S104 - that is what is tested


async def test_sigterm_finishes_running_requests(database: str) -> None:
    async with run_laneway(database) as server, server.client() as api:
        await add(api, "default", "kept")
        waiting = [
            asyncio.ensure_future(
                api.get("/queue/message", params={"timeout": 60, "type": "never"})
            )
            for _ in range(5)
        ]
        async with block(database, "message"):
            adding = [asyncio.ensure_future(add(api, "default", n)) for n in range(20)]
            # With the one that asks.
            await wait_for_gauge(server, "laneway_http_requests_in_flight", 26)
            began = time.monotonic()
            stopping = asyncio.ensure_future(server.stop())
            await wait_until_refused(server)
        assert await stopping == 0
        assert time.monotonic() - began < 15
        answers = await asyncio.gather(*waiting)
        assert {answer.status_code for answer in answers} == {404}
        # The server closes these connections, so a client must not send another request there.
        assert {answer.headers.get("connection") for answer in answers} == {"close"}
        assert len(set(await asyncio.gather(*adding))) == 20
        assert "Traceback" not in server.log
    async with run_laneway(database) as server, server.client() as api:
        answer = await api.get("/queue/messages/batch", params={"count": 100})
        messages = answer.json()["messages"]
        assert len(messages) == 21
        assert {message["attempt_count"] for message in messages} == {1}


async def test_new_connections_are_refused_while_it_stops(database: str) -> None:
    async with run_laneway(database) as server:
        await server.stop(signal.SIGINT)
        async with server.client() as api:
            with pytest.raises(httpx.ConnectError):
                await api.get("/health")


async def test_slow_and_silent_clients_do_not_delay_the_stop(database: str) -> None:
    async with run_laneway(database, "--shutdown-seconds", "1") as server:
        place = urlsplit(server.url)
        _, silent = await asyncio.open_connection(place.hostname, place.port)
        _, slow = await asyncio.open_connection(place.hostname, place.port)
        slow.write(
            b"POST /api/queue/message HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        )
        await slow.drain()
        await asyncio.sleep(0.1)
        async with asyncio.timeout(20):
            assert await server.stop() == 0
        silent.close()
        slow.close()


async def test_workers_share_the_port_and_wake_each_other(database: str) -> None:
    async with run_laneway(database, "--workers", "2") as server:
        await wait_for_workers(server, 2)
        async with asyncio.timeout(60):
            seen: set[str] = set()
            while len(seen) < 2:
                # Each connection goes to whichever worker takes it first.
                async with server.client() as api:
                    answers = await asyncio.gather(*(api.get("/health/live") for _ in range(8)))
                seen |= {answer.headers["x-request-id"].split("-")[0] for answer in answers}
        async with server.client() as api:
            waiting = [
                asyncio.ensure_future(dequeue(api, "default", timeout=30, consumerId=str(n)))
                for n in range(8)
            ]
            await asyncio.sleep(0.2)
            ids = {await add(api, "default", n) for n in range(8)}
            async with asyncio.timeout(20):
                dequeued = await asyncio.gather(*waiting)
            assert {message["id"] for message in dequeued} == ids
        assert await server.stop() == 0
        # An interpreter that cannot end well says so there.
        assert "Fatal" not in server.log


async def test_worker_that_exits_is_restarted(database: str) -> None:
    async with run_laneway(database, "--workers", "2") as server:
        workers = await wait_for_workers(server, 2)
        os.kill(workers[0], signal.SIGKILL)
        async with asyncio.timeout(60):
            while workers[0] in (now := await wait_for_workers(server, 2)):
                await asyncio.sleep(0.05)
        assert workers[1] in now
        async with server.client() as api:
            await add(api, "default")
        assert await server.stop() == 0
        assert not any(psutil.pid_exists(pid) for pid in now)


async def test_workers_end_with_their_parent(database: str) -> None:
    async with run_laneway(database, "--workers", "2") as server:
        workers = await wait_for_workers(server, 2)
        await server.stop(signal.SIGKILL)
        async with asyncio.timeout(30):
            while any(psutil.pid_exists(pid) for pid in workers):
                await asyncio.sleep(0.05)


async def test_unreachable_database_is_503_at_once_and_recovers() -> None:
    async with (
        run_server() as postgres,
        run_laneway(postgres.dsn) as server,
        server.client() as api,
    ):
        kept = await add(api, "default")
        waiting = asyncio.ensure_future(
            api.get("/queue/message", params={"timeout": 60, "type": "never"})
        )
        await asyncio.sleep(0.1)
        await postgres.stop()
        async with asyncio.timeout(20):
            for call in (
                api.post("/queue/message", json={"type": "a", "payload": 1}),
                api.get("/queue/message"),
                api.post("/queue/ack", json={"id": kept}),
                waiting,
            ):
                answer = await call
                assert answer.status_code == 503
                assert int(answer.headers["retry-after"]) >= 1
                assert answer.json()["message"]
        answer = await api.get("/health")
        assert answer.status_code == 503
        assert answer.json()["details"]["postgres"]["ok"] is False
        assert (await api.get("/health/ready")).status_code == 503
        assert (await api.get("/health/live")).status_code == 200
        assert (await api.get(f"{server.url}/metrics")).status_code == 200
        await postgres.start()
        async with asyncio.timeout(30):
            while (await api.get("/health")).status_code != 200:
                await asyncio.sleep(0.05)
        assert (await dequeue(api, "default"))["id"] == kept


async def test_kill_loses_no_confirmed_message(database: str) -> None:
    known: set[str] = set()
    async with run_laneway(database) as server, server.client() as api:

        async def produce() -> None:
            while True:
                known.add(await add(api, "default"))

        producers = [asyncio.ensure_future(produce()) for _ in range(8)]
        while len(known) < 100:
            await asyncio.sleep(0.01)
        await server.stop(signal.SIGKILL)
        for producer in producers:
            producer.cancel()
        await asyncio.gather(*producers, return_exceptions=True)
    found: set[str] = set()
    async with run_laneway(database) as server, server.client() as api:
        while True:
            answer = await api.get("/queue/messages/batch", params={"count": 100})
            messages = answer.json()["messages"]
            if not messages:
                break
            found |= {message["id"] for message in messages}
    assert known <= found


async def test_default_queue_and_its_settings_come_from_the_environment(database: str) -> None:
    environment = {
        "QUEUE_NAME": "mine",
        "ACK_TIMEOUT_SECONDS": "7.5",
        "MAX_ATTEMPTS": "2",
        "MAX_PRIORITY_LEVELS": "3",
    }
    async with run_laneway(database, **environment) as server, server.client() as api:
        answer = await api.post("/queue/message", json={"type": "a", "payload": 1, "priority": 2})
        assert answer.json()["queue"] == "mine"
        message = (await api.get("/queue/message")).json()
        assert message["ack_timeout_seconds"] == 7.5
        assert message["max_attempts"] == 2
        answer = await api.post("/queue/message", json={"type": "a", "payload": 1, "priority": 3})
        assert answer.status_code == 422
        assert (await api.get("/queue/config")).json() == {
            "ack_timeout_seconds": 7.5,
            "max_attempts": 2,
        }


async def test_unusable_settings_are_one_line(database: str) -> None:
    occupied = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = occupied.sockets[0].getsockname()[1]
    for flags, words in (
        (("--host", EVERYWHERE), "without a key"),
        (("--port", str(port)), f"127.0.0.1 port {port}: Address already in use. Stop the program"),
    ):
        done = subprocess.run(
            [LANEWAY, "serve", "--port", "0", *flags],
            env={"PATH": "/usr/bin:/bin", "DATABASE_URL": database},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1, flags
        assert words in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
    occupied.close()


async def test_other_addresses_are_served_with_a_key_or_with_insecure(database: str) -> None:
    async with run_laneway(database, "--host", EVERYWHERE, "--insecure") as server:
        assert (await server.stop()) == 0
    async with run_laneway(database, "--host", EVERYWHERE, SECRET_KEY=SECRET) as server:
        assert (await server.stop()) == 0


async def test_without_a_database_the_embedded_one_is_used() -> None:
    with open_directory() as folder:
        async with run_laneway("", "--data-dir", str(folder / "data")) as server:
            async with server.client() as api:
                await add(api, "default")
            assert await server.stop() == 0
        assert not list((folder / "data").glob("postgres/postmaster.pid"))


async def test_banner_names_the_database_and_urls_that_work(database: str) -> None:
    flags = ("--log-format", "text", "--sqs-port", "0", "--host", "0.0.0.0")  # noqa: S104 - with a key
    async with run_laneway(database, *flags, SECRET_KEY="hush") as server:  # noqa: S106 - of the test
        async with asyncio.timeout(20):
            while "metrics    http" not in server.log:
                await asyncio.sleep(0.01)
        shown = server.log
        assert "  access     API key required (environment variable SECRET_KEY)\n" in shown
        assert "(environment variable DATABASE_URL)\n" in shown
        assert "hush" not in shown
        urls = re.findall(r"http://127\.0\.0\.1:\S+", shown)
        assert len(urls) == 5
        async with httpx.AsyncClient(headers={"X-API-KEY": "hush"}) as client:
            for url in urls:
                answer = await client.get(url + ("/queues" if url.endswith("/api") else ""))
                assert answer.status_code != 500, url
            reference = next(url for url in urls if url.endswith("/api/reference"))
            assert (await client.get(reference)).status_code == 200
            metrics = next(url for url in urls if url.endswith("/metrics/prometheus"))
            assert (await client.get(metrics)).status_code == 200
