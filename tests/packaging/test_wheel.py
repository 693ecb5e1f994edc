"""The wheel, installed with its runtime dependencies only."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.documents.shell import run_shell
from tests.postgres import open_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGES = ("laneway", "pyspark_laneway")
# The same as in the Makefile.
UV_SETTINGS = {"UV_SYSTEM_CERTS": "true", "UV_PYTHON_DOWNLOADS": "never"}

# Imports every module but those for Spark, which ask for an extra.
IMPORT_ALL = """
import importlib, pkgutil, laneway
modules = [item.name for item in pkgutil.walk_packages(laneway.__path__, "laneway.")]
for name in modules:
    if not name.startswith("laneway.lake"):
        importlib.import_module(name)
print(len(modules))
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the source distribution and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run_uv("build", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder))
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Iterator[Path]:
    """Yield a fresh virtual environment that has the wheel and the locked runtime dependencies."""
    with open_directory() as folder:
        venv = folder / "venv"
        python = ["--python", str(venv / "bin" / "python")]
        run_uv("venv", "--python", sys.executable, str(venv))
        locked = ["--require-hashes", str(ROOT / "requirements" / "runtime.txt")]
        try:
            run_uv("pip", "sync", "--offline", *python, *locked)
        except AssertionError:  # uv's cache does not have them all
            run_uv("pip", "sync", *python, *locked)
        run_uv("pip", "install", "--offline", "--no-deps", *python, str(wheel))
        run_uv("pip", "check", *python)
        yield venv


def test_wheel_contains_the_packages_and_all_their_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    shipped = {name for name in names if name.startswith(tuple(f"{each}/" for each in PACKAGES))}
    metadata = {name for name in names if re.match(r"laneway-[^/]+\.dist-info/", name)}
    assert shipped | metadata == set(names)
    assert shipped == {
        str(path.relative_to(SOURCE))
        for package in PACKAGES
        for path in (SOURCE / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "laneway/py.typed" in shipped
    assert "laneway/sql/catalogue.json" in shipped


def test_wheel_leaves_out_the_tools_that_need_a_checkout(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modules = {Path(name).name for name in archive.namelist()}
    tools = {path.name for path in (ROOT / "tools").glob("*.py")}
    assert "derivation.py" in tools
    assert tools & modules == set()


def test_source_distribution_contains_no_more_than_the_repository(dist: Path) -> None:
    (found,) = dist.glob("*.tar.gz")
    with tarfile.open(found) as archive:
        files = [member.name.partition("/")[2] for member in archive if member.isfile()]
    assert [name for name in files if name != "PKG-INFO" and not (ROOT / name).is_file()] == []
    assert {name.partition("/")[0] for name in files} <= {
        "src",
        "tests",
        "tools",
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
    }


def test_command_prints_its_version_and_help(environment: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert run(environment / "bin" / "laneway", "--version").strip() == f"laneway {version}"
    assert "serve" in run(environment / "bin" / "laneway", "--help")


def test_every_module_loads_with_the_runtime_dependencies_alone(environment: Path) -> None:
    count = run(environment / "bin" / "python", "-W", "error", "-c", IMPORT_ALL)
    assert int(count) > 100


def test_server_starts_on_the_bundled_database(environment: Path) -> None:
    with open_directory() as folder:
        log = folder / "log"
        with log.open("wb") as file:
            server = subprocess.Popen(
                [environment / "bin" / "laneway", "serve", "--port", "0"],
                cwd=folder,
                env={"PATH": "/usr/bin:/bin"},
                stderr=file,
            )
        try:
            url = wait_until_ready(server, log)
            with httpx.Client(base_url=f"{url}/api", timeout=30) as client:
                health = client.get("/health/ready")
                assert health.status_code == 200, health.text
                script = client.get("/reference/scalar.js")
                assert script.status_code == 200
                assert len(script.content) > 100_000
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0, log.read_text()
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()


@pytest.mark.document("README.md", "pip install")
def test_readme_installs_the_package_and_starts_the_server(
    texts: list[str], dist: Path, environment: Path
) -> None:
    assert (environment / "pyvenv.cfg").exists()
    with open_directory() as folder:
        venv = folder / "venv"
        run_uv("venv", "--python", sys.executable, str(venv))
        # pip itself has no cache of wheels that could do without the index.
        text = f'pip() {{ uv pip "$@"; }}\n{texts[0]}'
        path = f"{venv / 'bin'}:{find_uv().parent}"
        run_block(folder, text, path, VIRTUAL_ENV=str(venv), **use_wheel(dist))


@pytest.mark.document("README.md", "uvx")
def test_readme_runs_the_package_with_uvx(texts: list[str], dist: Path, environment: Path) -> None:
    assert (environment / "pyvenv.cfg").exists()
    with open_directory() as folder:
        run_block(folder, texts[0], str(find_uv().parent), **use_wheel(dist))


@pytest.mark.document("README.md", "make run")
def test_readme_runs_a_clone_with_what_running_needs_alone(
    texts: list[str], environment: Path
) -> None:
    assert (environment / "pyvenv.cfg").exists()
    with open_directory() as folder:
        copy_repository(folder)
        run_block(folder, texts[0], str(find_uv().parent))
        python = str(folder / ".venv" / "bin" / "python")
        listed = run_uv("pip", "list", "--format", "json", "--python", python)
        installed = {each["name"] for each in json.loads(listed)}
        lock = (ROOT / "requirements" / "run.txt").read_text()
        assert installed - set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE)) == {"laneway"}


def run_block(folder: Path, text: str, path: str, **variables: str) -> None:
    """Run a block of the README that ends with a running server.

    Packages come from uv's cache, which `environment` has filled, or else from the index.
    """
    kept = {name: os.environ[name] for name in ("HOME", "UV_CACHE_DIR") if name in os.environ}
    variables = kept | UV_SETTINGS | variables
    try:
        done = run_shell(folder, text, path=path, UV_OFFLINE="true", **variables)
    except AssertionError:
        done = run_shell(folder, text, path=path, **variables)
    assert "Laneway listens on http://" in done.stdout


def use_wheel(dist: Path) -> dict[str, str]:
    """Return the settings with which uv finds the wheel, and for the rest the locked versions."""
    lock = str(ROOT / "requirements" / "runtime.txt")
    return {"UV_FIND_LINKS": str(dist), "UV_CONSTRAINT": lock}


def copy_repository(folder: Path) -> None:
    """Copy what a clone of this working tree would have."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in listed.split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def find_uv() -> Path:
    private = ROOT / ".venv-tools" / "bin" / "uv"
    uv = Path(shutil.which("uv") or private)
    assert uv.exists(), f"uv is neither on the PATH nor at {private}: run `make setup`"
    return uv


def run_uv(*arguments: str) -> str:
    return run(find_uv(), *arguments)


def run(program: str | Path, *arguments: str) -> str:
    """Return what the program prints; it sees neither the checkout nor its virtual environment."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    done = subprocess.run(
        [program, *arguments],
        cwd=ROOT if Path(program).name == "uv" else "/",
        env={name: value for name, value in os.environ.items() if name not in hidden} | UV_SETTINGS,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_until_ready(server: subprocess.Popen[bytes], log: Path) -> str:
    """Return the URL that the server prints once it listens."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        ready = re.search(r"Laneway listens on (http://\S+)", log.read_text())
        if ready is not None:
            return ready[1]
        assert server.poll() is None, f"the server did not start: {log.read_text()}"
        time.sleep(0.02)
    raise AssertionError(f"the server did not start within 60 seconds: {log.read_text()}")
