"""The route that creates a queue or changes its options."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.domain.errors import QueueExists, QueueNotFound, TransientConflict
from laneway.server.access import named
from laneway.server.errors import Forbidden
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.options import (
    SECTION,
    Options,
    find_guarded,
    make_settings,
    merge_options,
    name_parts,
    plan_change,
    read_stored,
    show_options,
)
from laneway.server.queen.wire import QueueName, refuse
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.queues import Queue
    from laneway.server.calls import Call
    from laneway.server.queen.encryption import Vault

Label = Annotated[str, Meta(min_length=1, max_length=255)]


class Configure(msgspec.Struct, kw_only=True):
    """A queue, and the options to set."""

    queue: Annotated[
        QueueName,
        Meta(
            description="Name of the queue. A new queue named `billing.invoices` has the namespace "
            "`billing` and the task `invoices`."
        ),
    ]
    namespace: Annotated[
        Label | None,
        Meta(description="Namespace of the queue, 1 to 255 characters. Default: unchanged."),
    ] = None
    task: Annotated[
        Label | None,
        Meta(description="Task of the queue, 1 to 255 characters. Default: unchanged."),
    ] = None
    options: Annotated[Options, Meta(description="Options to set.")] = msgspec.field(
        default_factory=Options
    )


class Configured(msgspec.Struct, kw_only=True):
    """A queue with its options."""

    configured: Annotated[bool, Meta(description="Always true.")]
    queue_id: Annotated[str, Meta(description="Id of the queue.")] = msgspec.field(name="queueId")
    queue: Annotated[str, Meta(description="Name of the queue.")]
    namespace: Annotated[str | None, Meta(description="Namespace of the queue.")]
    task: Annotated[str | None, Meta(description="Task of the queue.")]
    options: Annotated[dict[str, Any], Meta(description="All options with their values.")]


class ConfigurationRoutes:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def configure(self, call: Call[None, Configure]) -> Answer:
        wanted = call.body
        if wanted.options.encryption_enabled is True and not self._vault.usable:
            raise refuse(
                "options.encryptionEnabled",
                "the server has no encryption key: set QUEEN_ENCRYPTION_KEY",
            )
        queue = await self._change(call, wanted) or await self._create(call, wanted)
        stored = read_stored(queue)
        return answer_json(
            201,
            Configured(
                configured=True,
                queue_id=str(queue.queue_id),
                queue=queue.name,
                namespace=stored.get("namespace"),
                task=stored.get("task"),
                options=show_options(queue),
            ),
        )

    async def _change(self, call: Call[None, Configure], wanted: Configure) -> Queue | None:
        """Return the queue with its options changed, None if it does not exist.

        The change depends on the present options: if others change them meanwhile, it is repeated.
        """
        named = _merge({}, wanted)
        try:
            while True:
                queue = await call.broker.queues.get(wanted.queue)
                _require_role(call, find_guarded(queue, named))
                if SECTION not in queue.settings.options:
                    # Created over another protocol, whose consumers read with the queue's own
                    # group.
                    await call.broker.subscriptions.note_own_group(wanted.queue)
                settings, options = plan_change(queue, named)
                with suppress(TransientConflict):
                    await call.broker.queues.configure(
                        wanted.queue, settings, SECTION, options, seen=queue.updated_at
                    )
                    return await call.broker.queues.get(wanted.queue)
        except QueueNotFound:
            return None

    async def _create(self, call: Call[None, Configure], wanted: Configure) -> Queue:
        settings = make_settings(
            _merge(name_parts(wanted.queue), wanted),
            record_events=call.settings.activity.enabled,
        )
        try:
            return await call.broker.queues.create(wanted.queue, settings)
        except QueueExists:
            queue = await self._change(call, wanted)
            if queue is None:
                raise
            return queue

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return (
            Operation(
                method="POST",
                path="/configure",
                handler=self.configure,
                summary="Create a queue, or change its options",
                description=(
                    "Creates the queue if it does not exist, and sets the options that the "
                    "request names. All processes use the new options as soon as the server "
                    "has responded. Unknown options are refused (400). Options of an existing "
                    "queue that can remove or hide messages take an API key of the role "
                    "`admin`."
                ),
                body=Configure,
                example={
                    "queue": "billing.invoices",
                    "options": {"leaseTime": 60, "retryLimit": 5},
                },
                answers={201: Response(Configured, "The queue has these options.")},
                role=Role.WRITE,
                reach=_queue_of_body,
                tag="streams",
            ),
        )


def _require_role(call: Call[None, Configure], guarded: Sequence[str]) -> None:
    """Refuse changes that can remove or hide others' messages, unless the key's role is admin."""
    identity = call.identity
    if guarded and identity.role < Role.ADMIN:
        raise Forbidden(
            f'the key "{identity.name}" has the role {identity.role}: changing '
            f'{", ".join(guarded)} of queue "{call.body.queue}", which may remove or hide messages, '
            f"requires the role {Role.ADMIN}"
        )


def _merge(stored: Any, wanted: Configure) -> dict[str, Any]:
    merged = merge_options(stored, wanted.options)
    if wanted.namespace is not None:
        merged["namespace"] = wanted.namespace
    if wanted.task is not None:
        merged["task"] = wanted.task
    return merged


@named
async def _queue_of_body(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.body.queue,)
