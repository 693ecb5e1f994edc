"""SQS queue URLs and ARNs: what of them names a region and an account."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.domain.errors import QueueNotFound
from laneway.server.settings import SqsSettings
from laneway.server.sqs.addresses import find_owner, read_arn, read_owner, read_url, write_url
from laneway.server.sqs.errors import Fault
from laneway.server.sqs.owners import Owned, Owner, find_owned, name_queue

SETTINGS = SqsSettings()
DEFAULT = Owner("us-east-1", "000000000000")
CALLER = Owner("eu-west-1", "123456789012")
OTHER = "210987654321"

owners = st.builds(Owner, st.from_regex(r"[a-z0-9_-]{1,63}", fullmatch=True), st.just(OTHER))
names = st.text(min_size=1).filter(lambda name: "/" not in name)


def resolve(url: str, host: str = "localhost:3001", settings: SqsSettings = SETTINGS) -> Owned:
    address = read_url(url)
    return Owned(find_owner(address, CALLER, host, settings), address.name)


@pytest.mark.parametrize(
    ("url", "owner"),
    [
        ("jobs", CALLER),
        ("http://localhost:3001/jobs", CALLER),
        (f"http://localhost:3001/{OTHER}/jobs", (CALLER.region, OTHER)),
        (f"/{OTHER}/jobs/", (CALLER.region, OTHER)),
        (f"http://any.example/queue/ap-east-1/{OTHER}/jobs", ("ap-east-1", OTHER)),
        (f"http://any.example/prefix/queue/ap-east-1/{OTHER}/jobs", ("ap-east-1", OTHER)),
        (f"https://sqs.us-gov-west-1.amazonaws.com/{OTHER}/jobs", ("us-gov-west-1", OTHER)),
        (f"http://SQS.AP-EAST-1.localhost:3001/{OTHER}/jobs", ("ap-east-1", OTHER)),
        (f"http://ap-east-1.queue.any.example/{OTHER}/jobs", ("ap-east-1", OTHER)),
        # Where the rest is this server's host, any name is a region.
        (f"http://sqs.here.localhost:3001/{OTHER}/jobs", ("here", OTHER)),
        (f"http://here.queue.localhost:3001/{OTHER}/jobs", ("here", OTHER)),
        (f"http://queue.localhost:3001/{OTHER}/jobs", (DEFAULT.region, OTHER)),
        # Hosts that are called so.
        (f"http://sqs:3001/{OTHER}/jobs", (CALLER.region, OTHER)),
        (f"http://sqs.default.svc.cluster.local/{OTHER}/jobs", (CALLER.region, OTHER)),
        (f"http://queue.example.com/{OTHER}/jobs", (CALLER.region, OTHER)),
        (f"http://the.queue.example.com/{OTHER}/jobs", (CALLER.region, OTHER)),
        # Not an account: the name alone counts.
        ("http://localhost:9324/queue/jobs", CALLER),
        ("http://localhost:9324/queue/ap-east-1/12345/jobs", CALLER),
    ],
)
def test_url_names_an_owner(url: str, owner: tuple[str, str]) -> None:
    assert resolve(url) == Owned(Owner(*owner), "jobs")


@pytest.mark.parametrize(
    "host",
    [
        "sqs.default.svc.cluster.local",
        "queue.example.com",
        "sqs.ap-east-1.example.com",
        "sqs.eu-west-1.localhost:4566",
        "localhost:3001",
    ],
)
@pytest.mark.parametrize("style", ["path", "region", "host", "domain"])
@pytest.mark.parametrize("fixed", [False, True], ids=["of the request", "of the setting"])
def test_written_url_leads_back_to_its_queue(host: str, style: str, *, fixed: bool) -> None:
    settings = replace(SETTINGS, url_style=style, host=host if fixed else None)  # type: ignore[arg-type]
    queue = Owned(CALLER, "a/b:c")
    url = write_url(queue, host, settings)
    assert resolve(url, host, settings) == queue
    # Also for one who reaches the server by another name.
    assert resolve(url, "127.0.0.1:3001", settings) == queue


def test_host_of_a_request_that_names_a_region_is_not_named_twice() -> None:
    queue = Owned(CALLER, "jobs")
    path = f"{CALLER.account}/jobs"
    for style, url in (
        ("host", f"http://sqs.eu-west-1.localhost:4566/{path}"),
        ("domain", f"http://eu-west-1.queue.localhost:4566/{path}"),
    ):
        settings = replace(SETTINGS, url_style=style)  # type: ignore[arg-type]
        for host in ("sqs.eu-west-1.localhost:4566", "eu-west-1.queue.localhost:4566"):
            assert write_url(queue, host, settings) == url


@given(owners | st.just(DEFAULT) | st.just(CALLER), names)
def test_name_elsewhere_leads_back_to_the_owner(owner: Owner, name: str) -> None:
    try:
        queue = name_queue(name, owner, SETTINGS)
    except QueueNotFound:
        # The name of another owner's queue.
        assert owner == DEFAULT
        assert find_owned(name, CALLER, SETTINGS).owner != DEFAULT
    else:
        assert find_owned(queue, CALLER, SETTINGS) == Owned(owner, name)


def test_queues_of_the_default_owner_have_plain_names() -> None:
    assert name_queue("jobs", DEFAULT, SETTINGS) == "jobs"
    assert name_queue("jobs", CALLER, SETTINGS) == "eu-west-1:123456789012:jobs"
    long = "us-east-1:000000000000:jobs"
    assert find_owned(long, CALLER, SETTINGS) == Owned(DEFAULT, long)
    assert name_queue(long, DEFAULT, SETTINGS) == long


def test_shared_queues_have_one_name() -> None:
    shared = replace(SETTINGS, shared=True)
    assert name_queue("jobs", CALLER, shared) == name_queue("jobs", DEFAULT, shared) == "jobs"
    assert find_owned("eu-west-1:123456789012:jobs", DEFAULT, shared).owner == DEFAULT


@pytest.mark.parametrize("owner", [("", OTHER), ("EU", OTHER), ("eu", "1"), ("a:b", OTHER)])
def test_owner_that_cannot_be_has_no_queues(owner: tuple[str, str]) -> None:
    with pytest.raises(QueueNotFound):
        name_queue("jobs", Owner(*owner), SETTINGS)


def test_arn_names_an_owner() -> None:
    address = read_arn(f"arn:aws-cn:sqs:cn-north-1:{OTHER}:jobs", "SourceArn")
    assert address == ("jobs", "cn-north-1", OTHER, None)
    assert read_arn("arn:aws:sqs:::jobs", "SourceArn") == ("jobs", None, None, None)
    for wrong in ("jobs", "arn:aws:sns:a:b:jobs", "arn:aws:sqs:a:b:c:d", "arn:aws:sqs:a:b:"):
        with pytest.raises(Fault, match="SourceArn"):
            read_arn(wrong, "SourceArn")


@pytest.mark.parametrize(
    ("credential", "owner"),
    [
        (b"AKIA/20300101/eu-west-1/sqs/aws4_request", ("eu-west-1", DEFAULT.account)),
        (b"123456789012/20300101/eu-west-1/sqs/aws4_request", CALLER),
        (b"123456789012/20300101/EU-WEST-1/sqs/aws4_request", CALLER),
        (b"123456789012/20300101//sqs/aws4_request", (DEFAULT.region, CALLER.account)),
        (b"AKIA", DEFAULT),
    ],
)
def test_credential_names_an_owner(credential: bytes, owner: tuple[str, str]) -> None:
    header = b"AWS4-HMAC-SHA256 Credential=%b, SignedHeaders=host, Signature=0" % credential
    assert read_owner(header, SETTINGS) == owner
    assert read_owner(None, SETTINGS) == read_owner(b"Bearer x", SETTINGS) == DEFAULT


@pytest.mark.parametrize("region", ["a:b", "ä", "a" * 64, "a.b", "a b"])
def test_region_that_cannot_be_is_refused(region: str) -> None:
    header = f"AWS4-HMAC-SHA256 Credential=a/20300101/{region}/sqs/aws4_request".encode("latin-1")
    if " " in region:
        assert read_owner(header, SETTINGS) == DEFAULT
        return
    with pytest.raises(Fault, match="valid region"):
        read_owner(header, SETTINGS)
