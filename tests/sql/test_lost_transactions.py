"""The gateway's search for transactions whose messages are gone, beside processes that finish calls."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from laneway.domain.messages import Receipt
from laneway.domain.transactions import Finding, Finish, NewTransaction, Settlement
from laneway.engine.procedures import transactions as gateway
from tests.sql.calls import claim, create_queue, start_and_block

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Session

NONE = timedelta(0)
LOCK = 20_260_101


def make() -> NewTransaction:
    made = uuid4()
    return NewTransaction(made, "bank", "bank", "1", json.dumps({"transactionId": str(made)}))


async def test_transaction_that_is_submitted_during_the_search_is_not_lost(
    session: Session, connect: Connect
) -> None:
    queue = await create_queue(session, "relay-transactions")
    first, second = make(), make()
    for each in (first, second):
        await gateway.accept_transactions(session, queue_id=queue.queue_id, transactions=[each])
    _, message = await claim(session, queue, 2)
    assert str(second.id) in message.body

    # The search waits at the first transaction, until the second one's call is finished.
    await session.execute(f"""
        alter function laneway.message_state rename to true_message_state;
        create function laneway.message_state(int, int, int, bigint) returns text stable language plpgsql as $$
        begin
          perform pg_advisory_xact_lock({LOCK});
          return laneway.true_message_state($1, $2, $3, $4);
        end $$;
        select pg_advisory_lock({LOCK})""")
    searcher, watch = await connect(), await connect()
    search = await start_and_block(
        watch,
        searcher,
        gateway.fail_lost_transactions(
            searcher, after=None, limit=10, min_age=NONE, webhook_queue_id=None
        ),
    )
    finding = Finding(second.id, upstream_id="u-1", called=True)
    receipt = Receipt(message.token, message.lane_id, message.seq)
    await gateway.finish_transactions(
        session, finishes=[Finish(receipt, Settlement.ACK, finding)], webhook_queue_id=None
    )
    await session.execute(f"select pg_advisory_unlock({LOCK})")

    assert (await search)["failed"] == 0
    [found] = await gateway.find_transactions(session, [second.id])
    assert (found.status, found.upstream_id) == ("pending", "u-1")
