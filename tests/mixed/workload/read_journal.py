"""Records that a consumer group has read and the offsets that it has committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class ReadJournal:
    """Reading again is allowed from the last committed offset on. Logs begin at offset 0 and have no gaps."""

    def __init__(self, partitions: Iterable[int]) -> None:
        self.values: dict[int, list[bytes]] = {partition: [] for partition in partitions}
        self.committed = dict.fromkeys(self.values, 0)
        self.anomalies: list[str] = []
        self.repeated = 0
        """Records that were read again, as they were not committed."""

    def note_record(self, partition: int, offset: int, value: bytes) -> None:
        values = self.values[partition]
        if offset > len(values):
            self.anomalies.append(f"{partition}: skipped from {len(values)} to {offset}")
        elif offset == len(values):
            values.append(value)
        elif values[offset] != value:
            self.anomalies.append(f"{partition}: {offset} was {values[offset]!r}, now {value!r}")
        elif offset < self.committed[partition]:
            self.anomalies.append(f"{partition}: {offset} again, committed {self.committed[partition]}")
        else:
            self.repeated += 1

    def note_commit(self, positions: Mapping[int, int]) -> None:
        self.committed.update(positions)
