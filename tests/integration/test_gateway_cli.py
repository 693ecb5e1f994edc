"""The commands `laneway gateway`, and errors of their tables in laneway.toml."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from laneway.domain.messages import OutgoingMessage
from laneway.domain.settings import QueueSettings
from laneway.domain.transactions import (
    DEAD_LETTERS,
    TRANSACTIONS,
    WEBHOOKS,
    Finding,
    Finish,
    NewTransaction,
    Settlement,
)
from laneway.engine import Broker
from tests.protocol.gateway.world import Client, make_target, run_target, write_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

LANEWAY = Path(sys.executable).with_name("laneway")
HOURS = timedelta(hours=1)


class Shell:
    """Runs commands in a directory, on a database."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self._environment = {"PATH": "/usr/bin:/bin", "COLUMNS": "200", "DATABASE_URL": database}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            LANEWAY,
            "gateway",
            *arguments,
            cwd=self.folder,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *arguments: str, code: int = 0) -> str:
        """Return what a command prints, on stderr if it fails."""
        process = await self.start(*arguments)
        out, error = (text.decode() for text in await process.communicate())
        assert process.returncode == code, (out, error)
        assert "Traceback" not in error
        return error if code and not out else out

    async def read(self, *arguments: str) -> Any:
        return json.loads(await self.run(*arguments, "--format", "json"))

    def write(self, text: str) -> None:
        (self.folder / "laneway.toml").write_text(text)


@pytest.fixture
def shell(tmp_path: Path, database: str) -> Shell:
    shell = Shell(tmp_path, database)
    shell.write('[gateway.targets.bank]\nurl = "https://bank.example/pay"\n')
    return shell


@pytest.fixture
async def broker(database: str) -> AsyncIterator[Broker]:
    """Yield a broker on a database with the gateway's queues."""
    async with Broker(database) as broker:
        for name in (DEAD_LETTERS, WEBHOOKS, TRANSACTIONS):
            await broker.queues.create(name, QueueSettings())
        yield broker


async def accept(broker: Broker) -> UUID:
    made = uuid4()
    body = json.dumps({"transactionId": str(made), "type": "bank", "request": 1})
    await broker.transactions.accept(NewTransaction(made, "bank", "bank", "1", body))
    return made


async def give_up(broker: Broker) -> UUID:
    made = await accept(broker)
    [message] = await broker.claim(TRANSACTIONS, 1)
    await broker.transactions.begin(made, message)
    finding = Finding(made, error="the bank is closed", called=True)
    await broker.transactions.finish(Finish(message.receipt, Settlement.DEAD, finding, "closed"))
    return made


async def test_status_before_the_first_request(shell: Shell) -> None:
    assert "accepted no request yet" in await shell.run("status")
    assert await shell.read("status") == {"alerts": [], "targets": [], "endpoints": []}


async def test_status_shows_alerts_breakers_and_endpoints(shell: Shell, broker: Broker) -> None:
    await give_up(broker)
    await broker.transactions.note_webhook(
        "https://client.example/x", reason="answered 410", disable=True, patience=HOURS
    )
    await shell.run("breaker", "bank", "open")
    text = await shell.run("status", code=1)
    for words in ("errors", "FIRES", "bank", "open", "https://client.example/x", "answered 410"):
        assert words in text
    process = await shell.start("status", "--format", "json")
    shown = json.loads((await process.communicate())[0])
    assert process.returncode == 1
    assert [each["alert"] for each in shown["alerts"]] == [
        "queue_depth",
        "lag",
        "processing",
        "dead",
        "errors",
        "pending",
    ]
    assert {each["alert"] for each in shown["alerts"] if each["state"] == "FIRES"} == {"errors"}


async def test_transactions_are_listed_and_shown(shell: Shell, broker: Broker) -> None:
    failed, waiting = await give_up(broker), await accept(broker)
    rows = await shell.read("transactions")
    assert [each["id"] for each in rows] == [str(waiting), str(failed)]
    rows = await shell.read("transactions", "--status", "failed", "--target", "bank")
    assert [(each["id"], each["error"]) for each in rows] == [(str(failed), "the bank is closed")]
    assert await shell.read("transactions", "--target", "other") == []
    assert len(await shell.read("transactions", "--limit", "1")) == 1
    assert "the bank is closed" in await shell.run("show", str(failed))
    assert (await shell.read("show", str(failed)))["request"] == "1"


