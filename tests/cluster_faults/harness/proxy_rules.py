"""The rules that a proxy has, with the number of requests each has changed."""

from __future__ import annotations

import asyncio

from tests.cluster_faults.harness.proxy_rule import Rule
from tests.cluster_faults.harness.request_header import RequestHeader


class ActiveRule:
    """``removed`` is set at its end, when connections that it stalls are closed."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.hits = 0
        self._candidates = 0
        self.removed = asyncio.Event()

    def takes(self, broker: int, header: RequestHeader) -> bool:
        """Return whether it changes this request, and count it."""
        if not self.rule.concerns(broker, header):
            return False
        if self.rule.count is not None and self.hits >= self.rule.count:
            return False
        self._candidates += 1
        if self._candidates % self.rule.every:
            return False
        self.hits += 1
        return True


class ProxyRules:
    def __init__(self) -> None:
        self._active: dict[int, ActiveRule] = {}

    def add(self, number: int, rule: Rule) -> None:
        self._active[number] = ActiveRule(rule)

    def remove(self, number: int) -> int:
        """Remove a rule; return how many requests it has changed."""
        active = self._active.pop(number)
        active.removed.set()
        return active.hits

    def hits(self, number: int) -> int:
        return self._active[number].hits

    def take(self, broker: int, header: RequestHeader) -> list[ActiveRule]:
        """Return the rules that change this request, in the order they were added."""
        return [active for active in self._active.values() if active.takes(broker, header)]
