"""What the gateway accepted, what its target received, and where the two do not agree."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

FINAL = {"success", "failed"}
UNKNOWN = "unknown"


@dataclass(slots=True)
class Ledger:
    """accepted: the target and body of each transaction. found: what its status says at the end.

    records: of the target, as tests/faults/target.py keeps them.
    """

    accepted: dict[str, tuple[str, str]] = field(default_factory=dict)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)

    @property
    def submissions(self) -> Counter[str]:
        """How often each transaction was submitted."""
        return Counter(each["key"] for each in self.records if each["kind"] == "submission")

    @property
    def told(self) -> dict[str, list[str]]:
        """The statuses of each transaction that webhooks told, in order and each once."""
        told: dict[str, list[str]] = defaultdict(list)
        seen = set()
        for each in self.records:
            if each["kind"] == "webhook" and each["id"] not in seen:
                seen.add(each["id"])
                event = json.loads(each["body"])
                told[event["transactionId"]].append(event["status"])
        return told

    def find_faults(self) -> list[str]:
        """Return what is wrong, a line each."""
        faults = []
        for each in self.records:
            if each["kind"] != "submission":
                continue
            if each["key"] not in self.accepted:
                faults.append(f"{each['key']} was submitted, but not accepted")
            elif self.accepted[each["key"]] != (each["target"], each["body"]):
                faults.append(f"{each['key']} was submitted to another target or changed")
        counts, told = self.submissions, self.told
        for transaction, (target, _) in self.accepted.items():
            name = f"{target} {transaction}"
            found = self.found.get(transaction, {})
            status = found.get("status")
            if status not in FINAL:
                faults.append(f"{name} is {status}")
                continue
            faults += self._check_count(name, target, found, counts[transaction])
            if told[transaction] != [status] and not (
                # The answer came after another process had given it up.
                target == "at-most-once"
                and status == "success"
                and sorted(told[transaction]) == ["failed", "success"]
            ):
                faults.append(f"{name} is {status}, but was told {told[transaction]}")
        return faults

    def _check_count(self, name: str, target: str, found: dict[str, Any], count: int) -> list[str]:
        unknown = UNKNOWN in (found.get("error_message") or "")
        match target, found["status"]:
            case "asked", "success":
                fits = count == 1
            case "at-most-once", "success":
                fits = count == 1
            case "at-most-once", "failed":
                fits = count <= 1 and unknown
            case "at-least-once", "success":
                fits = count >= 1
            case _:
                fits = False
        if fits:
            return []
        error = found.get("error_message")
        return [f"{name} is {found['status']} ({error}), submitted {count} times"]
