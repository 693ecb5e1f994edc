"""Claims made for a request: how they wait, and how they are released if they are not delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from laneway.domain.messages import ClaimedSpan
from laneway.engine.deliveries import list_receipts

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from types import TracebackType
    from typing import Self

    from laneway.domain.messages import Delivery, Receipt
    from laneway.server.calls import Call, Caller

    C = TypeVar("C", ClaimedSpan, Delivery)
    T = TypeVar("T")


class Claims:
    """What one request claims.

    The request makes its whole answer in the context:

        async with Claims(call) as claims:
            spans = await claims.make(broker.claim_spans(...), wait=True)
            return Answer(200, encode(spans))

    If anything in the context raises, or the client is gone at its end, all that was claimed is
    released without counting an attempt. `caller` is as in `Call.attend`.
    """

    __slots__ = ("_call", "_caller", "_made")

    def __init__(self, call: Call[Any, Any], caller: Caller | None = None) -> None:
        self._call = call
        self._caller = caller
        self._made: list[Sequence[ClaimedSpan] | Sequence[Delivery]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is not None:
            await self.release()
        elif self._made:
            await self.require_client()

    async def make(self, claim: Coroutine[Any, Any, list[C]], *, wait: bool = False) -> list[C]:
        """Return what the claim returns. With `wait` it is a long poll, as `attend`."""
        claimed = await (self.attend(claim, otherwise=[]) if wait else claim)
        self.add(claimed)
        return claimed

    def add(self, claimed: Sequence[ClaimedSpan] | Sequence[Delivery]) -> None:
        """Include what was claimed otherwise."""
        if claimed:
            self._made.append(claimed)

    async def attend(self, work: Coroutine[Any, Any, T], *, otherwise: T) -> T:
        """Return what a long poll returns, or `otherwise` if the server stops during it.

        The work may make claims. None of them is left when it did not end by itself.
        """
        result = await self._call.attend(work, otherwise=otherwise, caller=self._caller)
        if result is otherwise:
            await self.release()
        return result

    async def require_client(self) -> None:
        """Raise ClientGone if the client is gone, and release the claims: call it before an ack."""
        if self._call.is_gone():
            await self.release()
            self._call.leave()

    async def release(
        self, claimed: Sequence[ClaimedSpan] | Sequence[Delivery] | None = None
    ) -> None:
        """Release some of what was claimed, or all of it. A release that fails is only logged."""
        if claimed is None:
            released, self._made = self._made, []
        else:
            released = [claimed]
            self._made = [each for each in self._made if each is not claimed]
        if released:
            await self._call.broker.return_claims(
                [receipt for each in released for receipt in _list_receipts(each)]
            )

    def keep(self) -> None:
        """Release nothing any more: what was claimed is settled."""
        self._made = []


def _list_receipts(claimed: Sequence[ClaimedSpan] | Sequence[Delivery]) -> list[Receipt]:
    if isinstance(claimed[0], ClaimedSpan):
        return list_receipts(claimed)  # type: ignore[arg-type]  # all are of one kind
    return [delivery.receipt for delivery in claimed]  # type: ignore[union-attr]
