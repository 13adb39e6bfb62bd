"""Completed fetches that wait to be read, in the order in which they arrived.

The event loop adds them. They are read inside ``poll``, which for a blocking consumer runs in the
application's thread, so that records need not pass from thread to thread. Why that is safe:

- The loop only appends to the queue and iterates over copies of it; only the reader removes completed
  fetches, reads them and advances positions.
- Assignment, pauses, and positions of partitions in state FETCHING change only inside calls of the
  application, one at a time. In the background only positions that await a reset or a validation change, and
  nothing is read from those.

A completed fetch is read from the position of its partition. After a seek, a reset or a revocation its offset
does not match any more, and it is dropped. So is one from an earlier leader epoch: after an unclean election
its records may not be in the log any more, and reading them would skip those that are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from odradek.client.consumer.positions.partition_state import FetchPosition, TopicPartitionState
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.model.client_errors import ClientError, RecordCorrupt, SerializationFailed, caused_by
from odradek.model.ids import TopicPartition
from odradek.records.client.consumer import ColumnBuilder, ConsumerRecord, RecordReader

COMPLETED_FETCHES_MAX: Final = 2
"""Completed fetches of one partition: the one being read, and one fetched ahead."""

AnyRecord: TypeAlias = "ConsumerRecord[Any, Any]"
"""A record whose key and value may have been deserialized."""

Deserialize: TypeAlias = Callable[["AnyRecord"], "AnyRecord"]

ReadFetch = Callable[["CompletedFetch", int], int | None]
"""Reads at most so many records of a completed fetch; returns the count, or None to have it dropped."""


class CompletedFetch:
    """Records of one partition from one Fetch response."""

    __slots__ = ("_returned", "current_leader_epoch", "end_offset", "partition", "reader", "size_bytes")
    is_deserialized: ClassVar[bool] = False

    def __init__(
        self,
        partition: TopicPartition,
        reader: RecordReader,
        size_bytes: int,
        end_offset: int | None,
        current_leader_epoch: int,
    ) -> None:
        self.partition = partition
        self.reader = reader
        self.size_bytes = size_bytes
        self.end_offset = end_offset
        """Offset of the next fetch; None if only known after reading all records."""
        self.current_leader_epoch = current_leader_epoch
        """Leader epoch of the partition in the request."""
        self._returned: list[AnyRecord] = []

    @property
    def next_offset(self) -> int:
        return self._returned[0].offset if self._returned else self.reader.next_offset

    @property
    def leader_epoch(self) -> int:
        """Leader epoch of the record before ``next_offset``."""
        return self.reader.leader_epoch

    @property
    def has_returned_records(self) -> bool:
        return bool(self._returned)

    @property
    def returned_count(self) -> int:
        return len(self._returned)

    @property
    def is_read(self) -> bool:
        return not self._returned and self.reader.exhausted

    def take(self, records_max: int) -> list[AnyRecord]:
        if not self._returned:
            return self.reader.take(records_max)
        records, self._returned = self._returned[:records_max], self._returned[records_max:]
        return records

    def put_back(self, records: list[AnyRecord]) -> None:
        """Put records in front that were taken and not returned to the application."""
        self._returned = records + self._returned


class BufferedPartition(NamedTuple):
    """Completed fetches of one partition."""

    fetch_count: int
    end_offset: int | None
    size_bytes: int


_EMPTY: Final = BufferedPartition(0, None, 0)


class FetchBuffer:
    """Queue of completed fetches; ``on_drained`` is called when there is room for another fetch."""

    def __init__(
        self,
        subscription: SubscriptionState,
        on_drained: Callable[[], None],
        deserialize: Deserialize | None = None,
    ) -> None:
        self._subscription = subscription
        self._on_drained = on_drained
        self._deserialize = deserialize
        self._fetches: deque[CompletedFetch] = deque()
        self.bytes_read = 0
        self.records_read = 0

    # Called by the event loop.

    def add(self, fetch: CompletedFetch) -> None:
        self._fetches.append(fetch)

    def buffered(self) -> dict[TopicPartition, BufferedPartition]:
        """Return, by partition, how much is buffered and where it ends."""
        partitions: dict[TopicPartition, BufferedPartition] = {}
        for fetch in list(self._fetches):
            before = partitions.get(fetch.partition, _EMPTY)
            partitions[fetch.partition] = BufferedPartition(
                before.fetch_count + 1, fetch.end_offset, before.size_bytes + fetch.size_bytes
            )
        return partitions

    @property
    def size_bytes(self) -> int:
        return sum(fetch.size_bytes for fetch in list(self._fetches))

    # Called by the reader.

    def has_readable(self) -> bool:
        """Return True if ``take`` would return a record or raise."""
        assigned = self._subscription.assigned
        return any(
            (state := assigned.get(fetch.partition)) is not None
            and state.is_fetchable
            and _is_at(state.position, fetch)
            for fetch in list(self._fetches)
        )

    def drop_stale(self) -> None:
        """Drop completed fetches that do not match a position, so that their partitions are fetched again."""
        expected: dict[TopicPartition, tuple[int | None, int]] = {}
        for partition, state in self._subscription.assigned.items():
            position = state.position
            if position is not None and state.has_valid_position and not state.pending_revocation:
                expected[partition] = position.offset, position.leader_epoch
        for _ in range(len(self._fetches)):
            fetch = self._fetches.popleft()
            if expected.get(fetch.partition) == (fetch.next_offset, fetch.current_leader_epoch):
                expected[fetch.partition] = fetch.end_offset, fetch.current_leader_epoch
                self._fetches.append(fetch)

    def take(self, records_max: int) -> list[AnyRecord]:
        """Return at most so many records, in order within each partition.

        Raises RecordCorrupt or SerializationFailed if the very next record is unreadable; it stays next.
        """
        taken: list[AnyRecord] = []

        def read(fetch: CompletedFetch, count_max: int) -> int:
            nonlocal taken
            records = fetch.take(count_max)
            if self._deserialize is not None and records and not fetch.is_deserialized:
                records = self._deserialized(fetch, records, self._deserialize)
            if taken:
                taken.extend(records)
            else:
                taken = records
            return len(records)

        self._read(records_max, read)
        return taken

    def take_columns(self, rows_max: int, into: ColumnBuilder) -> int:
        """Take records into columns, not deserialized; return the number of rows.

        Stops early when the columns are full, or at the stop offset of a partition.
        """

        def read(fetch: CompletedFetch, count_max: int) -> int | None:
            if fetch.has_returned_records:
                return None  # decoded records cannot become columns: fetch them again
            stop_offset = self._subscription.of(fetch.partition).stop_offset
            return fetch.reader.take_columns(count_max, into, stop_offset)

        return self._read(rows_max, read, into)

    def put_back(self, fetch: CompletedFetch) -> None:
        """Put records in front that were taken and not returned to the application."""
        count = fetch.returned_count
        self.records_read -= count
        first = next((other for other in list(self._fetches) if other.partition == fetch.partition), None)
        if first is not None and first.is_deserialized and first.next_offset == fetch.end_offset:
            first.put_back(fetch.take(count))  # merge, or fragments would accumulate
        else:
            self._fetches.appendleft(fetch)

    def clear(self) -> None:
        self._fetches.clear()

    def _read(self, count_max: int, read: ReadFetch, into: ColumnBuilder | None = None) -> int:
        count, was_drained, skipped = 0, False, list[CompletedFetch]()
        fetches = self._fetches
        try:
            while fetches and count < count_max and not (into is not None and into.is_full):
                fetch = fetches[0]
                state = self._subscription.assigned.get(fetch.partition)
                if state is None or not _matches(state, fetch):
                    fetches.popleft()
                    was_drained = True
                elif state.paused or state.has_stopped:
                    skipped.append(fetches.popleft())
                else:
                    count += self._read_fetch(state, fetch, count_max - count, read, into)
                    was_drained = was_drained or not fetches or fetches[0] is not fetch
        except ClientError:
            if not count:
                raise  # else return the records before it; the next call raises again
        finally:
            fetches.extend(skipped)
            if was_drained:
                self._on_drained()
        return count

    def _read_fetch(
        self,
        state: TopicPartitionState,
        fetch: CompletedFetch,
        count_max: int,
        read: ReadFetch,
        into: ColumnBuilder | None,
    ) -> int:
        start_offset, bytes_left = fetch.next_offset, fetch.reader.bytes_left
        count = read(fetch, count_max)
        if count is None:
            self._fetches.popleft()
            return 0
        if not count and fetch.next_offset == start_offset and not (into is not None and into.is_full):
            raise RecordCorrupt(
                f"no complete batch in {fetch.size_bytes} bytes fetched from {fetch.partition} at offset"
                f" {start_offset}"
            )
        # The position first: a fetch planned in between sees either the completed fetch, or where it ended.
        before = state.position
        assert before is not None, "a partition that is fetched has a position"
        state.advance(
            FetchPosition(fetch.next_offset, fetch.leader_epoch, before.leader_id, before.leader_epoch)
        )
        self.records_read += count
        self.bytes_read += bytes_left - fetch.reader.bytes_left
        if fetch.is_read:
            self._fetches.popleft()
            self._subscription.move_to_end(fetch.partition)
        return count

    def _deserialized(
        self, fetch: CompletedFetch, records: list[AnyRecord], deserialize: Deserialize
    ) -> list[AnyRecord]:
        """Return deserialized records; put those from the first failure on back."""
        deserialized: list[AnyRecord] = []
        for index, record in enumerate(records):
            try:
                deserialized.append(deserialize(record))
            except Exception as cause:  # a user's function may raise anything
                fetch.put_back(records[index:])
                if not deserialized:
                    message = (
                        f"cannot deserialize the record at offset {record.offset} of {fetch.partition}; "
                        f"seek past it to continue: {cause}"
                    )
                    raise caused_by(SerializationFailed(message), cause) from cause
                break
        return deserialized


def _matches(state: TopicPartitionState, fetch: CompletedFetch) -> bool:
    return state.has_valid_position and not state.pending_revocation and _is_at(state.position, fetch)


def _is_at(position: FetchPosition | None, fetch: CompletedFetch) -> bool:
    """Return True if a completed fetch continues at a position, in its leader epoch."""
    return (
        position is not None
        and position.offset == fetch.next_offset
        and position.leader_epoch == fetch.current_leader_epoch
    )