async def test_transaction_is_cancelled(shell: Shell, broker: Broker) -> None:
    made = await accept(broker)
    assert f"{made} cancelled" in await shell.run("cancel", str(made))
    error = await shell.run("cancel", str(made), code=1)
    assert f"transaction {made} cannot be cancelled: it is cancelled" in error


async def test_transaction_is_sent_again(shell: Shell, broker: Broker) -> None:
    made = await give_up(broker)
    assert "will be sent again" in await shell.run("retry", str(made))
    [message] = await broker.claim(TRANSACTIONS, 1)
    assert json.loads(message.body)["transactionId"] == str(made)
    error = await shell.run("retry", str(made), code=1)
    assert "was not given up" in error


@pytest.mark.parametrize("command", ["show", "cancel", "retry"])
async def test_unknown_transaction_is_an_error(shell: Shell, broker: Broker, command: str) -> None:
    del broker
    missing = str(uuid4())
    assert f"transaction {missing} not found" in await shell.run(command, missing, code=3)
    assert '"x" is not a transaction id' in await shell.run(command, "x", code=2)


async def test_breaker_is_set_by_hand(shell: Shell, broker: Broker) -> None:
    assert "breaker of bank is open" in await shell.run("breaker", "bank", "open")
    [known] = await broker.transactions.list_breakers()
    assert known.opened_at is not None
    await shell.run("breaker", "bank", "closed")
    [known] = await broker.transactions.list_breakers()
    assert known.opened_at is None
    error = await shell.run("breaker", "shop", "open", code=3)
    assert 'target "shop" not found in laneway.toml: it has bank' in error


async def test_disabled_webhook_is_enabled(shell: Shell, broker: Broker) -> None:
    url = "https://client.example/x"
    await broker.transactions.note_webhook(url, reason="410", disable=True, patience=HOURS)
    assert f"webhooks to {url} are sent again" in await shell.run("enable-webhook", url)
    assert await broker.transactions.list_endpoints() == []
    assert "has failed" in await shell.run("enable-webhook", url, code=3)


async def test_run_delivers_until_it_is_stopped(tmp_path: Path, database: str) -> None:
    async with run_target() as target, Client(target, target) as client, Broker(database) as broker:
        write_settings(
            tmp_path, {"bank": make_target(target, "bank")}, private_networks=["127.0.0.0/8"]
        )
        process = await Shell(tmp_path, database).start("run", "--concurrency", "3")
        assert process.stderr is not None
        text = (await process.stderr.readline()).decode()
        assert "delivers to bank, 3 calls at once" in text
        async with asyncio.timeout(60):
            while TRANSACTIONS not in {each.name for each in await broker.queues.list_all()}:
                await asyncio.sleep(0.02)
        await broker.push(TRANSACTIONS, [OutgoingMessage("{}", "bank")])
        made = await accept(broker)
        await client.calls("bank", 1, key=str(made))
        process.terminate()
        _, rest = await process.communicate()
        assert process.returncode == 0
        assert b"laneway gateway stopped" in rest
        found = await broker.transactions.find(made)
        assert found is not None
        assert found.status == "success"
        lines = [json.loads(line) for line in rest.decode().splitlines() if line.startswith("{")]
        steps = [each for each in lines if each.get("transactionId") == str(made)]
        assert [each["action"] for each in steps] == ["message_received", "processing", "success"]
        assert {"timestamp", "level", "messageId", "duration_ms"} <= set(steps[-1])
        assert steps[-1]["oz_relayer_response"]["status"] == 200


async def test_run_without_targets_is_an_error(shell: Shell) -> None:
    shell.write("")
    assert "laneway gateway target add" in await shell.run("run", code=1)


# Targets.


async def test_added_target_is_listed_without_its_secrets(shell: Shell) -> None:
    (shell.folder / "schema.json").write_text('{"type": "object"}')
    (shell.folder / "secret").write_text("top-secret\n")
    added = await shell.run(
        *("target", "add", "mail", "--url", "https://a.example/x", "--url", "https://b.example/x"),
        *("--header", "Authorization=file:secret", "--schema", "schema.json"),
        *("--redelivery", "at-least-once", "--attempts", "5", "--concurrency", "7"),
        *("--rate", "2.5", "--private-network", "10.0.0.0/8"),
        *("--callback-url", "https://c.example/", "--callback-secret", "whsec_" + "A" * 32),
    )
    assert "target mail added to laneway.toml" in added
    text = await shell.run("target", "list")
    assert "secret" not in text
    rows = await shell.read("target", "list")
    assert [each["name"] for each in rows] == ["bank", "mail"]
    assert rows[1] == {
        "name": "mail",
        "kind": "http",
        "urls": ["https://a.example/x", "https://b.example/x"],
        "redelivery": "at-least-once",
        "attempts": 5,
        "concurrency": 7,
        "rate": 2.5,
    }
    written = tomllib.loads((shell.folder / "laneway.toml").read_text())
    assert written["gateway"]["targets"]["mail"]["headers"] == {"Authorization": "file:secret"}


