"""The gateway's functions: accept, begin, finish, report, cancel, retry, breakers and limits."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from laneway.domain.transactions import Finding, Finish, NewTransaction, Settlement
from laneway.engine.procedures import transactions as gateway
from tests.sql.calls import (
    Counts,
    ack,
    claim,
    count,
    create_queue,
    expire,
    expire_leases,
    find_orphans,
    make_due,
    nack,
    push,
    replay,
    start_and_block,
)

if TYPE_CHECKING:
    import asyncpg

    from laneway.domain.transactions import Transaction
    from tests.postgres import Connect
    from tests.sql.calls import (
        Delivery,
        Queue,
        Session,
    )

HOUR = timedelta(hours=1)
NONE = timedelta(0)
HOOK = "https://client.example/hook"


@dataclass
class World:
    """The gateway's queues, and the calls with what a test does not care about filled in."""

    session: Session
    work: Queue
    dead: Queue
    webhooks: Queue

    async def accept(
        self, *transactions: NewTransaction, session: Session | None = None
    ) -> list[str]:
        """Return the outcomes, in order."""
        return [row["outcome"] for row in await self.accept_rows(*transactions, session=session)]

    async def accept_rows(
        self, *transactions: NewTransaction, session: Session | None = None
    ) -> list[asyncpg.Record]:
        rows = await gateway.accept_transactions(
            session or self.session, queue_id=self.work.queue_id, transactions=transactions
        )
        return sorted(rows, key=lambda row: row["idx"])

    async def start(self, **more: Any) -> tuple[UUID, Delivery]:
        """Accept a transaction, claim its message, and begin its call."""
        new = make(**more)
        assert await self.accept(new) == ["new"]
        message = await self.claim()
        assert await self.begin(message) == "send"
        return new.id, message

    async def claim(self) -> Delivery:
        [message] = await claim(self.session, self.work, 1)
        return message

    async def begin(self, message: Delivery, session: Session | None = None) -> str:
        [row] = await gateway.begin_transactions(
            session or self.session,
            ids=[read_id(message)],
            tokens=[message.token],
            segments=[message.segment],
            lanes=[message.lane_id],
            seqs=[message.seq],
        )
        action: str = row["action"]
        return action

    async def finish(
        self,
        message: Delivery,
        settlement: Settlement,
        session: Session | None = None,
        **finding: Any,
    ) -> asyncpg.Record:
        receipt: Any = (message.token, message.lane_id, message.seq)
        found = Finding(read_id(message), **finding)
        reason = finding.get("error")
        [row] = await gateway.finish_transactions(
            session or self.session,
            finishes=[Finish(receipt, settlement, found, reason, NONE)],
            webhook_queue_id=self.webhooks.queue_id,
        )
        return row

    async def record(self, *findings: Finding, session: Session | None = None) -> list[str]:
        rows = await gateway.record_reports(
            session or self.session, findings=findings, webhook_queue_id=self.webhooks.queue_id
        )
        return [row["status"] for row in rows if row["changed"]]

    async def find(self, transaction_id: UUID) -> Transaction:
        [found] = await gateway.find_transactions(self.session, [transaction_id])
        return found

    async def cancel(self, transaction_id: UUID) -> tuple[str, bool] | None:
        row = await gateway.cancel_transaction(
            self.session, transaction_id, webhook_queue_id=self.webhooks.queue_id
        )
        return None if row is None else (row["status"], row["cancelled"])

    async def retry(self, transaction_id: UUID) -> tuple[str, bool] | None:
        row = await gateway.retry_transaction(
            self.session,
            transaction_id,
            queue_id=self.work.queue_id,
            body=json.dumps({"transactionId": str(transaction_id)}),
            max_attempts=None,
        )
        return None if row is None else (row["status"], row["retried"])

    async def fail_lost(self, *, min_age: timedelta = NONE) -> int:
        row = await gateway.fail_lost_transactions(
            self.session,
            after=None,
            limit=100,
            min_age=min_age,
            webhook_queue_id=self.webhooks.queue_id,
        )
        failed: int = row["failed"]
        return failed

    async def move_dead_letters(self) -> list[Delivery]:
        """Move dead letters to their queue, as the broker's maintenance does, and claim them."""
        await self.session.fetch("select * from laneway.redrive_by_policy(null, 1000)")
        return await claim(self.session, self.dead, 10)

    async def told(self) -> list[str]:
        """Return the statuses of the webhook messages that were pushed since the last call."""
        found = await claim(self.session, self.webhooks, 100)
        await ack(self.session, found)
        return [json.loads(each.body)["status"] for each in found]


