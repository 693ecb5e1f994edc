"""The programs in examples/ run."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import httpx

import laneway
from tests.library.conftest import QUIET
from tests.library.terminal import LANEWAY
from tests.library.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from laneway import Connection
    from tests.library.conftest import Place

EXAMPLES = Path(__file__).parents[2] / "examples" / "library"


def run(name: str, address: str) -> str:
    return subprocess.run(
        [sys.executable, EXAMPLES / name, address],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


async def test_example_processes_its_orders(place: Place) -> None:
    assert "pushed" in run("produce.py", place.url)
    assert "exist" in run("transaction.py", place.dsn)
    with subprocess.Popen([sys.executable, EXAMPLES / "worker.py", place.dsn]) as worker:
        try:
            async with laneway.connect(place.dsn, settings=QUIET) as lane:
                await until(lambda: done(lane))
        finally:
            worker.terminate()
    assert worker.returncode == 0


async def test_fastapi_application_gets_the_report_of_its_job(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", place.dsn)
    app = load("fastapi_app").app
    web = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app")
    async with app.router.lifespan_context(app), web:
        job = (await web.post("/reports", params={"customer": "Ada"})).json()["job"]

        async def find() -> Any:
            response = await web.get(f"/reports/{job}")
            return None if response.status_code == 404 else response.json()

        assert await find() is None
        assert (await web.get("/reports/mine")).status_code == 404
        with jobs_of("fastapi_app"):
            assert await until(find) == {"title": "Report for Ada"}


async def test_flask_application_gets_the_report_of_its_job(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", place.dsn)
    closers: list[Callable[[], None]] = []
    monkeypatch.setattr("atexit.register", closers.append)

    def use() -> None:
        client = load("flask_app").create_app().test_client()
        job = client.post("/reports?customer=Ada").json["job"]
        assert client.get(f"/reports/{job}").status_code == 404
        assert client.get("/reports/mine").status_code == 404
        with jobs_of("flask_app"):
            while (response := client.get(f"/reports/{job}")).status_code == 404:
                sleep(0.02)
        assert response.json == {"title": "Report for Ada"}
        (close,) = closers
        close()

    await asyncio.to_thread(use)


def load(name: str) -> Any:
    """Import an example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def jobs_of(name: str) -> Iterator[None]:
    """Run an example's worker meanwhile."""
    with subprocess.Popen([LANEWAY, "worker", "run", f"{name}:jobs"], cwd=EXAMPLES) as worker:
        try:
            yield
        finally:
            worker.terminate()


async def done(lane: Connection) -> bool:
    """Tell whether every order has its receipt."""
    runs = {item.run_id: item for item in await lane.admin.list_runs(limit=1000)}
    orders = [f"order-{number}" for number in (0, 1, 2, 3, 4, 99)]
    return all(name in runs and runs[name].result is not None for name in orders)
