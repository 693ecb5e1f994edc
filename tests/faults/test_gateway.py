"""The gateway submits as often as it promises, whatever is killed, and tells every result."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from random import Random
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from tests.faults.installation import TARGETS, install
from tests.faults.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.faults.installation import Installation

# The full size is 1000; it takes some minutes.
TRANSACTIONS = int(os.environ.get("LANEWAY_TEST_GATEWAY_TRANSACTIONS", "150"))
# Transactions for each kill.
TRANCHE = 15
VICTIMS = ("gateway", "gateway", "server", "gateway", "postgres")


@pytest.fixture
async def installation() -> AsyncIterator[Installation]:
    async with install() as installation:
        yield installation


@pytest.mark.invariant(15, 16)
@pytest.mark.timeout(60 + 2 * TRANSACTIONS)
async def test_every_transaction_is_submitted_as_promised_under_random_kills(
    installation: Installation,
) -> None:
    random = Random("gateway")  # noqa: S311 - which process is killed is no secret
    began = monotonic()
    for gateway in installation.gateways:
        await gateway.start()
    kills = dict.fromkeys(VICTIMS, 0)
    keys = (f"{n}" for n in range(TRANSACTIONS))
    victims = itertools.cycle(VICTIMS)
    async with asyncio.TaskGroup() as tasks:
        while tranche := list(itertools.islice(keys, TRANCHE)):
            for key in tranche:
                tasks.create_task(installation.accept(random.choice(TARGETS), key))
            victim = next(victims)
            kills[victim] += 1
            await kill(installation, victim, random)
    # What only leases that nobody needs still stand for does not have to wait for their end.
    for gateway in installation.gateways:
        await gateway.wait_until_ready()
        assert await gateway.stop() == 0
    await installation.end_leases()
    for gateway in installation.gateways:
        await gateway.start()
    faults = await installation.settle()
    ledger = installation.ledger
    counts = ledger.submissions
    print(  # noqa: T201 - shown with pytest -s
        f"{len(ledger.accepted)} transactions, kills {kills}, {counts.total()} submissions,"
        f" {sum(each > 1 for each in counts.values())} transactions submitted more than once,"
        f" {sum(each['status'] == 'failed' for each in ledger.found.values())} failed as unknown,"
        f" {monotonic() - began:.0f} s"
    )
    assert len(ledger.accepted) == TRANSACTIONS
    assert faults == []


async def kill(installation: Installation, victim: str, random: Random) -> None:
    """Kill a process at a random moment of its work, and start it again."""
    if victim == "postgres":
        await asyncio.sleep(random.uniform(0, 0.5))
        await installation.crash_database()
        return
    program = installation.server if victim == "server" else random.choice(installation.gateways)
    await program.wait_until_ready()
    await asyncio.sleep(random.uniform(0, 0.5))
    await program.stop(signal.SIGKILL)
    await installation.end_leases([program.pid])
    await program.start()


@pytest.mark.invariant(16)
@pytest.mark.parametrize(
    ("target", "submissions", "status"),
    [("asked", 1, "success"), ("at-most-once", 1, "failed"), ("at-least-once", 2, "success")],
)
async def test_kill_between_the_call_and_the_store(
    installation: Installation, target: str, submissions: int, status: str
) -> None:
    [gateway, _] = installation.gateways
    await gateway.start()
    await installation.hold()
    transaction = await installation.accept(target, "1")
    await installation.wait_until_held()
    await gateway.stop(signal.SIGKILL)
    await installation.release()
    await installation.end_leases([gateway.pid])
    await gateway.start()
    found = await installation.wait_until_final(transaction)
    assert found["status"] == status
    assert await installation.settle() == []
    assert installation.ledger.submissions == {transaction: submissions}


@pytest.mark.parametrize(("target", "status"), [("asked", "success"), ("at-most-once", "failed")])
async def test_process_that_lost_its_lease_while_stopped_submits_nothing_more(
    installation: Installation, target: str, status: str
) -> None:
    [stopped, other] = installation.gateways
    await stopped.start()
    await installation.hold()
    transaction = await installation.accept(target, "1")
    await installation.wait_until_held()
    stopped.signal(signal.SIGSTOP)
    await installation.end_leases([stopped.pid])
    await other.start()
    found = await installation.wait_until_final(transaction)
    assert found["status"] == status
    # It may have been sent, so a late answer still counts.
    await installation.release()
    stopped.signal(signal.SIGCONT)
    await stopped.read(rf'"transactionId": ?"{transaction}".*"action": ?"success"')
    assert await installation.settle() == []
    assert installation.ledger.submissions == {transaction: 1}
    assert await stopped.stop() == 0


@pytest.mark.invariant(17)
async def test_result_is_stored_when_the_database_is_back(installation: Installation) -> None:
    [gateway, _] = installation.gateways
    await gateway.start()
    await installation.hold()
    transactions = await asyncio.gather(
        *(installation.accept(TARGETS[n % 3], str(n)) for n in range(6))
    )
    await installation.wait_until_held()
    await installation.crash_database()
    await installation.release()
    assert await installation.settle() == []
    found = installation.ledger.found
    assert {found[each]["status"] for each in transactions} == {"success"}


async def test_shutdown_ends_in_time_with_a_call_in_progress(installation: Installation) -> None:
    [gateway, other] = installation.gateways
    await gateway.start()
    await installation.hold()
    transaction = await installation.accept("asked", "1")
    await installation.wait_until_held()
    began = monotonic()
    assert await gateway.stop() == 0
    assert monotonic() - began < 15, "3 s for calls, and the time that a loaded machine takes"
    await installation.release()
    await installation.end_leases()
    await other.start()
    assert await installation.settle() == []
    assert installation.ledger.submissions == {transaction: 1}


async def test_shutdown_ends_in_time_without_the_database(installation: Installation) -> None:
    [gateway, other] = installation.gateways
    await gateway.start()
    await installation.hold()
    transactions = [await installation.accept(target, target) for target in TARGETS]
    await installation.wait_until_held(3)
    await installation.postgres.stop()
    # The answers come, and cannot be stored.
    await installation.release()
    began = monotonic()
    assert await gateway.stop() == 0
    assert monotonic() - began < 25, (
        "3 s for calls, 5 s to release, 5 s to close, and a loaded machine"
    )
    await installation.postgres.start()
    await installation.end_leases()
    await other.start()
    assert await installation.settle() == []
    assert set(installation.ledger.submissions) == set(transactions)


def test_ledger_finds_what_is_wrong() -> None:
    def submit(key: str, target: str) -> dict[str, str]:
        return {"kind": "submission", "key": key, "target": target, "body": "1"}

    def tell(key: str, number: int, status: str = "success") -> dict[str, str]:
        event = {"transactionId": key, "status": status}
        return {"kind": "webhook", "id": f"msg_{number}", "body": json.dumps(event)}

    def find(ledger: Ledger) -> str:
        [fault] = ledger.find_faults()
        return fault

    unknown = {"status": "failed", "error_message": "the result is unknown"}

    def make() -> Ledger:
        ledger = Ledger(
            {"a": ("asked", "1"), "b": ("at-most-once", "1"), "c": ("at-least-once", "1")},
            {"a": {"status": "success"}, "b": unknown, "c": {"status": "success"}},
            [
                submit("a", "asked"),
                submit("b", "at-most-once"),
                *[submit("c", "at-least-once")] * 2,
            ],
        )
        ledger.records += [tell("a", 1), tell("a", 1), tell("b", 2, "failed"), tell("c", 3)]
        return ledger

    assert make().find_faults() == []
    for key, target in (("a", "asked"), ("b", "at-most-once")):
        doubled = make()
        doubled.records.append(submit(key, target))
        assert "submitted 2 times" in find(doubled)
    for key in "ac":
        missing = make()
        missing.records = [each for each in missing.records if each.get("key") != key]
        assert "submitted 0 times" in find(missing)
    foreign = make()
    foreign.records.append(submit("d", "asked"))
    assert "not accepted" in find(foreign)
    changed = make()
    changed.records[0]["body"] = "2"
    assert "changed" in find(changed)
    untold = make()
    untold.records.pop()
    assert "was told []" in find(untold)
    twice = make()
    twice.records.append(tell("a", 4))
    assert "was told ['success', 'success']" in find(twice)
    wrong = make()
    wrong.found["b"] = {"status": "failed", "error_message": "answered 400"}
    assert "answered 400" in find(wrong)
    open_ = make()
    open_.found["a"] = {"status": "pending"}
    assert "is pending" in find(open_)