@pytest.fixture
async def world(session: Session) -> World:
    dead = await create_queue(session, "relay-transactions-dlq")
    webhooks = await create_queue(session, "relay-webhooks")
    work = await create_queue(
        session, "relay-transactions", dead_letter_queue="relay-transactions-dlq"
    )
    return World(session, work, dead, webhooks)


@pytest.fixture
async def other(connect: Connect) -> Session:
    return await connect()


def make(request: str = '{"amount": 1}', **more: Any) -> NewTransaction:
    made = uuid4()
    body = json.dumps({"transactionId": str(made)})
    return NewTransaction(made, "bank", "bank", request, body, **more)


def keyed(key: str, request: str = "1", owner: str = "me") -> NewTransaction:
    return make(request, owner=owner, idempotency_key=key, fingerprint=request.encode())


def read_id(message: Delivery) -> UUID:
    return UUID(json.loads(message.body)["transactionId"])


DONE: dict[str, Any] = {"status": "success", "rank": 10, "final": True, "called": True}


# Accept.


async def test_accepted_request_has_its_message(world: World) -> None:
    new = make(webhook_url=HOOK)
    [row] = await world.accept_rows(new)
    assert (row["outcome"], row["transaction_id"], row["status"]) == ("new", new.id, "pending")
    found = await world.find(new.id)
    assert (found.request, found.status, found.final) == (new.request, "pending", False)
    assert found.created_at == row["created_at"]
    message = await world.claim()
    assert json.loads(message.body) == json.loads(new.body)
    assert message.partition == "bank"


@pytest.mark.invariant(15)
async def test_neither_request_nor_message_is_stored_alone(world: World) -> None:
    new = make()
    with pytest.raises(Exception, match="duplicate key"):
        await world.accept(new, new)
    assert await gateway.find_transactions(world.session, [new.id]) == []
    assert await count(world.session, world.work) == Counts()


async def test_request_keeps_all_digits(world: World) -> None:
    text = (
        '{"value": 115792089237316195423570985008687907853269984665640564039457584007913129639935}'
    )
    new = make(text)
    await world.accept(new)
    assert (await world.find(new.id)).request == text


async def test_same_key_and_request_return_the_first_transaction(world: World) -> None:
    [first] = await world.accept_rows(keyed("a"))
    [second] = await world.accept_rows(keyed("a"))
    assert second["outcome"] == "known"
    assert second["transaction_id"] == first["transaction_id"]
    assert second["created_at"] == first["created_at"]
    assert await count(world.session, world.work) == Counts(queued=1)


async def test_same_key_for_another_request_is_a_mismatch(world: World) -> None:
    assert await world.accept(keyed("a", "1")) == ["new"]
    assert await world.accept(keyed("a", "2")) == ["mismatch"]
    assert await count(world.session, world.work) == Counts(queued=1)


async def test_keys_belong_to_their_owners(world: World) -> None:
    assert await world.accept(keyed("a"), keyed("a", "2", owner="you")) == ["new", "new"]


async def test_keys_in_one_call_are_told_apart(world: World) -> None:
    first, again, third = keyed("a"), keyed("a"), keyed("b")
    rows = await world.accept_rows(first, again, make(), third, keyed("a", "2"))
    assert [row["outcome"] for row in rows] == ["new", "known", "new", "new", "mismatch"]
    assert rows[1]["transaction_id"] == first.id
    assert await count(world.session, world.work) == Counts(queued=3)


async def test_key_that_another_session_is_storing_is_busy(world: World, other: Session) -> None:
    transaction = world.session.transaction()
    await transaction.start()
    assert await world.accept(keyed("a")) == ["new"]
    assert await world.accept(keyed("a"), session=other) == ["busy"]
    await transaction.commit()
    assert await world.accept(keyed("a"), session=other) == ["known"]


async def test_key_of_a_rolled_back_request_is_free(world: World, other: Session) -> None:
    transaction = world.session.transaction()
    await transaction.start()
    await world.accept(keyed("a"))
    await transaction.rollback()
    assert await world.accept(keyed("a", "2"), session=other) == ["new"]


async def test_of_sessions_racing_for_a_key_one_stores(world: World, connect: Connect) -> None:
    sessions = [await connect() for _ in range(6)]
    outcomes = await asyncio.gather(
        *(world.accept(keyed("a"), session=session) for session in sessions)
    )
    names = [outcome for [outcome] in outcomes]
    assert names.count("new") == 1
    assert set(names) <= {"new", "known", "busy"}
    assert await count(world.session, world.work) == Counts(queued=1)


# Begin and finish.


async def test_message_is_sent_once(world: World) -> None:
    transaction_id, message = await world.start()
    found = await world.find(transaction_id)
    assert found.calls == 1
    assert found.sending_at is not None
    row = await world.finish(message, Settlement.ACK, result='{"ok": true}', **DONE)
    assert (row["status"], row["final"], row["changed"], row["outcome"]) == (
        "success",
        True,
        True,
        None,
    )
    found = await world.find(transaction_id)
    assert (found.status, found.sending_at, found.result) == ("success", None, '{"ok": true}')
    assert await count(world.session, world.work) == Counts(acknowledged=1)


