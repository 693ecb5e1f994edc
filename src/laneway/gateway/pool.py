"""The URLs of a target: how each is, and which one gets the next call."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from laneway.gateway.calls import CallFailed, Unreachable
from laneway.gateway.failures import CallRefused
from laneway.gateway.targets import Health

if TYPE_CHECKING:
    from laneway.gateway.calls import Calls
    from laneway.gateway.targets import Upstream

TIMEOUT = timedelta(milliseconds=500)
# How long an answer counts, in seconds.
KEEP = 10.0


class UpstreamPool:
    """Chooses the URL with the fewest pending transactions, of those that are available."""

    def __init__(self, upstream: Upstream, calls: Calls) -> None:
        self._upstream = upstream
        self._calls = calls
        self._known: dict[str, Health] = {}
        self._asked_at = -KEEP
        self._asking = asyncio.Lock()

    async def choose(self) -> str:
        """Return the URL to call; raise Unreachable if none is available."""
        urls = self._upstream.target.urls
        if len(urls) == 1:
            return urls[0]
        health = await self.ask()
        well = [url for url in urls if health[url].available]
        if not well:
            details = "; ".join(f"{url}: {health[url].detail}" for url in urls)
            raise Unreachable(f"no URL of the target is available: {details}", sent=False)
        best = min(well, key=lambda url: health[url].pending)
        # Calls that begin before the next answer are distributed, too.
        self._known[best] = health[best]._replace(pending=health[best].pending + 1)
        return best

    async def ask(self) -> dict[str, Health]:
        """Return how the target is at each URL, at most ten seconds ago."""
        async with self._asking:
            if monotonic() - self._asked_at >= KEEP:
                urls = self._upstream.target.urls
                found = await asyncio.gather(*map(self._ask, urls))
                self._known = dict(zip(urls, found, strict=True))
                self._asked_at = monotonic()
        return self._known

    async def _ask(self, url: str) -> Health:
        request = self._upstream.ask_health(url)
        if request is None:
            return Health(available=True, detail="the target has no health check")
        try:
            answer = await self._calls.send(replace(request, timeout=TIMEOUT))
            return self._upstream.read_health(url, answer)
        except (CallFailed, CallRefused) as error:
            return Health(available=False, detail=str(error))
