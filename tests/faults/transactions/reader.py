"""A read_committed reader on a raw connection: it fetches, and drops the batches of aborted transactions.

It continues at its position after a broker restart. With every response it checks that nothing beyond the
last stable offset is returned, and that the last stable offset never falls behind its position.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from tests.faults.broker_partitions import NOT_YET
from tests.faults.storage.specimen import is_whole, whole_batches
from tests.faults.transactions.checker import SIDES, Entry
from tests.support.kio_requests import fetch
from tests.support.raw_connection import ConnectionEnded, RawConnection

from odradek.records import codec

READ_COMMITTED = 1
TRANSACTIONAL, CONTROL = 0x10, 0x20
DRAIN_SECONDS_MAX = 60.0
TopicAndPartition = tuple[str, int]


class Aborted:
    """The aborted transactions of one response, applied as a client does."""

    def __init__(self, listed: Iterable[tuple[int, int]]) -> None:
        self._listed = deque(sorted(listed))
        self._open: set[int] = set()

    def has(self, producer_id: int, end: int) -> bool:
        """Return whether a batch of this producer with this last offset is part of an aborted transaction."""
        self._advance(end)
        return producer_id in self._open

    def ends(self, producer_id: int, end: int) -> None:
        """Process a marker of this producer: an abort marker ends its aborted transaction."""
        self._advance(end)
        self._open.discard(producer_id)

    def _advance(self, end: int) -> None:
        while self._listed and self._listed[0][0] < end:
            self._open.add(self._listed.popleft()[1])


class Reader(threading.Thread):
    """Reads both topics continuously."""

    def __init__(self, address: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._partitions = partitions
        self._keys: list[TopicAndPartition] = [
            (side, number) for side in SIDES for number in range(partitions)
        ]
        self._next = dict.fromkeys(self._keys, 0)
        self._stable = dict.fromkeys(self._keys, 0)
        self._ends = dict.fromkeys(self._keys, 0)
        self._entries: dict[TopicAndPartition, list[Entry]] = {key: [] for key in self._keys}
        self._ending = threading.Event()
        self.wrong: list[str] = []
        self.aborted_batches = 0

    def connect(self) -> RawConnection:
        return RawConnection(self._address)

    def run(self) -> None:
        while not self._ending.wait(0.05):
            with suppress(ConnectionEnded, OSError), self.connect() as connection:
                while not self._ending.is_set():
                    self._poll(connection)

    def finish(self) -> None:
        """Read to the end of the logs; transactions that stay open are violations."""
        self._ending.set()
        self.join()
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        with self.connect() as connection:
            while not self._is_at_end(self._poll(connection)) and time.monotonic() < deadline:
                pass
        for key in self._keys:
            if self._stable[key] != self._ends[key]:
                self.wrong.append(f"{key}: stable to {self._stable[key]} of {self._ends[key]}")

    def sides(self) -> list[list[Sequence[Entry]]]:
        """Return the entries read, for the checker."""
        return [[self._entries[side, number] for number in range(self._partitions)] for side in SIDES]

    def _is_at_end(self, ok_count: int) -> bool:
        at_end = all(self._next[key] >= self._ends[key] for key in self._keys)
        return at_end and ok_count == len(self._keys)

    def _poll(self, connection: RawConnection) -> int:
        """Fetch once; return the number of partitions without an error."""
        ok_count = 0
        for topic in connection.exchange(self._request()).responses:
            for entry in topic.partitions:
                key = (topic.topic, entry.partition_index)
                if entry.error_code == 0:
                    ok_count += 1
                    self._process_response(key, entry)
                elif entry.error_code not in NOT_YET:
                    self.wrong.append(f"{key} at {self._next[key]}: error {entry.error_code}")
        return ok_count

    def _request(self) -> Any:
        topics = tuple(
            fetch.FetchTopic(
                topic=side,
                partitions=tuple(
                    fetch.FetchPartition(
                        partition=number, fetch_offset=self._next[side, number], partition_max_bytes=1 << 18
                    )
                    for number in range(self._partitions)
                ),
            )
            for side in SIDES
        )
        return fetch.FetchRequest(
            max_wait=timedelta(milliseconds=200),
            min_bytes=4096,
            max_bytes=1 << 24,
            isolation_level=READ_COMMITTED,
            topics=topics,
            forgotten_topics_data=(),
        )

    def _process_response(self, key: TopicAndPartition, entry: Any) -> None:
        if entry.last_stable_offset < self._stable[key]:
            self.wrong.append(f"{key}: stable to {self._stable[key]}, then {entry.last_stable_offset}")
        self._stable[key] = entry.last_stable_offset
        self._ends[key] = entry.high_watermark
        aborted = Aborted((txn.first_offset, txn.producer_id) for txn in entry.aborted_transactions or ())
        for batch in whole_batches(entry.records or b""):
            self._process_batch(key, batch, aborted)

    def _process_batch(self, key: TopicAndPartition, batch: bytes, aborted: Aborted) -> None:
        if not is_whole(batch):
            self.wrong.append(f"{key} at {self._next[key]}: a batch with an invalid checksum")
        (first,) = struct.unpack_from(">q", batch)
        attributes, delta = struct.unpack_from(">hi", batch, 21)
        (producer_id,) = struct.unpack_from(">q", batch, 43)
        end = first + delta + 1
        if end <= self._next[key]:
            return
        if end > self._stable[key]:
            self.wrong.append(f"{key}: served to {end}, stable to {self._stable[key]}")
        if attributes & CONTROL:
            aborted.ends(producer_id, end)
        elif attributes & TRANSACTIONAL and aborted.has(producer_id, end):
            self.aborted_batches += 1
        else:
            self._entries[key] += [Entry.read(record.value or b"") for record in codec.decode(batch)]
        self._next[key] = end