async def test_result_keeps_all_digits(world: World) -> None:
    transaction_id, message = await world.start()
    await world.finish(message, Settlement.ACK, result='{"n":12345678901234567890123.50}', **DONE)
    assert (await world.find(transaction_id)).result == '{"n":12345678901234567890123.50}'


@pytest.mark.invariant(16)
async def test_message_delivered_again_with_the_mark_asks(world: World) -> None:
    _, message = await world.start()
    await expire_leases(world.session, [message])
    await expire(world.session)
    again = await world.claim()
    assert again.attempt == 2
    assert await world.begin(again) == "ask"


async def test_message_delivered_again_after_a_known_failure_is_sent(world: World) -> None:
    transaction_id, message = await world.start()
    row = await world.finish(message, Settlement.RETRY, error="503", called=True)
    assert (row["status"], row["changed"], row["outcome"]) == ("pending", False, "requeued")
    assert (await world.find(transaction_id)).error == "503"
    await make_due(world.session, world.work)
    assert await world.begin(await world.claim()) == "send"
    assert (await world.find(transaction_id)).calls == 2


async def test_submitted_transaction_is_skipped(world: World) -> None:
    transaction_id, message = await world.start()
    await world.record(Finding(transaction_id, upstream_id="u1"))
    assert await world.begin(message) == "skip"


async def test_second_message_waits_for_the_first(world: World) -> None:
    transaction_id, message = await world.start()
    await push(world.session, world.work, [message.body], partitions=["bank"])
    second = await world.claim()
    assert await world.begin(second) == "busy"
    await expire_leases(world.session, [message])
    assert await world.begin(second) == "ask"
    assert (await world.find(transaction_id)).calls == 2


@pytest.mark.invariant(16)
async def test_two_sessions_begin_one_transaction_once(world: World, other: Session) -> None:
    new = make()
    await world.accept(new)
    first = await world.claim()
    await push(world.session, world.work, [first.body])
    second = await world.claim()
    outcomes = await asyncio.gather(world.begin(first), world.begin(second, session=other))
    assert sorted(outcomes) == ["busy", "send"]


async def test_message_without_a_transaction_is_missing(world: World) -> None:
    await push(world.session, world.work, [json.dumps({"transactionId": str(uuid4())})])
    assert await world.begin(await world.claim()) == "missing"


async def test_last_attempt_gives_up_with_the_reason(world: World) -> None:
    transaction_id, message = await world.start(max_attempts=1)
    row = await world.finish(message, Settlement.RETRY, error="target answered 500", called=True)
    assert (row["status"], row["final"], row["outcome"]) == ("failed", True, "dead")
    found = await world.find(transaction_id)
    assert (found.given_up, found.error) == (True, "target answered 500")
    [letter] = await world.move_dead_letters()
    assert read_id(letter) == transaction_id


async def test_failed_status_of_the_target_is_kept(world: World) -> None:
    transaction_id, message = await world.start()
    await world.finish(message, Settlement.DEAD, error="no", called=True, failed_status="reverted")
    assert (await world.find(transaction_id)).status == "reverted"


async def test_call_is_not_begun_under_a_lease_that_has_ended(world: World) -> None:
    new = make()
    await world.accept(new)
    message = await world.claim()
    await expire_leases(world.session, [message])
    assert await world.begin(message) == "lost"
    assert (await world.find(new.id)).sending_at is None


async def test_begin_is_repeated_under_its_lease_when_the_answer_was_lost(world: World) -> None:
    _, message = await world.start()
    assert await world.begin(message) == "send"
    await expire_leases(world.session, [message])
    await expire(world.session)
    again = await world.claim()
    assert await world.begin(again) == "ask"
    assert await world.begin(again) == "ask", "its first call may have been sent"


@pytest.mark.parametrize("settlement", [Settlement.RETRY, Settlement.RELEASE])
async def test_failure_of_a_lost_lease_leaves_the_call_of_another(
    world: World, settlement: Settlement
) -> None:
    transaction_id, message = await world.start()
    await expire_leases(world.session, [message])
    await expire(world.session)
    again = await world.claim()
    assert await world.begin(again) == "ask"
    row = await world.finish(message, settlement, called=True)
    assert row["outcome"] == "lost"
    assert (await world.find(transaction_id)).sending_at is not None


