"""The route of the key-value store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.errors import PreconditionFailed
from laneway.server.access import named, require_role
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.kv_operations import (
    KvBatch,
    KvRequest,
    KvResult,
    name_spaces,
    show_lost,
    writes,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call


class KvRequests(msgspec.Struct, kw_only=True):
    """Operations on keys, done in this order and all or nothing."""

    operations: Annotated[
        list[KvRequest],
        Meta(max_length=256, description="Up to 256 operations, on up to 4096 keys together."),
    ]


class KvResults(msgspec.Struct, kw_only=True):
    """What became of the operations, or which required one did not apply."""

    results: Annotated[
        list[KvResult] | UnsetType,
        Meta(
            description="One result per operation, in the order of the request. Absent if a required "
            "operation did not apply."
        ),
    ] = UNSET
    ok: Annotated[
        bool | UnsetType, Meta(description="False if a required operation did not apply.")
    ] = UNSET
    reason: Annotated[str | UnsetType, Meta(description="Then `kv_precondition`.")] = UNSET
    failed_index: Annotated[
        int | UnsetType, Meta(description="Position of the operation that did not apply.")
    ] = msgspec.field(name="failedIndex", default=UNSET)
    kv_reason: Annotated[
        str | UnsetType, Meta(description="Why it did not, as `reason` of a result.")
    ] = msgspec.field(name="kvReason", default=UNSET)
    version: Annotated[
        int | UnsetType, Meta(description="The version of its key; 0 if the key does not exist.")
    ] = UNSET
    value: Annotated[Raw | UnsetType, Meta(description="The value of its key.")] = UNSET


async def apply(call: Call[None, KvRequests]) -> Answer:
    requests = call.body.operations
    if writes(requests):
        require_role(call.identity, Role.WRITE, "writing keys")
    batch = KvBatch(requests)
    try:
        rows = await call.broker.kv.apply(batch.operations)
    except PreconditionFailed as error:
        return answer_json(200, show_lost(error, batch.find_request(error)))
    return answer_json(200, KvResults(results=batch.show(rows)))


@named
async def _spaces_of_operations(call: Call[Any, Any], /) -> Sequence[str] | None:
    names = name_spaces(call.body.operations)
    return None if names is None else sorted(names)


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="POST",
        path="/kv",
        handler=apply,
        summary="Read and write keys",
        description=(
            "Reads and writes keys of namespaces, in one database transaction that is on disk before "
            "the server responds. A write that does not apply is no error: its result has the present "
            "value and version. If it is `required`, nothing of the request is done. Versions rise "
            "with every write, also of a key that was deleted or has expired. Writing requires the "
            "role `write`; an API key that is limited to some queues may use the namespaces with "
            "names that match, and of `queen-locks` the locks with names that match."
        ),
        body=KvRequests,
        example={
            "operations": [
                {
                    "op": "putIfAbsent",
                    "ns": "orders",
                    "key": "seen:12",
                    "value": 1,
                    "ttlSeconds": 60,
                },
                {"op": "get", "ns": "orders", "key": "seen:11"},
            ]
        },
        answers={
            200: Response(
                KvResults,
                "The operations were done, or a required one did not apply and nothing was. Check "
                "`applied` of each result.",
            )
        },
        role=Role.READ,
        reach=_spaces_of_operations,
        compress=True,
        tag="keys",
    ),
)
