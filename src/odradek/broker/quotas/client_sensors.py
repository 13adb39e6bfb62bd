"""Measurements by client. Those of idle clients are dropped: clients choose their ids, so there is no end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

INACTIVE_MS_MAX: Final = 3_600_000
"""Idle time after which a measurement is dropped, as in Kafka."""
SENSORS_MAX: Final = 50_000
"""Beyond this number, which Kafka does not limit, the client that was idle longest is dropped."""

S = TypeVar("S")


class _Entry(Generic[S]):
    __slots__ = ("last_ms", "sensor")

    def __init__(self, sensor: S) -> None:
        self.sensor = sensor
        self.last_ms = 0


class ClientSensors(Generic[S]):
    __slots__ = ("_entries", "_make", "_max_count")

    def __init__(self, make: Callable[[], S], max_count: int = SENSORS_MAX) -> None:
        self._make = make
        self._max_count = max_count
        self._entries: OrderedDict[Hashable, _Entry[S]] = OrderedDict()
        """The least recently used first."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, now_ms: int) -> S:
        """Return the sensor of a client, which is new if the client was idle for long."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self._make())
            if len(self._entries) > self._max_count:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(key)
        entry.last_ms = now_ms
        return entry.sensor

    def expire(self, now_ms: int) -> None:
        """Drop the sensors of idle clients."""
        entries = self._entries
        while entries and now_ms - next(iter(entries.values())).last_ms > INACTIVE_MS_MAX:
            entries.popitem(last=False)