@pytest.mark.invariant(17)
async def test_late_result_of_a_lost_lease_is_recorded(world: World) -> None:
    transaction_id, message = await world.start()
    await expire_leases(world.session, [message])
    await expire(world.session)
    row = await world.finish(message, Settlement.ACK, **DONE)
    assert row["status"] == "success"
    again = await world.claim()
    assert await world.begin(again) == "skip"
    assert (await world.find(transaction_id)).status == "success"


async def test_late_failure_of_a_lost_lease_changes_no_status(world: World) -> None:
    transaction_id, message = await world.start()
    await expire_leases(world.session, [message])
    await expire(world.session)
    row = await world.finish(
        message, Settlement.DEAD, status="failed", rank=10, final=True, error="no", called=True
    )
    assert (row["status"], row["outcome"]) == ("pending", "lost")
    assert not (await world.find(transaction_id)).given_up


async def test_late_success_replaces_a_given_up_status(world: World) -> None:
    transaction_id, message = await world.start()
    await world.finish(message, Settlement.DEAD, error="no answer")
    assert (await world.find(transaction_id)).status == "failed"
    assert await world.record(Finding(transaction_id, **DONE)) == ["success"]
    found = await world.find(transaction_id)
    assert (found.given_up, found.error) == (False, None)


async def test_release_counts_no_attempt(world: World) -> None:
    transaction_id, message = await world.start()
    await world.finish(message, Settlement.RELEASE, called=True)
    again = await world.claim()
    assert again.attempt == 1
    assert (await world.find(transaction_id)).sending_at is None


# Reports.


@pytest.mark.invariant(18)
async def test_status_only_moves_forward(world: World) -> None:
    transaction_id, _ = await world.start()
    mined = Finding(transaction_id, status="mined", rank=20, final=False)
    assert await world.record(mined) == ["mined"]
    assert (
        await world.record(Finding(transaction_id, status="submitted", rank=10, final=False)) == []
    )
    assert await world.record(mined) == []
    done = Finding(transaction_id, status="confirmed", rank=30, final=True)
    assert await world.record(done) == ["confirmed"]
    later = Finding(transaction_id, status="other", rank=40, final=True, error="late")
    assert await world.record(later) == []
    found = await world.find(transaction_id)
    assert (found.status, found.error) == ("confirmed", None)


async def test_highest_of_several_reports_counts(world: World) -> None:
    transaction_id, _ = await world.start()
    reports = [
        Finding(transaction_id, status="mined", rank=20, final=False),
        Finding(transaction_id, status="confirmed", rank=30, final=True),
        Finding(transaction_id, status="submitted", rank=10, final=False),
    ]
    assert await world.record(*reports) == ["confirmed"]


@pytest.mark.invariant(18)
async def test_two_sessions_report_one_change_once(world: World, other: Session) -> None:
    transaction_id, _ = await world.start(webhook_url=HOOK)
    done = Finding(transaction_id, **DONE)
    changes = await asyncio.gather(world.record(done), world.record(done, session=other))
    assert sorted(changes) == [[], ["success"]]
    assert await world.told() == ["success"]


async def test_each_change_tells_the_webhook(world: World) -> None:
    transaction_id, message = await world.start(webhook_url=HOOK)
    await world.finish(
        message, Settlement.ACK, status="pending", rank=0, final=False, upstream_id="u", called=True
    )
    assert await world.told() == []
    await world.record(Finding(transaction_id, status="mined", rank=20, final=False, hash="0xa"))
    [told] = await claim(world.session, world.webhooks, 1)
    body = json.loads(told.body)
    found = await world.find(transaction_id)
    assert body.pop("timestamp").startswith(f"{found.updated_at:%Y-%m-%dT%H:%M:%S}")
    assert body == {
        "event": "transaction.status.updated",
        "transactionId": str(transaction_id),
        "status": "mined",
        "hash": "0xa",
    }
    assert json.loads(told.headers or "") == {"url": HOOK, "target": "bank"}
    assert told.partition == HOOK


async def test_report_of_an_unknown_transaction_does_nothing(world: World) -> None:
    rows = await gateway.record_reports(
        world.session, findings=[Finding(uuid4(), **DONE)], webhook_queue_id=None
    )
    assert rows == []


async def test_transaction_is_found_by_the_id_of_its_target(world: World) -> None:
    transaction_id, _ = await world.start()
    await world.record(Finding(transaction_id, upstream_id="u1", upstream_url="http://x"))
    found = await gateway.find_upstream(world.session, target="bank", upstream_id="u1")
    assert found is not None
    assert found.id == transaction_id
    assert await gateway.find_upstream(world.session, target="other", upstream_id="u1") is None


