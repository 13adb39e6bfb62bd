"""Producer state across restarts: snapshots, replay, transaction indexes."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from odradek.log.old_segments import delete_old_segments, delete_pending_segments
from odradek.log.producers.producer_state_manager import find_stale_snapshots
from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.log.producers.snapshot_file import decode_snapshot, encode_snapshot
from odradek.log.segments.segment_format import SNAPSHOT, TRANSACTION_INDEX, file_name
from odradek.log.segments.transaction_index import AbortedTransaction, encode_aborted
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.records.control_records import ControlRecordType, EndTransactionMarker

SMALL = {"segment_bytes": 300}
ABORT, COMMIT = (
    EndTransactionMarker(ControlRecordType.ABORT, 1),
    EndTransactionMarker(ControlRecordType.COMMIT, 1),
)


class IdempotentProducer:
    """An idempotent producer and the batches it has sent."""

    def __init__(self, harness: Any, batch: Callable[..., bytearray], producer_id: int = 9) -> None:
        self.harness = harness
        self.batch = batch
        self.producer_id = producer_id
        self.sent: list[bytes] = []

    def write(self, log: Any, *, transactional: bool = False, value: bytes = b"value") -> int:
        data = self.batch(
            2,
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=2 * len(self.sent),
            transactional=transactional,
            value=value,
        )
        self.sent.append(bytes(data))
        return int(log.append_as_leader(data, 0, self.harness.now_ms).first_offset)

    def resend(self, log: Any, number: int) -> int | None:
        """Send a batch again; return the offset of the duplicate, or None if it is out of order."""
        try:
            done = log.append_as_leader(bytearray(self.sent[number]), 0, self.harness.now_ms)
        except BrokerError as error:
            if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            return None
        assert done.is_duplicate
        return int(done.first_offset)

    def end(self, log: Any, marker: EndTransactionMarker) -> None:
        log.append_end_marker(marker, self.producer_id, 0, 0, self.harness.now_ms)


@pytest.fixture
def sender(harness: Any, batch: Callable[..., bytearray]) -> IdempotentProducer:
    return IdempotentProducer(harness, batch)


def snapshots(harness: Any) -> list[int]:
    names = harness.files.list_names(harness.path("."))
    return [int(name.removesuffix(SNAPSHOT)) for name in names if name.endswith(SNAPSHOT)]


def snapshot(harness: Any, offset: int) -> list[ProducerStateEntry]:
    path = harness.path(file_name(offset, SNAPSHOT))
    return decode_snapshot(harness.files.read_whole(path), path)


def stop(harness: Any, log: Any) -> int:
    harness.run(log.close())
    return int(log.log_end_offset)


# Snapshots.


def test_snapshot_is_taken_on_roll_and_on_close(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create(**SMALL)
    for _ in range(7):
        sender.write(log)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) >= 3
    assert snapshots(harness) == []
    harness.run(log.flush())
    assert snapshots(harness) == bases[1:]
    for base in bases[1:]:
        assert [entry.batches[-1].last_offset for entry in snapshot(harness, base)] == [base - 1]
    sender.write(log)
    assert stop(harness, log) == 16
    assert snapshots(harness) == [*bases[1:], 16]


def test_snapshot_is_written_after_its_batches_are_synced(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create(**SMALL)
    for _ in range(7):
        sender.write(log)
    harness.files.fail_next_sync(errno.EIO, name_end=".log")
    with pytest.raises(StorageError):
        harness.run(log.flush())
    assert snapshots(harness) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_snapshot_that_failed_on_a_full_disk_is_written_by_the_next_flush(
    harness: Any, sender: IdempotentProducer, code: int
) -> None:
    log = harness.create(**SMALL)
    for _ in range(5):
        sender.write(log)
    harness.files.fail_next_write(code, name_end=SNAPSHOT)
    with pytest.raises(StorageError, match="yet"):
        harness.run(log.flush())
    assert log.failure is None
    assert log.recovery_point == 0
    harness.run(log.flush())
    assert snapshots(harness) == [segment.base_offset for segment in log.segments][1:]
    assert log.recovery_point == 10


def test_close_of_an_unchanged_log_writes_nothing(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create()
    sender.write(log)
    stop(harness, log)
    log = harness.open(recovery_point=2)
    assert log.plan_close() is None


def test_no_batch_is_read_after_a_clean_shutdown(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create(**SMALL)
    for _ in range(9):
        sender.write(log)
    end = stop(harness, log)
    read: list[str] = []
    opened = harness.files.open

    def record_open(path: str, **how: Any) -> Any:
        read.append(path.rpartition("/")[2])
        return opened(path, **how)

    harness.files.open = record_open
    log = harness.open(SMALL, recovery_point=end)
    assert [producer.batches[-1].last_offset for producer in log.producers] == [17]
    last = log.segments[-1].base_offset
    assert set(read) <= {file_name(last, suffix) for suffix in (".log", ".index", ".timeindex")}
    assert sender.resend(log, 8) == 16


def test_duplicates_of_the_last_batch_and_after_the_snapshot_are_detected_after_a_restart(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create(segment_bytes=10_000)
    for _ in range(3):
        sender.write(log)
    log.roll(harness.now_ms)
    sender.write(log)
    harness.run(log.flush())
    point = log.recovery_point
    for _ in range(2):
        sender.write(log)
    log = harness.open(had_clean_shutdown=False, recovery_point=point)
    assert [sender.resend(log, number) for number in range(6)] == [None, None, 4, 6, 8, 10]
    end = stop(harness, log)
    log = harness.open(recovery_point=end)
    assert [sender.resend(log, number) for number in range(6)] == [None, None, None, None, None, 10]


def test_producer_state_survives_a_restart_after_many_other_batches(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create(segment_bytes=1 << 20)
    sender.write(log)
    for _ in range(12):
        harness.append(log, 1, value=bytes(900_000))
    assert log.size_bytes > 10 << 20
    for had_clean_shutdown in (True, False):
        harness.run(log.flush())
        end = stop(harness, log) if had_clean_shutdown else log.recovery_point
        log = harness.open(
            {"segment_bytes": 1 << 20}, had_clean_shutdown=had_clean_shutdown, recovery_point=end
        )
        assert sender.resend(log, 0) == 0


def test_previous_snapshot_is_used_if_one_is_corrupt_or_missing(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create(**SMALL)
    for _ in range(12):
        sender.write(log)
    expected = next(iter(log.producers))._replace(batches=())
    end = stop(harness, log)
    offsets = snapshots(harness)
    assert len(offsets) >= 4
    for number in reversed(range(len(offsets))):
        path = harness.path(file_name(offsets[number], SNAPSHOT))
        if number % 2:
            content = bytearray(harness.files.read_whole(path))
            content[20] ^= 4
            harness.files.write_whole(path, bytes(content))
        else:
            harness.files.remove(path)
        log = harness.open(SMALL, recovery_point=end)
        assert [entry._replace(batches=()) for entry in log.producers] == [expected]
        assert not harness.files.exists(path)
        assert sender.resend(log, 11) == 22
        log.finish_close()


def test_replay_recreates_snapshots_of_the_last_two_segments(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create(**SMALL)
    for _ in range(12):
        sender.write(log)
    end = stop(harness, log)
    for offset in snapshots(harness):
        harness.files.remove(harness.path(file_name(offset, SNAPSHOT)))
    log = harness.open(SMALL, recovery_point=end)
    stop(harness, log)
    assert snapshots(harness) == [*[segment.base_offset for segment in log.segments][-2:], end]


def test_snapshot_at_an_unexpected_offset_is_not_used(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create(**SMALL)
    for _ in range(4):
        sender.write(log)
    end = stop(harness, log)
    foreign = encode_snapshot([ProducerStateEntry(77, 5)])
    harness.files.write_whole(harness.path(file_name(end + 1, SNAPSHOT)), foreign)
    harness.files.write_whole(harness.path(file_name(1, SNAPSHOT)), foreign)
    log = harness.open(SMALL, recovery_point=end)
    assert [producer.producer_id for producer in log.producers] == [9]
    assert {1, end + 1}.isdisjoint(snapshots(harness))


def test_snapshots_after_the_recovery_point_are_rebuilt_after_a_kill(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create(**SMALL)
    for _ in range(9):
        sender.write(log)
    stop(harness, log)
    for offset in snapshots(harness):
        harness.files.write_whole(
            harness.path(file_name(offset, SNAPSHOT)), encode_snapshot([ProducerStateEntry(77, offset)])
        )
    log = harness.open(SMALL, had_clean_shutdown=False)
    assert [producer.producer_id for producer in log.producers] == [9]
    harness.run(log.flush())
    assert all(
        [entry.producer_id for entry in snapshot(harness, offset)] == [9] for offset in snapshots(harness)
    )


@pytest.mark.parametrize(
    ("offsets", "stale"),
    [
        ([], []),
        ([10, 20], []),
        ([10, 20, 25], []),
        ([5, 10, 15, 20], [5, 15]),
        ([20, 22, 24], [22]),
        ([20, 30], []),
        ([20, 25, 31], [31]),
    ],
)
def test_stale_snapshots(offsets: list[int], stale: list[int]) -> None:
    assert find_stale_snapshots(offsets, [0, 10, 20], 30) == stale


def test_retention_deletes_snapshots_with_their_segments(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create(**SMALL, retention_bytes=400, file_delete_delay_ms=10)
    for _ in range(15):
        sender.write(log)
    harness.run(log.flush())
    log.high_watermark = log.log_end_offset
    assert harness.run(delete_old_segments(log, harness.now_ms, 0))
    first = log.segments[0].base_offset
    assert min(snapshots(harness)) == first
    renamed = [
        name for name in harness.files.list_names(harness.path(".")) if name.endswith("snapshot.deleted")
    ]
    assert renamed
    harness.run(delete_pending_segments(log, 10))
    assert not any(name.endswith(".deleted") for name in harness.files.list_names(harness.path(".")))
    log = harness.open(SMALL, had_clean_shutdown=False, recovery_point=log.recovery_point)
    assert sender.resend(log, 14) == 28


def test_truncation_deletes_later_snapshots_and_restores_producer_state(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create(**SMALL)
    for _ in range(9):
        sender.write(log)
    end = stop(harness, log)
    log = harness.open(SMALL, recovery_point=end)
    log.truncate_to(7, harness.now_ms)
    assert max(snapshots(harness)) <= 7
    assert [producer.batches[-1].last_offset for producer in log.producers] == [5]
    assert [sender.resend(log, number) for number in (2, 5)] == [4, None]


def test_full_truncation_clears_producer_state(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create(**SMALL)
    for _ in range(9):
        sender.write(log, transactional=True)
    harness.run(log.flush())
    log.truncate_fully_and_start_at(100, harness.now_ms)
    assert (len(log.producers), snapshots(harness), log.last_stable_offset) == (0, [], 100)


def test_snapshot_written_during_a_truncation_is_deleted(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create(**SMALL)
    for _ in range(9):
        sender.write(log)
    offload = harness.files.offload

    def truncate_meanwhile(work: Callable[[], Any]) -> Any:
        harness.files.offload = offload
        log.truncate_to(6, harness.now_ms)
        return offload(work)

    harness.files.offload = truncate_meanwhile
    harness.run(log.flush())
    assert log.recovery_point == 0
    assert all(offset <= 6 for offset in snapshots(harness))
    harness.run(log.flush())
    assert snapshots(harness) == [segment.base_offset for segment in log.segments][1:]
    assert [producer.batches[-1].last_offset for producer in log.producers] == [5]


def test_follower_append_over_several_segments_takes_snapshots(
    harness: Any, sender: IdempotentProducer
) -> None:
    leader = harness.create(segment_bytes=100_000)
    for _ in range(9):
        sender.write(leader, transactional=True)
    sender.end(leader, ABORT)
    data = leader.read(0, 1 << 20).data.read()
    harness.files.remove_tree(harness.path(""))
    follower = harness.create(**SMALL)
    follower.append_as_follower(bytearray(data), 0, harness.now_ms)
    assert list(follower.producers) == list(leader.producers)
    bases = [segment.base_offset for segment in follower.segments]
    assert [len(segment.aborted()) for segment in follower.segments] == [0] * (len(bases) - 1) + [1]
    harness.run(follower.flush())
    assert snapshots(harness) == bases[1:]
    assert [snapshot(harness, base)[0].batches[-1].last_offset for base in bases[1:]] == [
        min(base - 1, 17) for base in bases[1:]
    ]


# Transactions.


def test_open_transaction_survives_a_restart(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create(**SMALL)
    harness.append(log, 3)
    sender.write(log, transactional=True)
    harness.append(log, 3)
    for had_clean_shutdown in (True, False):
        end = stop(harness, log) if had_clean_shutdown else 0
        log = harness.open(SMALL, had_clean_shutdown=had_clean_shutdown, recovery_point=end)
        log.high_watermark = log.log_end_offset
        assert log.last_stable_offset == 3
    sender.end(log, COMMIT)
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == log.log_end_offset


def test_last_stable_offset_advances_when_the_marker_is_replicated(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create()
    sender.write(log, transactional=True)
    log.high_watermark = 2
    sender.end(log, COMMIT)
    assert log.last_stable_offset == 0
    log.high_watermark = 3
    assert log.last_stable_offset == 3


def test_no_transaction_index_without_aborted_transactions(harness: Any, sender: IdempotentProducer) -> None:
    log = harness.create()
    sender.write(log, transactional=True)
    sender.end(log, COMMIT)
    sender.end(log, ABORT)
    stop(harness, log)
    assert not harness.files.exists(harness.path(file_name(0, TRANSACTION_INDEX)))


def test_aborted_transaction_is_indexed_in_the_segment_of_its_marker(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create(segment_bytes=10_000)
    sender.write(log, transactional=True)
    log.roll(harness.now_ms)
    sender.end(log, ABORT)
    end = stop(harness, log)
    entry = AbortedTransaction(9, 0, 2, 3)
    assert harness.files.read_whole(harness.path(file_name(2, TRANSACTION_INDEX))) == encode_aborted([entry])
    log = harness.open(recovery_point=end)
    assert [list(segment.aborted()) for segment in log.segments] == [[], [entry]]
    assert log.aborted_transactions_between(0, 2) == [entry]
    assert log.aborted_transactions_between(3, 9) == []


@pytest.mark.parametrize(
    "content", [b"", b"x" * 34, b"x" * 35, encode_aborted([AbortedTransaction(9, 0, 1, 2)])]
)
def test_invalid_transaction_index_is_rebuilt(
    harness: Any, sender: IdempotentProducer, content: bytes
) -> None:
    log = harness.create(segment_bytes=10_000)
    for _ in range(2):
        sender.write(log, transactional=True)
        log.roll(harness.now_ms)
    sender.end(log, ABORT)
    harness.append(log, 1)
    end = stop(harness, log)
    path = harness.path(file_name(4, TRANSACTION_INDEX))
    original = harness.files.read_whole(path)
    harness.files.write_whole(path, content)
    log = harness.open(recovery_point=end, had_clean_shutdown=bool(content))
    assert log.aborted_transactions_between(0, 9) == [AbortedTransaction(9, 0, 4, 5)]
    assert harness.files.read_whole(path) == original


def test_truncation_removes_aborted_transactions_with_their_markers(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create()
    for _ in range(3):
        sender.write(log, transactional=True)
        sender.end(log, ABORT)
    end = stop(harness, log)
    entries = [AbortedTransaction(9, 3 * number, 3 * number + 2, 3 * number + 3) for number in range(3)]
    path = harness.path(file_name(0, TRANSACTION_INDEX))
    for offset, kept in ((end, 3), (8, 2), (2, 0)):
        log = harness.open(recovery_point=log.log_end_offset)
        log.truncate_to(offset, harness.now_ms)
        assert log.aborted_transactions_between(0, end) == entries[:kept]
        stop(harness, log)
        assert harness.files.exists(path) == bool(kept)
    assert log.log_end_offset == 2
    for offset in (2, 5):
        sender.end(log := harness.open(recovery_point=log.log_end_offset), ABORT)
        assert [entry.last_offset for entry in log.aborted_transactions_between(0, 9)] == [2]
        log.truncate_to(offset, harness.now_ms)
        stop(harness, log)


def test_read_returns_only_nearby_aborted_transactions(harness: Any, batch: Callable[..., bytearray]) -> None:
    log = harness.create(segment_bytes=2000, index_interval_bytes=100)
    senders = [IdempotentProducer(harness, batch, number) for number in range(30)]
    for sender in senders:
        sender.write(log, transactional=True)
        sender.end(log, ABORT)
    assert len(log.segments) > 2
    log.high_watermark = log.log_end_offset
    for number in range(30):
        producer_ids = [
            entry.producer_id for entry in log.aborted_transactions_in(3 * number, log.read(3 * number, 1))
        ]
        assert number in producer_ids
        assert len(producer_ids) <= 4
    everything = log.aborted_transactions_between(0, log.log_end_offset)
    assert [entry.producer_id for entry in everything] == list(range(30))
    assert log.aborted_transactions_in(90, log.read(90, 1)) == []


@pytest.mark.parametrize("suffix", [SNAPSHOT, TRANSACTION_INDEX])
def test_no_flipped_bit_breaks_startup_or_appends(
    harness: Any, sender: IdempotentProducer, suffix: str
) -> None:
    log = harness.create(segment_bytes=400)
    for _ in range(4):
        sender.write(log, transactional=True)
        sender.end(log, ABORT)
    sender.write(log, transactional=True)
    expected = [entry._replace(batches=entry.batches[-1:]) for entry in log.producers]
    end = stop(harness, log)
    names = [name for name in harness.files.list_names(harness.path(".")) if name.endswith(suffix)]
    whole = {name: harness.files.read_whole(harness.path(name)) for name in names}
    assert len(names) >= 2
    for name, content in whole.items():
        for bit in range(0, 8 * len(content), 5):
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            for each, content_of_each in whole.items():
                harness.files.write_whole(
                    harness.path(each), bytes(damaged) if each == name else content_of_each
                )
            log = harness.open({"segment_bytes": 400}, recovery_point=end)
            log.high_watermark = end
            assert [entry._replace(batches=entry.batches[-1:]) for entry in log.producers] == expected
            assert log.last_stable_offset == 12
            assert len(log.aborted_transactions_between(0, end)) <= 4
            sender.end(log, COMMIT)
            log.truncate_to(end, harness.now_ms)
            log.finish_close()


def test_producer_id_0_is_valid(harness: Any, batch: Callable[..., bytearray]) -> None:
    log = harness.create(**SMALL)
    sender = IdempotentProducer(harness, batch, 0)
    offsets = [sender.write(log) for _ in range(3)]
    harness.run(log.close())
    for offset in snapshots(harness):
        harness.files.remove(harness.path(file_name(offset, SNAPSHOT)))
    again = harness.open(SMALL)
    assert [sender.resend(again, number) for number in range(3)] == offsets


def test_producer_of_deleted_segments_is_restored_from_the_first_snapshot(
    harness: Any, sender: IdempotentProducer
) -> None:
    log = harness.create(**SMALL)
    sender.write(log)
    log.roll(harness.now_ms)
    harness.append(log, 2)
    harness.run(log.flush())
    log.high_watermark = log.log_end_offset
    log.advance_log_start_offset(2)
    harness.run(delete_old_segments(log, harness.now_ms, 0))
    assert log.segments[0].base_offset == 2
    for _ in range(2):
        log = harness.open(SMALL, had_clean_shutdown=False, recovery_point=0, log_start_offset=2)
        assert sender.resend(log, 0) == 0
        assert 2 in snapshots(harness)
