"""JSON encoding of the library's calls, derived from the signatures of `Backend`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from laneway.domain import errors
from laneway.domain.backend import Backend
from laneway.domain.errors import LanewayError

PREFIX = "/library/v1"

Turn: TypeAlias = Callable[[Any], Any]

# Lease tokens are sent as text; msgspec cannot distinguish a UUID from a str by itself.
_TOKEN = (UUID, str)


# The name of a call on the wire stays when its method's name changes. Those not listed have their
# method's name.
_WIRE_NAMES = {
    "keys.create": "create_key",
    "keys.revoke": "revoke_key",
    "keys.describe": "list_keys",
    "queues.create": "create_queue",
    "queues.update": "update_queue",
    "queues.delete": "delete_queue",
    "queues.get": "get_queue",
    "queues.list_all": "list_queues",
    "groups.create": "create_group",
    "groups.list_all": "list_groups",
    "groups.delete": "delete_group",
    "groups.seek_to": "seek_group",
    "dead_letters.browse_matching": "browse_dead_letters",
    "dead_letters.redrive_matching": "redrive_dead_letters",
    "dead_letters.purge_matching": "purge_dead_letters",
    "messages.archive_leased": "archive_held",
    "statistics.system": "system_stats",
    "dead_letters.redrive": "replay",
    "schedules.register": "register_schedule",
    "schedules.list_all": "list_schedules",
    "schedules.pause": "pause_schedule",
    "schedules.run": "run_schedule",
    "workers.register": "register_worker",
    "workers.record_heartbeat": "beat_worker",
    "workers.extend_leases": "hold_for_worker",
    "workers.step": "step_worker",
    "workers.ask": "ask_worker",
    "workers.list_all": "list_workers",
    "workers.reclaim": "reclaim_worker",
    "workers.purge": "purge_workers",
}


class Shape(NamedTuple):
    """One call: its name, arguments and answer.

    name: as on the wire. method: the call in a Backend, such as "queues.create". request: the
    arguments' type. answer: the type to decode the answer as. turn, turns: conversions of the decoded
    answer and arguments; None or missing for no conversion.
    """

    name: str
    method: str
    request: type[msgspec.Struct]
    turns: dict[str, Turn]
    answer: Any
    turn: Turn | None


class Failure(msgspec.Struct):
    """An error in an answer: its class, message and other attributes."""

    error: str
    message: str
    details: dict[str, Any] = {}


@cache
def list_shapes() -> dict[str, Shape]:
    """Return every call of a Backend by its name on the wire."""
    shapes = [_derive(method, function) for method, function in _list_methods(Backend)]
    return {shape.name: shape for shape in shapes}


def _list_methods(protocol: type, prefix: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in vars(protocol).items():
        if isinstance(member, property):
            section = get_type_hints(member.fget)["return"]
            yield from _list_methods(section, f"{name}.")
        elif inspect.iscoroutinefunction(member):
            yield prefix + name, member


def _derive(method: str, function: Callable[..., Any]) -> Shape:
    name = _WIRE_NAMES.get(method, method.rpartition(".")[2])
    hints = get_type_hints(function)
    answer, turn = _adapt(hints.pop("return"))
    fields: list[Any] = []
    turns: dict[str, Turn] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        kind, field_turn = _adapt(hints[parameter.name])
        if field_turn is not None:
            turns[parameter.name] = field_turn
        default = parameter.default
        fields.append(
            (parameter.name, kind)
            if default is inspect.Parameter.empty
            else (parameter.name, kind, default)
        )
    request = msgspec.defstruct(name.title().replace("_", ""), fields, kw_only=True)
    return Shape(name, method, request, turns, answer, turn)


def _adapt(hint: Any) -> tuple[Any, Turn | None]:
    """Return the type to decode for a hint, and the conversion to the hint's type, if it differs."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {list, Sequence}:
        made = arguments[0]
        if isinstance(made, type) and _has_token(made):
            return list[_flatten(made)], lambda items: [made._make(item) for item in items]  # type: ignore[attr-defined, misc]
        return list[made], None  # type: ignore[valid-type]
    return hint, None


def _has_token(kind: type) -> bool:
    hints = get_type_hints(kind) if hasattr(kind, "_fields") else {}
    return any(set(_TOKEN) <= set(get_args(hint)) for hint in hints.values())


def _flatten(kind: type) -> Any:
    """Return the plain tuple type of a named tuple, with tokens as text."""
    hints = [get_type_hints(kind)[name] for name in kind._fields]  # type: ignore[attr-defined]
    return tuple[tuple(map(_write_token, hints))]  # type: ignore[misc]


def _write_token(hint: Any) -> Any:
    kinds = get_args(hint)
    if not set(_TOKEN) <= set(kinds):
        return hint
    return Union[str, None] if type(None) in kinds else str  # noqa: UP007 - built at runtime


def describe(error: LanewayError) -> Failure:
    """Return an error as it is sent."""
    details = {
        name: {"seconds": value.total_seconds()} if isinstance(value, timedelta) else value
        for name, value in vars(error).items()
        if value is None or isinstance(value, str | int | float | timedelta)
    }
    return Failure(type(error).__name__, str(error), details)


def restore(failure: Failure) -> LanewayError:
    """Return the error that was sent; an error class that only the server has becomes the nearest."""
    kind = getattr(errors, _NEAREST.get(failure.error, failure.error), None)
    if not (isinstance(kind, type) and issubclass(kind, LanewayError)):
        kind = errors.InternalError
    error = kind.__new__(kind, failure.message)
    for name, value in failure.details.items():
        length = value.get("seconds") if isinstance(value, dict) else None
        setattr(error, name, value if length is None else timedelta(seconds=length))
    if isinstance(error, errors.Retryable) and "retry_after" not in vars(error):
        error.retry_after = None
    return error


_NEAREST = {
    "Unauthenticated": "AccessDenied",
    "Forbidden": "AccessDenied",
    "BodyTooLarge": "MessageTooLarge",
    "InvalidInput": "InvalidRequest",
    "ServerBusy": "Overloaded",
    "NoSuchRoute": "Misconfigured",
    "MethodNotAllowed": "Misconfigured",
}