async def test_quiet_submitted_transactions_are_listed(world: World) -> None:
    transaction_id, _ = await world.start()
    assert await gateway.list_submitted(world.session, quiet=NONE, limit=9) == []
    await world.record(Finding(transaction_id, upstream_id="u1"))
    [found] = await gateway.list_submitted(world.session, quiet=NONE, limit=9)
    assert found.id == transaction_id
    assert await gateway.list_submitted(world.session, quiet=HOUR, limit=9) == []
    await world.record(Finding(transaction_id, **DONE))
    assert await gateway.list_submitted(world.session, quiet=NONE, limit=9) == []


# Cancel and retry.


async def test_cancelled_transaction_is_skipped(world: World) -> None:
    new = make(webhook_url=HOOK)
    await world.accept(new)
    assert await world.cancel(new.id) == ("cancelled", True)
    assert await world.cancel(new.id) == ("cancelled", False)
    assert await world.told() == ["cancelled"]
    assert await world.begin(await world.claim()) == "skip"


async def test_transaction_whose_call_has_begun_is_not_cancelled(world: World) -> None:
    transaction_id, _ = await world.start()
    assert await world.cancel(transaction_id) == ("pending", False)
    assert await world.cancel(uuid4()) is None


async def test_transaction_that_waits_for_another_attempt_is_cancelled(world: World) -> None:
    transaction_id, message = await world.start()
    await world.finish(message, Settlement.RETRY, error="503", called=True)
    assert await world.cancel(transaction_id) == ("cancelled", True)
    assert (await world.find(transaction_id)).error is None


async def test_cancel_waits_for_a_call_that_begins(
    world: World, other: Session, connect: Connect
) -> None:
    new = make()
    await world.accept(new)
    message = await world.claim()
    transaction = other.transaction()
    await transaction.start()
    assert await world.begin(message, session=other) == "send"
    cancelling = await start_and_block(await connect(), world.session, world.cancel(new.id))
    await transaction.commit()
    assert await cancelling == ("pending", False)


async def give_up(world: World, **more: Any) -> UUID:
    transaction_id, message = await world.start()
    await world.finish(message, Settlement.DEAD, error="422", **{"called": True, **more})
    return transaction_id


async def test_retry_sends_a_given_up_transaction_again(world: World) -> None:
    transaction_id = await give_up(world)
    assert await world.retry(transaction_id) == ("pending", True)
    found = await world.find(transaction_id)
    assert (found.status, found.final, found.given_up, found.error, found.calls) == (
        "pending",
        False,
        False,
        None,
        0,
    )
    assert await world.begin(await world.claim()) == "send"
    assert await world.retry(transaction_id) == ("pending", False)
    assert await world.retry(uuid4()) is None


async def test_retry_after_an_unknown_call_asks_first(world: World) -> None:
    transaction_id = await give_up(world, called=False)
    await world.retry(transaction_id)
    assert await world.begin(await world.claim()) == "ask"


async def test_two_sessions_retry_a_transaction_once(world: World, other: Session) -> None:
    transaction_id = await give_up(world)
    second = World(other, world.work, world.dead, world.webhooks)
    outcomes = await asyncio.gather(world.retry(transaction_id), second.retry(transaction_id))
    assert sorted(outcomes, key=str) == [("pending", False), ("pending", True)]
    await world.claim()
    assert await claim(world.session, world.work, 1) == []


async def test_redriven_dead_letter_is_sent_again(world: World) -> None:
    transaction_id = await give_up(world)
    [letter] = await world.move_dead_letters()
    await push(world.session, world.work, [letter.body], partitions=["bank"])
    await ack(world.session, [letter])
    assert await world.begin(await world.claim()) == "send"
    found = await world.find(transaction_id)
    assert (found.status, found.given_up, found.calls) == ("pending", False, 1)


async def test_retry_sends_again_what_is_in_the_dead_letter_queue(world: World) -> None:
    transaction_id = await give_up(world)
    [letter] = await world.move_dead_letters()
    assert await world.retry(transaction_id) == ("pending", True)
    message = await world.claim()
    assert await world.begin(message) == "send"
    await world.finish(message, Settlement.ACK, **DONE)
    await push(world.session, world.work, [letter.body], partitions=["bank"])
    assert await world.begin(await world.claim()) == "skip"


async def test_succeeded_transaction_is_not_retried(world: World) -> None:
    transaction_id, message = await world.start()
    await world.finish(message, Settlement.ACK, **DONE)
    assert await world.retry(transaction_id) == ("success", False)


# Transactions without a message.


async def test_transaction_whose_message_is_gone_is_given_up(world: World) -> None:
    new = make(webhook_url=HOOK)
    await world.accept(new)
    assert await world.fail_lost() == 0
    await ack(world.session, [await world.claim()])
    assert await world.fail_lost(min_age=HOUR) == 0
    assert await world.fail_lost() == 1
    assert await world.fail_lost() == 0
    found = await world.find(new.id)
    assert (found.status, found.given_up) == ("failed", True)
    assert "no longer in the queue" in (found.error or "")
    assert await world.told() == ["failed"]
    assert await world.retry(new.id) == ("pending", True)
    assert await world.begin(await world.claim()) == "send"


