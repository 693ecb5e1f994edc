"""Parts of the server: routes, decoding, errors, keys, compression, counters."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from laneway.domain import errors as domain
from laneway.domain.keys import ApiKey, Role, make_key
from laneway.engine.measurements import Measurements
from laneway.server import errors as server
from laneway.server.access import nothing
from laneway.server.authentication import Keyring
from laneway.server.calls import read_key
from laneway.server.compression import accepts_gzip
from laneway.server.decoder import BodyDecoder, NothingMore, read_issue
from laneway.server.logs import JsonFormatter
from laneway.server.metrics import BUCKETS, Metrics
from laneway.server.operations import Media, Operation, Response, Surface
from laneway.server.responses import answer_json
from laneway.server.rest import SURFACE
from laneway.server.rest.errors import explain, find_status
from laneway.server.router import Router, read_path
from laneway.server.shared_counters import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laneway.server.calls import Call
    from laneway.server.responses import Answer


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def list_errors(kind: type[domain.LanewayError]) -> set[type[domain.LanewayError]]:
    """Return the class and all below it that the broker or the server defines."""
    found = {kind} if kind.__module__ in {domain.__name__, server.__name__} else set()
    for child in kind.__subclasses__():
        found |= list_errors(child)
    return found


SAMPLES: dict[type[domain.LanewayError], domain.LanewayError] = {
    domain.InvalidStateTransition: domain.InvalidStateTransition("ready", "ready", "is ready"),
    domain.QueueNotFound: domain.QueueNotFound(queue="mails"),
    domain.QueueExists: domain.QueueExists(queue="mails"),
    domain.QueueNotEmpty: domain.QueueNotEmpty("3 messages are left", queue="mails"),
    domain.GroupNotFound: domain.GroupNotFound(group="readers", queue="mails"),
    domain.GroupExists: domain.GroupExists(group="readers", queue="mails"),
    domain.WorkerNotFound: domain.WorkerNotFound(worker="w"),
    domain.PreconditionFailed: domain.PreconditionFailed(
        index=0, reason="exists", version=1, value="1"
    ),
    domain.WorkerBusy: domain.WorkerBusy(worker="w", messages=2),
    domain.ScheduleNotFound: domain.ScheduleNotFound(schedule="s", queue="mails"),
    domain.RunNotFound: domain.RunNotFound(run="r"),
    domain.ResultNotFound: domain.ResultNotFound(message="2-1-1"),
    server.InvalidInput: server.InvalidInput([server.Issue("custom", ("a", 1), "wrong")]),
    server.BodyTooLarge: server.BodyTooLarge(10),
    server.NoSuchRoute: server.NoSuchRoute("/api/x"),
    server.MethodNotAllowed: server.MethodNotAllowed("PUT", ["GET"]),
}


@pytest.mark.parametrize("kind", sorted(list_errors(domain.LanewayError), key=str))
def test_every_error_has_a_response(kind: type[domain.LanewayError]) -> None:
    error = SAMPLES.get(kind) or kind("what happened")
    answer = explain(error)
    assert answer.status == find_status(kind)
    body = msgspec.json.decode(answer.body)
    headers = dict(answer.headers)
    match answer.status:
        case 503:
            assert int(headers[b"retry-after"]) >= 1
        case 422:
            assert body["error"]["name"] == "ZodError"
        case 401 | 403:
            assert body["error"] in {"Unauthorized", "Forbidden"}
        case 500:
            assert body == {"message": "Internal Server Error"}
        case _:
            assert body["message"]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (domain.Unavailable, 503),
        (domain.Overloaded, 503),
        (domain.TransientConflict, 503),
        (domain.BrokerClosed, 503),
        (domain.QueueNotFound, 404),
        (domain.QueueExists, 409),
        (domain.QueueNotEmpty, 400),
        (domain.InvalidMessage, 422),
        (domain.MessageTooLarge, 413),
        (domain.LeaseLost, 409),
        (domain.InternalError, 500),
        (server.Unauthenticated, 401),
        (server.Forbidden, 403),
    ],
)
def test_family_decides_the_status(kind: type[domain.LanewayError], status: int) -> None:
    assert find_status(kind) == status


def test_retry_after_is_in_whole_seconds() -> None:
    answer = explain(domain.Overloaded("full", retry_after=timedelta(milliseconds=1500)))
    assert dict(answer.headers)[b"retry-after"] == b"2"


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ("Object missing required field `id` - at `$.acks[3]`", "invalid_type", ["acks", 3, "id"]),
        ("Object missing required field `type`", "invalid_type", ["type"]),
        ("Expected `int` >= 1 - at `$.count`", "too_small", ["count"]),
        ("Expected `str` of length <= 64 - at `$.name`", "too_big", ["name"]),
        ("Expected `array` of length >= 1", "too_small", []),
        ("Invalid enum value 'x' - at `$.state`", "invalid_enum_value", ["state"]),
        ("Expected `str` matching regex '^a$' - at `$.name`", "invalid_string", ["name"]),
        ("Expected `int`, got `str` - at `$[...].x`", "invalid_type", ["...", "x"]),
    ],
)
def test_validation_issue_has_code_and_path(text: str, code: str, path: list[str | int]) -> None:
    issue = read_issue(text)
    assert (issue.code, list(issue.path)) == (code, path)


def test_empty_body_means_defaults_only_where_allowed() -> None:
    class Body(msgspec.Struct):
        reason: str | None = None

    assert BodyDecoder(Body, optional=True).decode(b"") == Body()
    with pytest.raises(server.MalformedBody):
        BodyDecoder(Body).decode(b"")


class ByName(msgspec.Struct):
    name: str


async def do_nothing(_: Call[Any, Any]) -> Answer:
    return answer_json(200, None)


def operation(method: str, path: str, **more: Any) -> Operation[Any, Any]:
    return Operation(
        method=method,
        path=path,
        handler=do_nothing,
        summary="",
        answers={200: Response(Media("text/plain"), "")},
        role=None,
        reach=nothing,
        **more,
    )


def surface(*operations: Operation[Any, Any]) -> Surface:
    return Surface(name="test", prefix="/api", operations=operations, explain=explain)


def test_exact_paths_win_over_patterns() -> None:
    router = Router(
        [
            surface(
                operation("GET", "/queues/{name}", parameters=ByName),
                operation("GET", "/queues/all"),
                operation("DELETE", "/queues/{name}", parameters=ByName),
            )
        ]
    )
    assert router.find("GET", "/api/queues/all").route.operation.path == "/queues/all"
    assert router.find("GET", "/api/queues/mail/").path == {"name": "mail"}
    assert router.find("DELETE", "/api/queues/all").path == {"name": "all"}
    with pytest.raises(server.MethodNotAllowed) as raised:
        router.find("PUT", "/api/queues/mail")
    assert raised.value.allowed == ("DELETE", "GET", "HEAD")
    with pytest.raises(server.NoSuchRoute, match="Not Found - /api/queues/a/b"):
        router.find("GET", "/api/queues/a/b")
    assert router.list_methods("/api/queues/all") == ["DELETE", "GET", "HEAD"]


@pytest.mark.parametrize(
    ("sent", "name"),
    [("a%2Fb", "a/b"), ("a%2fb", "a/b"), ("100%25", "100%"), ("%252F", "%2F"), ("%c3%A4", "ä")],
)
def test_path_parameters_are_decoded_after_splitting(sent: str, name: str) -> None:
    router = Router([surface(operation("GET", "/queues/{name}/all", parameters=ByName))])
    found = router.find("GET", read_path(f"/api/%71ueues/{sent}/all"))
    assert found.path == {"name": name}


def test_path_parameters_match_their_struct() -> None:
    with pytest.raises(TypeError, match="needs parameters"):
        Router([surface(operation("GET", "/{name}"))])
    with pytest.raises(TypeError, match="do not exist"):
        Router([surface(operation("GET", "/{other}", parameters=ByName))])


def test_every_body_has_a_valid_example() -> None:
    bodies = [
        item
        for item in SURFACE.operations
        if not (item.body is NothingMore or isinstance(item.body, Media | None))
    ]
    assert [item.path for item in bodies if item.example is None] == []
    for route in Router([SURFACE]).routes:
        if route.body is not None and route.operation.body is not NothingMore:
            route.body.decode(msgspec.json.encode(route.operation.example))


def test_every_tag_is_described() -> None:
    assert {item.tag for item in SURFACE.operations} == set(SURFACE.tags)


def test_only_listed_paths_need_no_key() -> None:
    opened = {item.path for item in SURFACE.operations if item.role is None}
    assert {"/health", "/doc", "/docs", "/reference"} <= opened
    assert {path for path in opened if not path.startswith(("/health", "/doc", "/reference"))} <= {
        "/queue/events"
    }


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"gzip", True),
        (b"deflate, gzip;q=1.0, br", True),
        (b"*", True),
        (b"identity", False),
        (b"gzip;q=0", False),
        (b"gzip;q=0.0", False),
        (b"xgzip", False),
        (b"", False),
    ],
)
def test_accept_encoding_is_parsed(header: bytes, *, expected: bool) -> None:
    assert accepts_gzip({b"accept-encoding": header}) is expected


class Store:
    """Keys as a database would have them, which can be away."""

    def __init__(self) -> None:
        self.keys: list[ApiKey] = []
        self.away = False
        self.looks = 0

    def add(self, name: str, role: Role, now: datetime) -> str:
        key = make_key()
        self.keys.append(ApiKey(key.key_id, name, role, None, key.digest, now, None))
        return key.text

    async def load(self) -> Sequence[ApiKey]:
        self.looks += 1
        if self.away:
            raise domain.Unavailable("away")
        return list(self.keys)


@pytest.fixture
def store() -> Store:
    return Store()


async def test_requests_need_no_key_until_one_exists(store: Store) -> None:
    keyring = Keyring(secret=None, load=store.load, age=timedelta(0))
    assert (await keyring.identify(None)).role is Role.ADMIN
    store.add("first", Role.READ, NOW)
    with pytest.raises(server.Unauthenticated, match="Missing X-API-KEY"):
        await keyring.identify(None)


async def test_revoking_the_last_key_keeps_the_server_closed(store: Store) -> None:
    key = store.add("last", Role.READ, NOW).encode()
    store.keys[:] = [store.keys[0]._replace(revoked_at=NOW)]
    keyring = Keyring(secret=None, load=store.load, age=timedelta(0))
    for sent in (None, key):
        with pytest.raises(server.Unauthenticated):
            await keyring.identify(sent)
    opened = Keyring(secret=None, load=store.load, age=timedelta(0), insecure=True)
    assert (await opened.identify(None)).role is Role.ADMIN


async def test_known_key_is_cached(store: Store) -> None:
    key = store.add("first", Role.WRITE, NOW).encode()
    keyring = Keyring(secret=None, load=store.load, age=timedelta(hours=1))
    assert keyring.recall(key) is None
    assert (await keyring.identify(key)).name == "first"
    recalled = keyring.recall(key)
    assert recalled is not None
    assert recalled.role is Role.WRITE
    assert keyring.recall(b"other") is None
    assert keyring.recall(None) is None
    assert store.looks == 1


async def test_cached_keys_are_valid_while_the_database_is_unreachable(store: Store) -> None:
    key = store.add("first", Role.WRITE, NOW).encode()
    keyring = Keyring(secret=None, load=store.load, age=timedelta(0))
    store.away = True
    with pytest.raises(domain.Unavailable):
        await keyring.identify(key)
    store.away = False
    await keyring.identify(key)
    store.away = True
    assert (await keyring.identify(key)).name == "first"
    with pytest.raises(server.Unauthenticated):
        await keyring.identify(b"lw_x_y")


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({b"x-api-key": b"a"}, b"a"),
        ({b"authorization": b"Bearer a"}, b"a"),
        ({b"authorization": b"bearer  a "}, b"a"),
        ({b"authorization": b"Basic a"}, None),
        ({b"x-api-key": b"a", b"authorization": b"Bearer b"}, b"a"),
        ({}, None),
    ],
)
def test_key_is_read_from_either_header(headers: dict[bytes, bytes], key: bytes | None) -> None:
    assert read_key(headers) == key


@pytest.fixture
def sheet() -> Iterator[Sheet]:
    with Sheet.make(workers=2) as made:
        yield made


def test_log_line_is_one_json_object() -> None:
    record = logging.LogRecord("laneway", logging.INFO, "", 0, 'said "%s"\nand more', ("it",), None)
    record.request_id = "r-1"
    line = JsonFormatter().format(record)
    assert "\n" not in line
    said = msgspec.json.decode(line)
    assert said["message"] == 'said "it"\nand more'
    assert (said["level"], said["logger"], said["request_id"]) == ("info", "laneway", "r-1")
    error = ValueError("broken")
    record.exc_info = (ValueError, error, None)
    assert "ValueError: broken" in msgspec.json.decode(JsonFormatter().format(record))["exception"]


def test_counters_of_all_workers_are_added_up(sheet: Sheet) -> None:
    router = Router([surface(operation("GET", "/x"))])
    both = [Metrics(sheet, worker) for worker in range(2)]
    measured = Measurements(*range(10, 26))
    for metrics in both:
        metrics.name_routes(router.routes)
        metrics.count_request(router.routes[0], 200, 0.002)
        metrics.take_stock(1, measured)
        metrics.take_stock(1, measured)
    both[0].count_request(router.routes[0], 0, 1e9)
    both[0].count_request(None, 404, 1)
    text = both[1].render([]).decode()
    labels = 'method="GET",path="/api/x"'
    name = "laneway_http_request_duration_seconds"
    for line in (
        'laneway_messages_total{event="pushed"} 34',
        f'laneway_http_requests_total{{{labels},status="2xx"}} 2',
        f'laneway_http_requests_total{{{labels},status="none"}} 1',
        f'{name}_bucket{{{labels},le="0.001"}} 0',
        f'{name}_bucket{{{labels},le="0.0025"}} 2',
        f'{name}_bucket{{{labels},le="{BUCKETS[-1]:g}"}} 2',
        f'{name}_bucket{{{labels},le="+Inf"}} 3',
        f"{name}_count{{{labels}}} 3",
        "laneway_http_requests_in_flight 2",
        "laneway_pool_connections 20",
        'laneway_database_calls_total{kind="settle"} 50',
    ):
        assert line in text.splitlines(), line


def test_counters_continue_after_a_worker_restart(sheet: Sheet) -> None:
    for _ in range(2):
        Metrics(sheet, 0).take_stock(0, Measurements(*([5] * 16)))
    text = Metrics(sheet, 1).render([]).decode()
    assert 'laneway_database_calls_total{kind="push"} 10' in text


def test_counter_that_goes_back_never_falls_and_counts_nothing_twice(sheet: Sheet) -> None:
    metrics = Metrics(sheet, 0)
    for value in (5, 3, 5, 6):
        metrics.take_stock(0, Measurements(*([value] * 16)))
    assert 'laneway_messages_total{event="delivered"} 6' in metrics.render([]).decode()
