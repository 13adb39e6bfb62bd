"""What a client counts about itself, under Kafka's names.

A metric is declared where it is used and read with all others by ``ClientMetrics.read``. Counting costs an
addition; what must be computed is computed when somebody reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar


class Counter:
    """Goes up: so many since the client began."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def read(self) -> float:
        return self.value


class Average:
    """The mean of what was recorded; not a number before the first."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0

    def record(self, value: float) -> None:
        self.total += value
        self.count += 1

    def read(self) -> float:
        return self.total / self.count if self.count else float("nan")


class Maximum:
    """The largest of what was recorded; not a number before the first."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = float("nan")

    def record(self, value: float) -> None:
        if not value <= self.value:
            self.value = value

    def read(self) -> float:
        return self.value


class Gauge:
    """What it is now, computed when read."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def read(self) -> float:
        return float(self._read())


Metric = Counter | Average | Maximum | Gauge
M = TypeVar("M", bound=Metric)


class ClientMetrics:
    """All metrics of one client, each with a name and its meaning."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self.meanings: dict[str, str] = {}

    def counter(self, name: str, meaning: str) -> Counter:
        return self._declare(name, meaning, Counter())

    def average(self, name: str, meaning: str) -> Average:
        return self._declare(name, meaning, Average())

    def maximum(self, name: str, meaning: str) -> Maximum:
        return self._declare(name, meaning, Maximum())

    def gauge(self, name: str, meaning: str, read: Callable[[], float]) -> Gauge:
        return self._declare(name, meaning, Gauge(read))

    def _declare(self, name: str, meaning: str, metric: M) -> M:
        if name in self._metrics:
            raise ValueError(f"there is a metric called {name} already")
        self._metrics[name] = metric
        self.meanings[name] = meaning
        return metric

    def read(self) -> dict[str, float]:
        """All values by name."""
        return {name: metric.read() for name, metric in sorted(self._metrics.items())}