async def test_transaction_whose_leases_expired_says_that_its_result_is_unknown(
    world: World,
) -> None:
    transaction_id, message = await world.start(max_attempts=1)
    await expire_leases(world.session, [message])
    await expire(world.session)
    assert await world.fail_lost() == 1
    error = (await world.find(transaction_id)).error or ""
    assert "no result after 1 calls" in error
    assert "unknown" in error


async def test_delayed_in_flight_and_submitted_transactions_are_not_lost(world: World) -> None:
    await world.start()
    _, delayed = await world.start()
    await nack(world.session, [delayed], delay=HOUR)
    submitted, message = await world.start()
    await world.finish(message, Settlement.ACK, upstream_id="u", called=True)
    assert await world.fail_lost() == 0
    assert (await world.find(submitted)).status == "pending"


async def test_transaction_whose_result_is_just_stored_is_not_given_up(
    world: World, other: Session, connect: Connect
) -> None:
    transaction_id, message = await world.start()
    await ack(world.session, [message])
    async with other.transaction():
        await world.record(Finding(transaction_id, upstream_id="u", called=True), session=other)
        looking = await start_and_block(await connect(), world.session, world.fail_lost())
    assert await looking == 0
    assert (await world.find(transaction_id)).status == "pending"


async def test_lost_transactions_are_looked_for_in_steps(world: World) -> None:
    news = [make() for _ in range(5)]
    await world.accept(*news)
    await ack(world.session, await claim(world.session, world.work, 5))
    place, found = None, []
    for _ in range(3):
        row = await gateway.fail_lost_transactions(
            world.session, after=place, limit=2, min_age=NONE, webhook_queue_id=None
        )
        found.append(row["failed"])
        place = None if row["next_at"] is None else (row["next_at"], row["next_id"])
    assert (found, place) == ([2, 2, 1], None)


# Limits.


async def reserve(
    session: Session,
    process: UUID,
    wanted: int,
    *,
    running: int = 0,
    concurrency: int | None = None,
    rate: float | None = None,
) -> tuple[int, bool, timedelta | None]:
    found = await gateway.reserve_calls(
        session,
        "bank",
        process=process,
        wanted=wanted,
        running=running,
        concurrency=concurrency,
        rate=rate,
        open_for=HOUR,
    )
    return found.granted, found.is_open, found.retry_in


async def test_concurrency_holds_for_all_processes(session: Session) -> None:
    one, two = uuid4(), uuid4()
    assert (await reserve(session, one, 3, concurrency=5))[0] == 3
    assert await reserve(session, two, 4, concurrency=5) == (2, False, None)
    assert (await reserve(session, two, 1, running=2, concurrency=5))[0] == 0
    assert (await reserve(session, one, 1, running=0, concurrency=5))[0] == 1
    assert (await reserve(session, two, 9, running=2, concurrency=5))[0] == 2
    [known] = await gateway.list_breakers(session)
    assert known.calls == 5


async def test_slots_of_a_process_that_is_gone_become_free(session: Session) -> None:
    await reserve(session, uuid4(), 5, concurrency=5)
    await session.execute("update laneway.gateway_slot set expires_at = clock_timestamp()")
    assert (await reserve(session, uuid4(), 5, concurrency=5))[0] == 5


async def test_racing_processes_share_a_limit(connect: Connect, session: Session) -> None:
    sessions = [await connect() for _ in range(8)]
    found = await asyncio.gather(*(reserve(each, uuid4(), 3, concurrency=10) for each in sessions))
    assert sum(granted for granted, _, _ in found) == 10
    [known] = await gateway.list_breakers(session)
    assert known.calls == 10


async def test_rate_holds_for_all_processes(session: Session) -> None:
    granted, _, retry_in = await reserve(session, uuid4(), 5, rate=3)
    assert granted == 3
    assert retry_in is not None
    assert NONE < retry_in <= timedelta(seconds=1)
    await session.execute(
        "update laneway.gateway_target set tokens = 0, refilled_at = clock_timestamp() - interval '1 h'"
    )
    assert (await reserve(session, uuid4(), 5, rate=3))[0] == 3


async def test_rate_holds_while_the_clock_is_behind(session: Session) -> None:
    await reserve(session, uuid4(), 5, rate=3)
    await session.execute(
        "update laneway.gateway_target set refilled_at = clock_timestamp() + interval '1 hour'"
    )
    granted, _, retry_in = await reserve(session, uuid4(), 5, rate=3)
    assert granted == 0
    assert retry_in is not None


