"""Metrics of a client, under Kafka's names.

A metric is declared where it is used and read with all others by ``ClientMetrics.read``. Recording costs an
addition; derived values are computed when they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar


class Counter:
    """A total since the client was created."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def read(self) -> float:
        return self.value


class Average:
    """The mean of the recorded values; NaN before the first."""

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
    """The largest recorded value; NaN before the first."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = float("nan")

    def record(self, value: float) -> None:
        if not value <= self.value:
            self.value = value

    def read(self) -> float:
        return self.value


class Gauge:
    """A current value, computed when read."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def read(self) -> float:
        return float(self._read())


Metric = Counter | Average | Maximum | Gauge
M = TypeVar("M", bound=Metric)


class ClientMetrics:
    """All metrics of one client, each with a name and a description."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self.descriptions: dict[str, str] = {}

    def counter(self, name: str, description: str) -> Counter:
        return self._declare(name, description, Counter())

    def average(self, name: str, description: str) -> Average:
        return self._declare(name, description, Average())

    def maximum(self, name: str, description: str) -> Maximum:
        return self._declare(name, description, Maximum())

    def gauge(self, name: str, description: str, read: Callable[[], float]) -> Gauge:
        return self._declare(name, description, Gauge(read))

    def _declare(self, name: str, description: str, metric: M) -> M:
        if name in self._metrics:
            raise ValueError(f"metric name must be unique, got {name} twice")
        self._metrics[name] = metric
        self.descriptions[name] = description
        return metric

    def read(self) -> dict[str, float]:
        """Return all values by name."""
        return {name: metric.read() for name, metric in sorted(self._metrics.items())}
