"""Every operation of the OpenAPI document, called with valid and invalid input."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import httpx
import pytest
import pytest_asyncio
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from laneway.server.decoder import NothingMore
from laneway.server.operations import Media
from laneway.server.rest import SURFACE
from tests.postgres import make_database
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from schemathesis import BaseSchema, Case, CheckContext, Response

# Values that mean something to the server, by the names they go under.
Known: TypeAlias = dict[str, list[str]]

# A search for more than the suite has time for: LANEWAY_CONTRACT_EXAMPLES=500.
EXAMPLES = int(os.environ.get("LANEWAY_CONTRACT_EXAMPLES", "8"))

ENDLESS = Media("text/event-stream")
CALLED = [
    operation
    for operation in SURFACE.operations
    if not operation.hidden
    and ENDLESS not in [response.content for response in operation.answers.values()]
]
# What takes no input, or a file of any content, cannot be called wrongly.
CALLS = [
    (operation.method, SURFACE.prefix + operation.path, mode)
    for operation in CALLED
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE
    or operation.parameters not in {None, NothingMore}
    or not (operation.body is NothingMore or isinstance(operation.body, Media | None))
]


class Contract(NamedTuple):
    """What the server says it does, and a way to call it."""

    document: BaseSchema
    session: requests.Session
    url: str


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def contract(server: str) -> AsyncIterator[Contract]:
    async with make_database(server, "contract") as dsn, run_laneway(dsn) as running:
        with requests.Session() as session:
            yield Contract(
                schemathesis.openapi.from_url(f"{running.url}/api/doc"), session, running.url
            )
        log = running.log
    assert "Traceback" not in log


@pytest.fixture
def known(contract: Contract) -> Known:
    """Put a message into every state, and return what a call may name."""
    with httpx.Client(base_url=f"{contract.url}/api") as api:
        api.post("/queues", json={"name": "contract"})
        body = [{"type": f"t{n}", "payload": {"n": n}, "queue": "contract"} for n in range(6)]
        ids = api.post("/queue/batch", json=body).json()["ids"]
        taken = api.get("/queue/messages/batch", params={"queue": "contract", "count": 4})
        tokens = [message["lock_token"] for message in taken.json()["messages"]]
        [acked, dead] = [
            {"id": message["id"], "lock_token": message["lock_token"]}
            for message in taken.json()["messages"][:2]
        ]
        api.post("/queue/ack", json=acked)
        move = {"messages": [dead["id"]], "fromQueue": "processing", "toQueue": "dead"}
        api.post("/queue/move", json=move)
    queues = ["contract"]
    return {
        "id": ids,
        "message_id": ids,
        "messageIds": ids,
        "messages": ids,
        "lock_token": tokens,
        "name": queues,
        "queue": queues,
        "queueName": queues,
        "queue_name": queues,
    }


@pytest.mark.parametrize(("method", "path", "mode"), CALLS)
def test_responses_match_the_openapi_document(
    contract: Contract,
    known: Known,
    method: str,
    path: str,
    mode: GenerationMode,
) -> None:
    operation = contract.document[path][method]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize="LANEWAY_CONTRACT_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
    def call(case: Case[Any], data: st.DataObject) -> None:
        put_known_values(case, known, data)
        shorten_wait(case)
        response = case.call(session=contract.session, timeout=60)
        case.validate_response(
            response,
            checks=[
                no_server_error,
                status_code_conformance,
                content_type_conformance,
                response_headers_conformance,
                response_schema_conformance,
            ],
        )

    call()


def test_every_operation_of_the_document_is_called(contract: Contract) -> None:
    described = {
        (method.upper(), path)
        for path, methods in contract.document.raw_schema["paths"].items()
        for method in methods
        # Other protocols have tests of their own.
        if path.startswith("/api/") and not path.startswith("/api/v1/")
    }
    left_out = described - {(method, path) for method, path, _ in CALLS}
    assert left_out == {("GET", "/api/queue/events")}


def no_server_error(_context: CheckContext, response: Response, _case: Case[Any]) -> bool | None:
    assert response.status_code < 500, response.text
    return None


def put_known_values(case: Case[Any], known: Known, data: st.DataObject) -> None:
    """Have some calls meet a message or a queue that is there: made-up ids never would."""

    def fill(value: Any, name: str = "") -> Any:
        match value:
            case dict():
                return {key: fill(each, key) for key, each in value.items()}
            case list():
                return [fill(each, name) for each in value]
            case str() if name in known and data.draw(st.booleans()):
                return data.draw(st.sampled_from(known[name]))
            case _:
                return value

    case.path_parameters = fill(case.path_parameters)
    case.query = fill(case.query)
    case.body = fill(case.body)


def shorten_wait(case: Case[Any]) -> None:
    """Wait for nothing that never comes; what is no number stays as it is."""
    try:
        wait = float(str(case.query.get("timeout")))
    except ValueError:
        return
    if wait > 0:
        case.query["timeout"] = min(wait, 0.01)