async def test_rate_below_one_lets_calls_through(session: Session) -> None:
    assert (await reserve(session, uuid4(), 2, rate=0.001))[0] == 1
    granted, _, retry_in = await reserve(session, uuid4(), 2, rate=0.001)
    assert granted == 0
    assert retry_in is not None
    assert retry_in > timedelta(seconds=900)


# Breakers.


async def note(
    session: Session, *, succeeded: bool = False, failures: int = 1
) -> tuple[int, bool, bool]:
    row = await gateway.note_calls(
        session,
        "bank",
        succeeded=succeeded,
        failures=failures,
        reason="503" if failures else None,
        limit=3,
        open_for=HOUR,
    )
    return row["failures"], row["is_open"], row["changed"]


async def let_probe(session: Session) -> None:
    await session.execute("update laneway.gateway_target set probe_at = clock_timestamp()")


async def test_breaker_opens_after_failures_in_a_row(session: Session) -> None:
    assert await note(session) == (1, False, False)
    assert await note(session) == (2, False, False)
    assert await note(session, succeeded=True, failures=0) == (0, False, False)
    assert await note(session, failures=2) == (2, False, False)
    assert await note(session) == (3, True, True)
    assert await note(session) == (4, True, False)
    [known] = await gateway.list_breakers(session)
    assert (known.target, known.failures, known.reason) == ("bank", 4, "503")
    assert known.opened_at is not None


async def test_open_breaker_grants_one_probe(session: Session) -> None:
    await note(session, failures=3)
    granted, is_open, retry_in = await reserve(session, uuid4(), 5)
    assert (granted, is_open) == (0, True)
    assert retry_in is not None
    assert retry_in > NONE
    await let_probe(session)
    assert (await reserve(session, uuid4(), 5))[:2] == (1, True)
    assert (await reserve(session, uuid4(), 5))[:2] == (0, True)


async def test_of_racing_processes_one_probes(session: Session, connect: Connect) -> None:
    await note(session, failures=3)
    await let_probe(session)
    sessions = [await connect() for _ in range(6)]
    found = await asyncio.gather(*(reserve(each, uuid4(), 2) for each in sessions))
    assert sorted(granted for granted, _, _ in found) == [0, 0, 0, 0, 0, 1]


async def test_success_of_the_probe_closes_the_breaker(session: Session) -> None:
    await note(session, failures=3)
    assert await note(session, succeeded=True, failures=0) == (0, False, True)
    assert (await reserve(session, uuid4(), 5))[:2] == (5, False)


async def test_failure_of_the_probe_keeps_the_breaker_open(session: Session) -> None:
    await note(session, failures=3)
    await let_probe(session)
    await reserve(session, uuid4(), 1)
    await let_probe(session)
    assert await note(session) == (4, True, False)
    assert (await reserve(session, uuid4(), 1))[0] == 0


async def test_racing_failures_are_all_counted(session: Session, connect: Connect) -> None:
    sessions = [await connect() for _ in range(6)]
    found = await asyncio.gather(*map(note, sessions))
    assert sorted(failures for failures, _, _ in found) == [1, 2, 3, 4, 5, 6]
    assert sum(changed for _, _, changed in found) == 1
    assert await note(session) == (7, True, False)


async def test_breaker_is_set_by_hand(session: Session) -> None:
    await gateway.set_breaker(session, "bank", is_open=True, open_for=HOUR)
    assert (await reserve(session, uuid4(), 1))[:2] == (0, True)
    await gateway.set_breaker(session, "bank", is_open=False, open_for=HOUR)
    assert (await reserve(session, uuid4(), 1))[:2] == (1, False)


# Webhook endpoints.


async def note_webhook(
    session: Session, reason: str | None, *, disable: bool = False
) -> tuple[bool, bool]:
    row = await gateway.note_webhook(
        session, HOOK, reason=reason, disable=disable, patience=timedelta(days=5)
    )
    return row["disabled"], row["changed"]


async def test_endpoint_that_fails_for_five_days_is_disabled(session: Session) -> None:
    assert await note_webhook(session, "500") == (False, False)
    await session.execute(
        "update laneway.gateway_endpoint set failing_since = failing_since - interval '5 days'"
    )
    assert await note_webhook(session, "502") == (True, True)
    assert await note_webhook(session, "502") == (True, False)
    [endpoint] = await gateway.list_endpoints(session)
    assert (endpoint.url, endpoint.reason) == (HOOK, "502")
    assert endpoint.disabled_at is not None


async def test_endpoint_that_succeeds_is_forgotten(session: Session) -> None:
    await note_webhook(session, "500")
    assert await note_webhook(session, None) == (False, False)
    assert await gateway.list_endpoints(session) == []


