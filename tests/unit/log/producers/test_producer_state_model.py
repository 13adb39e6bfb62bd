"""Whatever is appended, cut, restarted or lost: producers, aborted transactions and the last stable offset
are what a simple reading of the log's batches says."""

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
    """One that was appended. ``marker`` is None for records."""

    producer: int
    epoch: int
    first_offset: int
    last_offset: int
    last_sequence: int
    is_transactional: bool
    marker: EndTransactionMarker | None


@dataclass
class Known:
    epoch: int = -1
    coordinator_epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    transaction: int = -1


@dataclass
class Reading:
    """What batches say, read from the first to the last."""

    producers: dict[int, Known] = field(default_factory=dict)
    aborted: list[tuple[int, int, int, int]] = field(default_factory=list)

    def read(self, batches: list[Batch]) -> "Reading":
        for batch in batches:
            if batch.producer >= 0:
                self._read(batch)
        return self

    def _read(self, batch: Batch) -> None:
        known = self.producers.setdefault(batch.producer, Known())
        if known.epoch != batch.epoch:
            known.epoch, known.last_sequence, known.last_offset = batch.epoch, -1, -1
        if batch.marker is None:
            known.last_sequence, known.last_offset = batch.last_sequence, batch.last_offset
            if batch.is_transactional and known.transaction < 0:
                known.transaction = batch.first_offset
            return
        known.coordinator_epoch = batch.marker.coordinator_epoch
        first_offset, known.transaction = known.transaction, -1
        if first_offset >= 0 and not batch.marker.commits:
            stable = min(self.open(), default=batch.first_offset + 1)
            self.aborted.append((batch.producer, first_offset, batch.first_offset, stable))

    def open(self) -> list[int]:
        return [one.transaction for one in self.producers.values() if one.transaction >= 0]


class Life:
    """A log and the batches that were appended to it."""

    def __init__(self, bench: Any, new_chance: Callable[[int], Any], batch: Callable[..., bytearray]) -> None:
        self.bench = bench
        self.new_chance = new_chance
        self.make = batch
        self.log = bench.create(**SMALL)
        bench.run(self.log.flush())
        self.batches: list[Batch] = []
        self.point = 0

    def reading(self) -> Reading:
        return Reading().read(self.batches)

    # What may happen.

    def records(self, producer: int, in_transaction: bool, count: int) -> None:
        known = self.reading().producers.get(producer, Known())
        epoch, sequence = max(known.epoch, 0), known.last_sequence + 1
        in_transaction = in_transaction or known.transaction >= 0
        how = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
        data = self.make(count, transactional=in_transaction, **how)
        done = self.log.append_as_leader(data, 0, self.bench.now_ms)
        last = sequence + count - 1
        self.batches.append(
            Batch(producer, epoch, done.first_offset, done.last_offset, last, in_transaction, None)
        )

    def records_of_nobody(self) -> None:
        offset = self.bench.append(self.log, 2)
        self.batches.append(Batch(-1, -1, offset, offset + 1, -1, False, None))

    def end(self, producer: int, commits: bool, new_epochs: int) -> None:
        known = self.reading().producers.get(producer, Known())
        epoch = max(known.epoch, 0) + (new_epochs & 1)
        kind = ControlRecordType.COMMIT if commits else ControlRecordType.ABORT
        marker = EndTransactionMarker(kind, max(known.coordinator_epoch, 0) + (new_epochs >> 1))
        done = self.log.append_end_marker(marker, producer, epoch, 0, self.bench.now_ms)
        self.batches.append(Batch(producer, epoch, done.first_offset, done.last_offset, -1, True, marker))

    def roll(self) -> None:
        self.log.roll(self.bench.now_ms)

    def flush(self) -> None:
        self.bench.run(self.log.flush())
        self.point = self.log.recovery_point

    def cut(self, back: int) -> None:
        offset = max(self.log.log_end_offset - back, 0)
        self.log.truncate_to(offset, self.bench.now_ms)
        self.point = min(self.point, self.log.recovery_point)
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]

    def stop(self) -> None:
        self.bench.run(self.log.close())
        self.log = self.bench.open(SMALL, recovery_point=self.log.log_end_offset)
        self.point = self.log.recovery_point

    def kill(self) -> None:
        self.log = self.bench.open(SMALL, had_clean_shutdown=False, recovery_point=self.point)

    def lose_power(self, seed: int) -> None:
        self.bench.files.crash(self.new_chance(seed))
        self.kill()
        # What was cut but not flushed may be back: what counts is what is there.
        self.batches = self.found()
        self.flush()

    def found(self) -> list[Batch]:
        batches: list[Batch] = []
        for segment in self.log.segments:
            data = self.bench.files.read_whole(segment.path(".log"))
            for one in read_headers(data):
                marker = read_end_marker(decode_batch(data, one)[0]) if one.is_control else None
                offsets = (one.base_offset, one.last_offset)
                batches.append(
                    Batch(
                        one.producer_id,
                        one.producer_epoch,
                        *offsets,
                        one.last_sequence,
                        one.is_transactional,
                        marker,
                    )
                )
        return batches

    # What is true.

    def check(self) -> None:
        expected, log = self.reading(), self.log
        found = {
            one.producer_id: Known(
                one.producer_epoch,
                one.coordinator_epoch,
                one.last_sequence,
                one.last_data_offset,
                one.transaction_first_offset,
            )
            for one in log.producers
        }
        assert found == expected.producers
        assert [tuple(one) for segment in log.segments for one in segment.aborted()] == expected.aborted
        for segment in log.segments:
            assert all(one.last_offset >= segment.base_offset for one in segment.aborted())
        log.high_watermark = log.log_end_offset
        assert log.last_stable_offset == min(expected.open(), default=log.log_end_offset)
        for start in range(0, log.log_end_offset, 3):
            wanted = [one for one in expected.aborted if one[2] >= start and one[1] < start + 4]
            within = [tuple(one) for one in log.aborted_transactions_between(start, start + 4)]
            assert [one for one in within if one in wanted] == wanted


STEPS = st.one_of(
    st.tuples(st.just("records"), PRODUCERS, st.booleans(), st.integers(1, 3)),
    st.tuples(st.just("records"), PRODUCERS, st.just(True), st.just(1)),
    st.tuples(st.just("end"), PRODUCERS, st.booleans(), st.integers(0, 3)),
    st.tuples(st.just("end"), PRODUCERS, st.just(False), st.just(0)),
    st.tuples(st.sampled_from(["records_of_nobody", "roll", "flush", "stop", "kill"])),
    st.tuples(st.just("cut"), st.integers(0, 12)),
    st.tuples(st.just("lose_power"), st.integers(0, 10_000)),
)


@given(steps=st.lists(STEPS, max_size=40))
def test_state_is_what_the_batches_say(
    new_bench: Callable[[], Any],
    new_chance: Callable[[int], Any],
    batch: Callable[..., bytearray],
    steps: list[tuple[Any, ...]],
) -> None:
    life = Life(new_bench(), new_chance, batch)
    for name, *how in steps:
        getattr(life, name)(*how)
        life.check()
    life.stop()
    life.check()
