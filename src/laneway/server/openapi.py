"""The OpenAPI document, generated from the declarations that route and decode requests."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.server.decoder import NothingMore
from laneway.server.operations import Media

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laneway.server.operations import Response
    from laneway.server.router import Route

_DESCRIPTION = """A message broker on PostgreSQL.

A producer enqueues a message. A consumer dequeues it under a lease and acks it. A message that is nacked, or not
settled before its lease expires, is delivered again until its attempts are used up. Then it becomes a dead letter.

Once an API key exists, every request carries one: `X-API-KEY: …`, or `Authorization: Bearer …`."""
_REF = "#/components/schemas/{name}"
_NULL = {"type": "null"}
_ANY = ["object", "array", "string", "number", "boolean", "null"]
_PATH_NAME = re.compile(r"\{([A-Za-z_]+)\}")


def make_document(
    routes: Iterable[Route], *, version: str, limits: Mapping[str, int]
) -> dict[str, Any]:
    """Return the document. limits: the server's settings, by the names that schemas have for them."""
    shown = [route for route in routes if not route.operation.hidden]
    types = _collect_types(shown)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    known = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    names: Counter[str] = Counter()
    for route in shown:
        method = route.operation.method.lower()
        described = _describe(route, known, components)
        name = route.operation.handler.__name__
        names[name] += 1
        # One handler may serve several routes, but an operationId must be unique.
        described["operationId"] = name if names[name] == 1 else f"{name}_{names[name]}"
        paths.setdefault(route.path, {})[method] = described
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Laneway",
            "version": version,
            "description": _DESCRIPTION,
        },
        "tags": [
            {"name": name, "description": text}
            for name, text in {
                name: text for route in shown for name, text in route.surface.tags.items()
            }.items()
        ],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-KEY"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }
    document = _shorten_names(document, components)
    tidied: dict[str, Any] = _tidy(document, document["components"]["schemas"])
    _set_limits(tidied, limits)
    # Structs that only describe parameters, or whose schema is repeated where they may be null, are left out.
    used = msgspec.json.encode(tidied["paths"]).decode()
    tidied["components"]["schemas"] = _keep_used(tidied["components"]["schemas"], used)
    return tidied


def _collect_types(routes: Iterable[Route]) -> list[Any]:
    found: dict[int, Any] = {}
    for route in routes:
        operation = route.operation
        responses = [*route.surface.errors.values(), *operation.answers.values()]
        contents: list[Any] = [response.content for response in responses]
        contents += [operation.body, operation.parameters]
        for content in contents:
            if content is not None and not isinstance(content, Media):
                found[id(content)] = content
    return list(found.values())


def _describe(
    route: Route, known: Mapping[int, Any], components: Mapping[str, Any]
) -> dict[str, Any]:
    operation = route.operation
    described: dict[str, Any] = {
        "summary": operation.summary,
        "description": operation.description,
        "tags": [operation.tag],
        "responses": {
            str(status): _describe_response(response, known)
            for status, response in sorted({**route.surface.errors, **operation.answers}.items())
        },
        "security": [{"key": []}, {"bearer": []}, {}] if operation.role is not None else [],
    }
    if operation.parameters is not None:
        schema = _resolve(known[id(operation.parameters)], components)
        described["parameters"] = list(_describe_parameters(operation.path, schema))
    if operation.body is not None and operation.body is not NothingMore:
        described["requestBody"] = {
            "required": not operation.body_optional,
            "content": _describe_content(operation.body, known, example=operation.example),
        }
    return described


