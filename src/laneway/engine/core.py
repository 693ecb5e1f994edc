"""What the broker's roles share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from laneway.engine.catalog import Catalog
    from laneway.engine.notifications import Notices
    from laneway.engine.pool import Pool
    from laneway.engine.wakeups import Wakeups


class Core(NamedTuple):
    pool: Pool
    catalog: Catalog
    wakeups: Wakeups
    notices: Notices

    def announce_change(self) -> None:
        """Have this process and the others forget what they know of queues and groups."""
        self.catalog.forget()
        self.notices.tell_catalog()