async def test_disabled_endpoint_stays_disabled_until_enabled(session: Session) -> None:
    assert await note_webhook(session, "410", disable=True) == (True, True)
    await note_webhook(session, None)
    assert len(await gateway.list_endpoints(session)) == 1
    assert await gateway.enable_endpoint(session, HOOK)
    assert not await gateway.enable_endpoint(session, HOOK)


async def test_of_racing_calls_one_disables_the_endpoint(
    session: Session, connect: Connect
) -> None:
    sessions = [session, *[await connect() for _ in range(4)]]
    found = await asyncio.gather(*(note_webhook(each, "410", disable=True) for each in sessions))
    assert sorted(found) == [(True, False)] * 4 + [(True, True)]


# Lists, figures and old transactions.


async def test_transactions_are_listed_newest_first_in_pages(world: World) -> None:
    news = [make() for _ in range(5)]
    for each in news:
        await world.accept(each)
    every: dict[str, Any] = {"statuses": None, "target": None, "since": None, "until": None}
    found: list[UUID] = []
    before = None
    while page := await gateway.list_transactions(world.session, **every, before=before, limit=2):
        found += [each.id for each in page]
        before = (page[-1].created_at, page[-1].id)
    assert found == [each.id for each in reversed(news)]
    moment = (await world.find(news[2].id)).created_at
    for filters, wanted in (
        ({"since": moment}, news[:1:-1]),
        ({"until": moment}, news[1::-1]),
        ({"target": "other"}, []),
        ({"statuses": ["pending"]}, news[::-1]),
        ({"statuses": ["failed"]}, []),
    ):
        page = await gateway.list_transactions(
            world.session, **{**every, **filters}, before=None, limit=9
        )
        assert [each.id for each in page] == [each.id for each in wanted]


async def test_figures_count_failed_calls(world: World) -> None:
    figures = await gateway.summarise_transactions(world.session, world.work.queue_id)
    assert tuple(figures) == (None, None, 0, 0)
    await world.accept(make())
    await ack(world.session, [await world.claim()])
    await give_up(world)
    _, message = await world.start()
    await world.finish(message, Settlement.ACK, **DONE)
    await world.start()
    figures = await gateway.summarise_transactions(world.session, world.work.queue_id)
    assert (figures.called, figures.failed) == (3, 1)
    assert figures.oldest_open is not None
    assert figures.longest_call is not None
    assert NONE < figures.longest_call < figures.oldest_open


async def test_old_final_transactions_and_keys_are_swept(world: World) -> None:
    await world.accept(keyed("a"), make())
    done = (await claim(world.session, world.work, 1))[0]
    await world.begin(done)
    await world.finish(done, Settlement.ACK, **DONE)
    sweep = gateway.sweep_transactions
    assert await sweep(world.session, age=HOUR, key_age=HOUR, limit=10) == 0
    assert await sweep(world.session, age=NONE, key_age=HOUR, limit=10) == 1
    assert await sweep(world.session, age=NONE, key_age=NONE, limit=10) == 1
    rows = await world.session.fetch("select final from laneway.gateway_transaction")
    assert [row["final"] for row in rows] == [False]
    assert await world.accept(keyed("a")) == ["new"]


async def test_key_outlives_its_transaction(world: World) -> None:
    first = keyed("a")
    await world.accept(first)
    message = await world.claim()
    await world.begin(message)
    await world.finish(message, Settlement.ACK, **DONE)
    await gateway.sweep_transactions(world.session, age=NONE, key_age=HOUR, limit=10)
    [row] = await world.accept_rows(keyed("a"))
    assert (row["outcome"], row["transaction_id"]) == ("known", first.id)


async def test_dead_letters_of_a_queue_without_a_dead_letter_queue_are_redriven(
    session: Session, world: World
) -> None:
    plain = await create_queue(session, "plain")
    own = World(session, plain, world.dead, world.webhooks)
    transaction_id = await give_up(own)
    assert await count(session, plain) == Counts(dead=1)
    assert await replay(session, plain) == 1
    assert await own.begin(await own.claim()) == "send"
    assert (await own.find(transaction_id)).status == "pending"


async def test_transactions_of_a_deleted_queue_are_given_up(world: World) -> None:
    transaction_id, _ = await world.start()
    await world.session.execute("select laneway.delete_queue('relay-transactions', true)")
    assert await world.fail_lost() == 1
    assert (await world.find(transaction_id)).status == "failed"
    assert sum((await find_orphans(world.session)).values()) == 0


async def test_nothing_is_left_over(world: World) -> None:
    transaction_id = await give_up(world)
    await world.retry(transaction_id)
    message = await world.claim()
    await world.begin(message)
    await world.finish(message, Settlement.ACK, **DONE)
    assert sum((await find_orphans(world.session)).values()) == 0
