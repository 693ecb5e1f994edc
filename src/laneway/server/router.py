"""Finds the operation of a method and path: exact paths first, then patterns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec

from laneway.server.decoder import BodyDecoder, ParametersDecoder, list_names
from laneway.server.errors import MethodNotAllowed, NoSuchRoute
from laneway.server.operations import Media

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laneway.server.operations import Operation, Surface

_NAME = re.compile(r"\{([A-Za-z_]+)\}")
_NOTHING: dict[str, str] = {}


class Route:
    """An operation with its decoders, and its index in the metrics."""

    __slots__ = ("body", "index", "operation", "parameters", "reads_body", "safe", "surface")

    def __init__(self, operation: Operation[Any, Any], surface: Surface, index: int) -> None:
        self.operation = operation
        self.surface = surface
        self.index = index
        self.safe = operation.safe
        self.reads_body = operation.body is not None and not isinstance(operation.body, Media)
        in_path = _NAME.findall(operation.path)
        parameters = [name for name in list_names(operation.parameters) if name not in in_path]
        self.body: BodyDecoder[Any] | None = None
        if operation.body is not None and not isinstance(operation.body, Media):
            self.body = BodyDecoder(
                operation.body, optional=operation.body_optional, elsewhere=parameters
            )
        self.parameters: ParametersDecoder[Any] | None = None
        if operation.parameters is not None:
            self.parameters = ParametersDecoder(
                operation.parameters, in_path=in_path, elsewhere=list_names(operation.body)
            )
        _require_names(operation)

    @property
    def path(self) -> str:
        return self.surface.prefix + self.operation.path


class Found(NamedTuple):
    route: Route
    path: Mapping[str, str]


class Router:
    def __init__(self, surfaces: Sequence[Surface]) -> None:
        self.routes = [
            Route(operation, surface, index)
            for index, (surface, operation) in enumerate(
                (surface, operation) for surface in surfaces for operation in surface.operations
            )
        ]
        self._surfaces = sorted(surfaces, key=lambda surface: -len(surface.prefix))
        self._whole: dict[str, dict[str, Found]] = {}
        # Operations that require a parameter in the query, by path and method.
        self._asking: dict[tuple[str, str], tuple[bytes, Found]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Route]]] = []
        patterns: dict[str, dict[str, Route]] = {}
        for route in self.routes:
            operation = route.operation
            for method in (operation.method, "HEAD") if operation.safe else (operation.method,):
                if "{" in route.path:
                    patterns.setdefault(_make_pattern(route), {})[method] = route
                elif operation.query is not None:
                    marker = (f"{operation.query}=".encode(), Found(route, _NOTHING))
                    self._asking[route.path, method] = marker
                else:
                    self._whole.setdefault(route.path, {})[method] = Found(route, _NOTHING)
        # If no other operation has the path, they answer without that parameter too.
        for (path, method), (_, found) in self._asking.items():
            self._whole.setdefault(path, {}).setdefault(method, found)
        for pattern, methods in patterns.items():
            # A name may contain a line feed.
            self._patterns.append((re.compile(pattern, re.DOTALL), methods))

    def find(self, method: str, path: str, query: bytes = b"") -> Found:
        if query and (path, method) in self._asking:
            parameter, asked = self._asking[path, method]
            if query.startswith(parameter) or b"&" + parameter in query:
                return asked
        methods = self._whole.get(path)
        if methods is not None:
            found = methods.get(method)
            if found is not None:
                return found
        return self._search(method, path)

    def find_surface(self, path: str) -> Surface:
        """Return the protocol that formats an error on the path."""
        for surface in self._surfaces:
            if path.startswith(surface.prefix):
                return surface
        return self._surfaces[-1]

    def list_methods(self, path: str) -> list[str]:
        """Return the methods that the path accepts; none if there is no such path."""
        path = path.rstrip("/") or "/"
        methods = set(self._whole.get(path, ()))
        for pattern, routes in self._patterns:
            if pattern.fullmatch(path):
                methods.update(routes)
        return sorted(methods)

    def _search(self, method: str, path: str) -> Found:
        bare = path.rstrip("/") or "/"
        whole = self._whole.get(bare, {}).get(method)
        if whole is not None:
            return whole
        for pattern, methods in self._patterns:
            match = pattern.fullmatch(bare)
            if match is not None and method in methods:
                names = match.groupdict()
                if "%" in bare:
                    names = {name: unquote(value) for name, value in names.items()}
                return Found(methods[method], names)
        allowed = self.list_methods(path)
        if allowed:
            raise MethodNotAllowed(method, allowed)
        raise NoSuchRoute(path)


def read_path(sent: str) -> str:
    """Return a path decoded, except slashes and percent signs within its parts.

    A name may contain slashes: they are decoded once the names are separated.
    """
    parts = (unquote(part).replace("%", "%25").replace("/", "%2F") for part in sent.split("/"))
    return "/".join(parts)


def _make_pattern(route: Route) -> str:
    forms = route.operation.forms
    return _NAME.sub(lambda name: f"(?P<{name[1]}>{forms.get(name[1], '[^/]+')})", route.path)


def _require_names(operation: Operation[Any, Any]) -> None:
    names = set(_NAME.findall(operation.path))
    if not names:
        return
    if operation.parameters is None:
        raise TypeError(f"{operation.path} needs parameters")
    known = {item.encode_name for item in msgspec.structs.fields(operation.parameters)}
    if names - known:
        raise TypeError(f"{operation.path} names parameters that do not exist: {names - known}")
