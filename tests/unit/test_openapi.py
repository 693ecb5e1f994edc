"""The OpenAPI document describes every operation, parameter, field and answer in plain words."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from laneway.server.decoder import NothingMore
from laneway.server.openapi import make_document
from laneway.server.operations import Media
from laneway.server.responses import encode
from laneway.server.router import Router
from laneway.server.server_process import make_surfaces
from laneway.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUTES = tuple(Router(make_surfaces(ServerSettings())).routes)
DOCUMENT = make_document(ROUTES, version="0", limits={"highest_priority": 9})
OPERATIONS = [
    pytest.param(operation, id=f"{method.upper()} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
SCHEMAS = DOCUMENT["components"]["schemas"]

# Words of the old style, by what to write instead.
BANNED = {
    r"hand(s|ed|ing)? out|hand-?outs?": "deliver, delivery",
    r"in hand|in somebody's hands": "in flight",
    r"hold(s|ing|er|ers)?|held": "lease, cover, have",
    r"takes? (a|the|next|up|all) .*messages?|taken from": "dequeue, pop, claim",
    r"g[ia]ven? back|gives? back|giving back": "nack, release",
    r"remarkable|remarks?": "anomaly",
    r"whoever|nobody|somebody|so many|so few": "the consumer, a number",
    r"cannot be(?=[.,;:]|$)": "the limit",
    r"once more|comes? again|anew": "again",
    r"reckons?|tells? of|bury|buried|under way|put elsewhere": "see docs/glossary.md",
    r"make a (queue|group)|made a (queue|group)": "create",
    r"lasts? longer": "extend",
}
MOST_SENTENCES = 5


def find_texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Return every summary and description with its place in the document."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in {"summary", "description"} and isinstance(each, str):
                yield f"{place}/{key}", each
            elif key != "example":
                yield from find_texts(each, f"{place}/{key}")
    elif isinstance(value, list):
        for position, each in enumerate(value):
            yield from find_texts(each, f"{place}/{position}")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_has_summary_and_description(operation: dict[str, Any]) -> None:
    summary, description = operation["summary"], operation["description"]
    assert summary[0].isupper()
    assert not summary.endswith(".")
    assert len(summary) <= 80
    assert description.endswith(".")
    sentences = re.findall(r"[.?!](?= |$)", description)
    assert 1 <= len(sentences) <= MOST_SENTENCES


@pytest.mark.parametrize("operation", OPERATIONS)
def test_parameters_have_descriptions(operation: dict[str, Any]) -> None:
    parameters = operation.get("parameters", [])
    assert [each["name"] for each in parameters if not each["description"]] == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_answers_say_when_they_are_sent(operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        assert response["description"].endswith("."), status
        assert response["description"] != HTTPStatus(int(status)).phrase


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_fields_have_descriptions(name: str) -> None:
    schema = SCHEMAS[name]
    assert schema["description"].endswith(".")
    fields = schema.get("properties", {})
    assert [field for field, each in fields.items() if not each.get("description")] == []


def test_descriptions_use_the_words_of_the_glossary() -> None:
    found = [
        f"{place}: {text!r} has {match[0]!r}, write: {instead}"
        for place, text in find_texts(DOCUMENT)
        for banned, instead in BANNED.items()
        if (match := re.search(rf"\b({banned})\b", text, re.IGNORECASE))
    ]
    assert found == []


def test_tags_have_descriptions() -> None:
    used = {
        tag
        for methods in DOCUMENT["paths"].values()
        for each in methods.values()
        for tag in each["tags"]
    }
    assert used == {tag["name"] for tag in DOCUMENT["tags"]}


def test_bodies_have_examples_that_decode() -> None:
    for route in ROUTES:
        operation = route.operation
        if operation.hidden or isinstance(operation.body, Media | None):
            continue
        if operation.body is NothingMore:
            assert "requestBody" not in DOCUMENT["paths"][route.path][operation.method.lower()]
            continue
        assert operation.example is not None, route.path
        assert route.body is not None
        route.body.decode(encode(operation.example))
