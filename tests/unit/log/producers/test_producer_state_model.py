"""Model test: producer state, aborted transactions and the last stable offset match the log's batches.

Holds after any sequence of appends, truncations, restarts and crashes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from odradek.records.codec import decode_batch, read_headers
from odradek.records.control_records import ControlRecordType, EndTransactionMarker, read_end_marker

SMALL = {"segment_bytes": 600, "index_interval_bytes": 150}
PRODUCERS = st.integers(1, 3)


class Batch(NamedTuple):
    """An appended batch. ``marker`` is None for records."""

    producer: int
    epoch: int
    first_offset: int
    last_offset: int
    last_sequence: int
    is_transactional: bool
    marker: EndTransactionMarker | None


@dataclass
class ExpectedProducer:
    epoch: int = -1
    coordinator_epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    transaction: int = -1


@dataclass
class ExpectedState:
    """Expected state, computed from all batches."""

    producers: dict[int, ExpectedProducer] = field(default_factory=dict)
    aborted: list[tuple[int, int, int, int]] = field(default_factory=list)

    def read(self, batches: list[Batch]) -> "ExpectedState":
        for batch in batches:
            if batch.producer >= 0:
                self._read(batch)
        return self

    def _read(self, batch: Batch) -> None:
        producer_state = self.producers.setdefault(batch.producer, ExpectedProducer())
        if producer_state.epoch != batch.epoch:
            producer_state.epoch, producer_state.last_sequence, producer_state.last_offset = (
                batch.epoch,
                -1,
                -1,
            )
        if batch.marker is None:
            producer_state.last_sequence, producer_state.last_offset = batch.last_sequence, batch.last_offset
            if batch.is_transactional and producer_state.transaction < 0:
                producer_state.transaction = batch.first_offset
            return
        producer_state.coordinator_epoch = batch.marker.coordinator_epoch
        first_offset, producer_state.transaction = producer_state.transaction, -1
        if first_offset >= 0 and not batch.marker.commits:
            stable = min(self.open(), default=batch.first_offset + 1)
            self.aborted.append((batch.producer, first_offset, batch.first_offset, stable))

    def open(self) -> list[int]:
        return [producer.transaction for producer in self.producers.values() if producer.transaction >= 0]


class LogUnderTest:
    """A log and the batches that were appended to it."""

    def __init__(
        self, harness: Any, new_entropy: Callable[[int], Any], batch: Callable[..., bytearray]
    ) -> None:
        self.harness = harness
        self.new_entropy = new_entropy
        self.make_batch = batch
        self.log = harness.create(**SMALL)
        harness.run(self.log.flush())
        self.batches: list[Batch] = []
        self.recovery_point = 0

    def expected_state(self) -> ExpectedState:
        return ExpectedState().read(self.batches)

    # Operations.

    def records(self, producer: int, in_transaction: bool, count: int) -> None:
        producer_state = self.expected_state().producers.get(producer, ExpectedProducer())
        epoch, sequence = max(producer_state.epoch, 0), producer_state.last_sequence + 1
        in_transaction = in_transaction or producer_state.transaction >= 0
        arguments = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
        data = self.make_batch(count, transactional=in_transaction, **arguments)
        appended = self.log.append_as_leader(data, 0, self.harness.now_ms)
        last = sequence + count - 1
        self.batches.append(
            Batch(producer, epoch, appended.first_offset, appended.last_offset, last, in_transaction, None)
        )

    def records_without_producer(self) -> None:
        offset = self.harness.append(self.log, 2)
        self.batches.append(Batch(-1, -1, offset, offset + 1, -1, False, None))

    def end(self, producer: int, commits: bool, new_epochs: int) -> None:
        producer_state = self.expected_state().producers.get(producer, ExpectedProducer())
        epoch = max(producer_state.epoch, 0) + (new_epochs & 1)
        kind = ControlRecordType.COMMIT if commits else ControlRecordType.ABORT
        marker = EndTransactionMarker(kind, max(producer_state.coordinator_epoch, 0) + (new_epochs >> 1))
        appended = self.log.append_end_marker(marker, producer, epoch, 0, self.harness.now_ms)
        self.batches.append(
            Batch(producer, epoch, appended.first_offset, appended.last_offset, -1, True, marker)
        )

    def roll(self) -> None:
        self.log.roll(self.harness.now_ms)

    def flush(self) -> None:
        self.harness.run(self.log.flush())
        self.recovery_point = self.log.recovery_point

    def truncate(self, back: int) -> None:
        offset = max(self.log.log_end_offset - back, 0)
        self.log.truncate_to(offset, self.harness.now_ms)
        self.recovery_point = min(self.recovery_point, self.log.recovery_point)
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]

    def stop(self) -> None:
        self.harness.run(self.log.close())
        self.log = self.harness.open(SMALL, recovery_point=self.log.log_end_offset)
        self.recovery_point = self.log.recovery_point

    def kill(self) -> None:
        self.log = self.harness.open(SMALL, had_clean_shutdown=False, recovery_point=self.recovery_point)

    def lose_power(self, seed: int) -> None:
        self.harness.files.crash(self.new_entropy(seed))
        self.kill()
        # Truncated batches that were not flushed may reappear: the log is the reference.
        self.batches = self.read_batches()
        self.flush()

    def read_batches(self) -> list[Batch]:
        batches: list[Batch] = []
        for segment in self.log.segments:
            data = self.harness.files.read_whole(segment.path(".log"))
            for header in read_headers(data):
                marker = read_end_marker(decode_batch(data, header)[0]) if header.is_control else None
                offsets = (header.base_offset, header.last_offset)
                batches.append(
                    Batch(
                        header.producer_id,
                        header.producer_epoch,
                        *offsets,
                        header.last_sequence,
                        header.is_transactional,
                        marker,
                    )
                )
        return batches

    # Checks.

    def check(self) -> None:
        expected, log = self.expected_state(), self.log
        actual = {
            entry.producer_id: ExpectedProducer(
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.last_sequence,
                entry.batches[-1].last_offset if entry.batches else -1,
                entry.transaction_first_offset,
            )
            for entry in log.producers
        }
        assert actual == expected.producers
        assert [tuple(entry) for segment in log.segments for entry in segment.aborted()] == expected.aborted
        for segment in log.segments:
            assert all(entry.last_offset >= segment.base_offset for entry in segment.aborted())
        log.high_watermark = log.log_end_offset
        assert log.last_stable_offset == min(expected.open(), default=log.log_end_offset)
        for start in range(0, log.log_end_offset, 3):
            wanted = [entry for entry in expected.aborted if entry[2] >= start and entry[1] < start + 4]
            within = [tuple(entry) for entry in log.aborted_transactions_between(start, start + 4)]
            assert [entry for entry in within if entry in wanted] == wanted


STEPS = st.one_of(
    st.tuples(st.just("records"), PRODUCERS, st.booleans(), st.integers(1, 3)),
    st.tuples(st.just("records"), PRODUCERS, st.just(True), st.just(1)),
    st.tuples(st.just("end"), PRODUCERS, st.booleans(), st.integers(0, 3)),
    st.tuples(st.just("end"), PRODUCERS, st.just(False), st.just(0)),
    st.tuples(st.sampled_from(["records_without_producer", "roll", "flush", "stop", "kill"])),
    st.tuples(st.just("truncate"), st.integers(0, 12)),
    st.tuples(st.just("lose_power"), st.integers(0, 10_000)),
)


@given(steps=st.lists(STEPS, max_size=40))
def test_producer_state_matches_the_batches(
    new_harness: Callable[[], Any],
    new_entropy: Callable[[int], Any],
    batch: Callable[..., bytearray],
    steps: list[tuple[Any, ...]],
) -> None:
    log_under_test = LogUnderTest(new_harness(), new_entropy, batch)
    for name, *arguments in steps:
        getattr(log_under_test, name)(*arguments)
        log_under_test.check()
    log_under_test.stop()
    log_under_test.check()