async def test_target_is_added_to_a_new_file(shell: Shell) -> None:
    (shell.folder / "laneway.toml").unlink()
    await shell.run("target", "add", "mail", "--url", "https://a.example/x")
    assert [each["name"] for each in await shell.read("target", "list")] == ["mail"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bank", "--url", "https://x.example"), 'already has a target "bank"'),
        (("Mail", "--url", "https://x.example"), "is not the name of a target"),
        (("direct", "--url", "https://x.example"), "is not the name of a target"),
        (("mail", "--url", "ftp://x.example"), "is not an http:// or https:// URL"),
        (("mail", "--url", "http://[::1"), "is not a URL"),
        (("mail", "--url", "https://x.example", "--kind", "soap"), "unknown kind"),
        (("mail", "--url", "https://x.example", "--attempts", "0"), "attempts"),
        (("mail", "--url", "https://x.example", "--rate", "0"), "rate"),
        (("mail", "--url", "https://x.example", "--concurrency", "-1"), "concurrency"),
        (("mail", "--url", "https://x.example", "--header", "nothing"), "NAME=VALUE"),
        (("mail", "--url", "https://x.example", "--header", "a=env:NOT_SET"), "NOT_SET"),
        (("mail", "--url", "https://x.example", "--schema", "missing.json"), "missing.json"),
        (("mail", "--url", "https://x.example", "--private-network", "x"), "not a network"),
        (("mail", "--url", "https://x.example", "--redelivery", "twice"), "at-most-once"),
        (("mail", "--url", "https://x.example", "--callback-url", "https://y"), "openssl rand"),
        (
            (
                "mail",
                "--url",
                "https://x.example",
                "--callback-url",
                "https://y",
                "--callback-secret",
                "short",
            ),
            "openssl rand",
        ),
    ],
)
async def test_target_that_is_wrong_is_not_added(
    shell: Shell, arguments: tuple[str, ...], words: str
) -> None:
    file = shell.folder / "laneway.toml"
    before = file.read_text()
    error = await shell.run("target", "add", *arguments, code=1)
    assert words in re.sub(r"\s+", " ", error)
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", "has no url"),
        ('url = "https://x.example"\nurlz = "x"', "urlz"),
        ("url = 5", "a string"),
        ('url = "https://x.example"\nattempts = "3"', "a whole number"),
        ('url = "https://x.example"\nattempts = 1000', "attempts"),
        ('url = "https://x.example"\ntimeout_seconds = 0', "timeout_seconds"),
        ('url = "https://x.example"\nretry_factor = 0.5', "retry_factor"),
        ('url = "https://x.example"\nredelivery = "maybe"', "at-least-once"),
        ('url = "https://x.example"\noptions = {statsu_url = "x"}', "statsu_url"),
        ('url = "https://x.example"\noptions = {lookup_url = "https://x/{id}"}', "transaction_id"),
        ('url = "https://x.example"\nstatuses = {done = "fine"}', "fine"),
        ('url = "https://x.example"\nwebhook_secrets = ["env:NOT_SET"]', "NOT_SET"),
        ('url = "https://u:p@x.example"', "contains a user or password"),
        ('url = "https://x.example"\nheaders = {a = "b\\nc"}', "headers"),
        ('url = "https://x.example"\nheaders = {"a b" = "c"}', "headers"),
        ('url = "https://x.example"\nmethod = "NO GET"', "method"),
        ('url = "https://x.example:99999"', "not a URL"),
    ],
)
@pytest.mark.parametrize("command", ["list", "run"])
async def test_wrong_table_is_an_error_with_its_place(
    shell: Shell, table: str, words: str, command: str
) -> None:
    shell.write(f"[gateway.targets.mail]\n{table}\n")
    arguments = ("target", "list") if command == "list" else ("run",)
    error = await shell.run(*arguments, code=1)
    assert "laneway.toml" in error
    assert words in error
