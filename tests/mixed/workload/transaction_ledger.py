"""Outcomes of transactions, and the records that show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The producer failed during the commit: all or nothing."""


def find_anomalies(outcomes: Mapping[bytes, Outcome], visible: Mapping[int, Sequence[bytes]]) -> list[str]:
    """Compare the outcomes of transactions, in order, with what is visible in each partition.

    Each transaction writes its name once to each partition.
    """
    anomalies: list[str] = []
    places = {name: place for place, name in enumerate(outcomes)}
    counters = {partition: Counter(values) for partition, values in visible.items()}
    for partition, values in visible.items():
        anomalies += [f"{partition}: {value!r} is unknown" for value in values if value not in outcomes]
        known = [places[value] for value in values if value in outcomes]
        if known != sorted(known):
            anomalies.append(f"{partition}: transactions are reordered")
    for name, outcome in outcomes.items():
        counts = {partition: counter[name] for partition, counter in counters.items()}
        if outcome is Outcome.UNKNOWN:
            outcome = Outcome.COMMITTED if any(counts.values()) else Outcome.ABORTED
        expected = 1 if outcome is Outcome.COMMITTED else 0
        if any(count != expected for count in counts.values()):
            anomalies.append(f"{name!r} is {outcome.value}, records by partition: {counts}")
    return anomalies