def _describe_parameters(path: str, schema: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    in_path = set(_PATH_NAME.findall(path))
    for name, properties in schema["properties"].items():
        described = {
            key: value for key, value in properties.items() if key not in {"default", "description"}
        }
        if properties.get("default") is not None:
            described["default"] = properties["default"]
        yield {
            "name": name,
            "in": "path" if name in in_path else "query",
            "description": properties.get("description", ""),
            "required": name in in_path or name in schema.get("required", ()),
            "schema": described,
        }


def _describe_response(response: Response, known: Mapping[int, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"description": response.description}
    if response.content is not None:
        described["content"] = _describe_content(response.content, known)
    return described


def _describe_content(
    content: Any, known: Mapping[int, Any], *, example: Any = None
) -> dict[str, Any]:
    if isinstance(content, Media):
        return {content.content_type: {} if content.schema is None else {"schema": content.schema}}
    described = {"schema": known[id(content)]}
    if example is not None:
        described["example"] = example
    return {"application/json": described}


def _resolve(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    resolved: Mapping[str, Any] = components[reference.rpartition("/")[2]]
    return resolved


def _shorten_names(document: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the document with shorter names, where structs of several modules share a name.

    These are `module.Struct`, or `package.module.Struct` where that is not unique either.
    """
    text = msgspec.json.encode(document).decode()
    qualified = [name.split(".") for name in names if "." in name]
    uses = Counter(".".join(parts[-2:]) for parts in qualified)
    for parts in qualified:
        name, short = ".".join(parts), ".".join(parts[-2:])
        if uses[short] > 1:
            short = ".".join(parts[-3:])
        text = text.replace(f'"{_REF.format(name=name)}"', f'"{_REF.format(name=short)}"')
        text = text.replace(f'"{name}":', f'"{short}":')
    shortened: dict[str, Any] = msgspec.json.decode(text)
    return shortened


def _set_limits(value: Any, limits: Mapping[str, int]) -> None:
    """Replace the names of limits by their values."""
    if isinstance(value, list):
        for each in value:
            _set_limits(each, limits)
    elif isinstance(value, dict):
        if "x-maximum" in value:
            value["maximum"] = limits[value.pop("x-maximum")]
        for each in value.values():
            _set_limits(each, limits)


def _tidy(value: Any, schemas: Mapping[str, Any]) -> Any:
    """Add the types that the reference page needs, and drop defaults of null.

    msgspec writes no type for a choice of texts, nor for a value that may be anything.
    """
    if isinstance(value, list):
        return [_tidy(each, schemas) for each in value]
    if not isinstance(value, dict):
        return value
    tidied = {
        key: each if key == "example" else _tidy(each, schemas)
        for key, each in value.items()
        if key != "default" or each is not None
    }
    choices = tidied.get("enum")
    if isinstance(choices, list) and all(isinstance(each, str) for each in choices):
        tidied.setdefault("type", "string")
    properties = tidied.get("properties")
    if isinstance(properties, dict):
        tidied["properties"] = {name: _complete(each) for name, each in properties.items()}
    return _join_null(tidied, schemas)


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a field's schema with a type; the tag that tells structs apart gets its description too."""
    if not schema.keys() - {"description"}:
        return {**schema, "type": _ANY}
    choices = schema.get("enum", ())
    if len(choices) == 1:
        return {"description": f"Always `{choices[0]}`.", **schema}
    return schema


def _join_null(schema: dict[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Write a type or null as one schema of two types."""
    choices = schema.get("anyOf")
    if not isinstance(choices, list) or _NULL not in choices:
        return schema
    other, *more = [choice for choice in choices if choice != _NULL]
    if "$ref" in other:
        other = _tidy(_resolve(other, schemas), schemas)
    if more or "enum" in other:
        return schema
    kind = other.get("type", _ANY[:-1])
    del schema["anyOf"]
    return {**other, **schema, "type": [kind, "null"] if isinstance(kind, str) else [*kind, "null"]}


def _keep_used(components: Mapping[str, Any], used: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    waiting = [name for name in components if f'"{_REF.format(name=name)}"' in used]
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = components[name]
            text = msgspec.json.encode(components[name]).decode()
            waiting += [other for other in components if f'"{_REF.format(name=other)}"' in text]
    return dict(sorted(kept.items()))
