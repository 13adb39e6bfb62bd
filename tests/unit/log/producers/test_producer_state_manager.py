"""How producers and transactions come back after a stop, and what becomes of the files that tell of them."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.log.producers.snapshot_file import decode_snapshot, encode_snapshot
from odradek.log.recovery.producer_recovery import strays_among
from odradek.log.segments.segment_format import SNAPSHOT, TRANSACTION_INDEX, file_name
from odradek.log.segments.transaction_index import AbortedTransaction, encode_aborted
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.records.control_records import ControlRecordType, EndTransactionMarker

SMALL = {"segment_bytes": 300}
ABORT, COMMIT = (
    EndTransactionMarker(ControlRecordType.ABORT, 1),
    EndTransactionMarker(ControlRecordType.COMMIT, 1),
)


class Author:
    """An idempotent producer and what it has sent."""

    def __init__(self, bench: Any, batch: Callable[..., bytearray], producer_id: int = 9) -> None:
        self.bench = bench
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
        return int(log.append_as_leader(data, 0, self.bench.now_ms).first_offset)

    def repeat(self, log: Any, number: int) -> int | None:
        """Send a batch again; give the offset that is answered, or None if it is out of order."""
        try:
            done = log.append_as_leader(bytearray(self.sent[number]), 0, self.bench.now_ms)
        except BrokerError as refused:
            if refused.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            return None
        assert done.is_duplicate
        return int(done.first_offset)

    def end(self, log: Any, marker: EndTransactionMarker) -> None:
        log.append_end_marker(marker, self.producer_id, 0, 0, self.bench.now_ms)


@pytest.fixture
def author(bench: Any, batch: Callable[..., bytearray]) -> Author:
    return Author(bench, batch)


def snapshots(bench: Any) -> list[int]:
    names = bench.files.list_names(bench.path("."))
    return [int(name.removesuffix(SNAPSHOT)) for name in names if name.endswith(SNAPSHOT)]


def snapshot(bench: Any, offset: int) -> list[ProducerStateEntry]:
    path = bench.path(file_name(offset, SNAPSHOT))
    return decode_snapshot(bench.files.read_whole(path), path)


def stop(bench: Any, log: Any) -> int:
    bench.run(log.close())
    return int(log.log_end_offset)


# Snapshots.


def test_a_snapshot_is_taken_where_a_segment_begins_and_where_a_log_is_closed(
    bench: Any, author: Author
) -> None:
    log = bench.create(**SMALL)
    for _ in range(7):
        author.write(log)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) >= 3
    assert snapshots(bench) == []
    bench.run(log.flush())
    assert snapshots(bench) == bases[1:]
    for base in bases[1:]:
        assert [one.last_data_offset for one in snapshot(bench, base)] == [base - 1]
    author.write(log)
    assert stop(bench, log) == 16
    assert snapshots(bench) == [*bases[1:], 16]


def test_a_snapshot_is_written_after_the_batches_it_speaks_of(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL)
    for _ in range(7):
        author.write(log)
    bench.files.fail_next_sync(errno.EIO, name_end=".log")
    with pytest.raises(StorageError):
        bench.run(log.flush())
    assert snapshots(bench) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_snapshot_that_finds_no_room_is_written_by_the_next_flush(
    bench: Any, author: Author, code: int
) -> None:
    log = bench.create(**SMALL)
    for _ in range(5):
        author.write(log)
    bench.files.fail_next_write(code, name_end=SNAPSHOT)
    with pytest.raises(StorageError, match="yet"):
        bench.run(log.flush())
    assert log.failure is None
    assert log.recovery_point == 0
    bench.run(log.flush())
    assert snapshots(bench) == [segment.base_offset for segment in log.segments][1:]
    assert log.recovery_point == 10


def test_nothing_is_written_for_a_log_that_did_not_change(bench: Any, author: Author) -> None:
    log = bench.create()
    author.write(log)
    stop(bench, log)
    log = bench.open(recovery_point=2)
    assert log.plan_close() is None


def test_after_a_clean_stop_no_batch_is_read(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL)
    for _ in range(9):
        author.write(log)
    end = stop(bench, log)
    read: list[str] = []
    opened = bench.files.open

    def watch(path: str, **how: Any) -> Any:
        read.append(path.rpartition("/")[2])
        return opened(path, **how)

    bench.files.open = watch
    log = bench.open(SMALL, recovery_point=end)
    assert [producer.last_data_offset for producer in log.producers] == [17]
    last = log.segments[-1].base_offset
    assert set(read) <= {file_name(last, suffix) for suffix in (".log", ".index", ".timeindex")}
    assert author.repeat(log, 8) == 16


def test_a_restart_knows_the_last_batch_and_those_behind_the_snapshot(bench: Any, author: Author) -> None:
    log = bench.create(segment_bytes=10_000)
    for _ in range(3):
        author.write(log)
    log.roll(bench.now_ms)
    author.write(log)
    bench.run(log.flush())
    point = log.recovery_point
    for _ in range(2):
        author.write(log)
    log = bench.open(had_clean_shutdown=False, recovery_point=point)
    assert [author.repeat(log, number) for number in range(6)] == [None, None, 4, 6, 8, 10]
    end = stop(bench, log)
    log = bench.open(recovery_point=end)
    assert [author.repeat(log, number) for number in range(6)] == [None, None, None, None, None, 10]


def test_a_producer_is_known_however_much_lies_behind_its_last_batch(bench: Any, author: Author) -> None:
    log = bench.create(segment_bytes=1 << 20)
    author.write(log)
    for _ in range(12):
        bench.append(log, 1, value=bytes(900_000))
    assert log.size_bytes > 10 << 20
    for had_clean_shutdown in (True, False):
        bench.run(log.flush())
        end = stop(bench, log) if had_clean_shutdown else log.recovery_point
        log = bench.open(
            {"segment_bytes": 1 << 20}, had_clean_shutdown=had_clean_shutdown, recovery_point=end
        )
        assert author.repeat(log, 0) == 0


def test_one_that_is_broken_or_gone_leaves_it_to_the_one_before(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL)
    for _ in range(12):
        author.write(log)
    known = next(iter(log.producers))._replace(batches=())
    end = stop(bench, log)
    offsets = snapshots(bench)
    assert len(offsets) >= 4
    for number in reversed(range(len(offsets))):
        path = bench.path(file_name(offsets[number], SNAPSHOT))
        if number % 2:
            content = bytearray(bench.files.read_whole(path))
            content[20] ^= 4
            bench.files.write_whole(path, bytes(content))
        else:
            bench.files.remove(path)
        log = bench.open(SMALL, recovery_point=end)
        assert [one._replace(batches=()) for one in log.producers] == [known]
        assert not bench.files.exists(path)
        assert author.repeat(log, 11) == 22
        log.finish_close()


def test_the_last_two_segments_read_again_get_their_snapshots_back(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL)
    for _ in range(12):
        author.write(log)
    end = stop(bench, log)
    for offset in snapshots(bench):
        bench.files.remove(bench.path(file_name(offset, SNAPSHOT)))
    log = bench.open(SMALL, recovery_point=end)
    stop(bench, log)
    assert snapshots(bench) == [*[segment.base_offset for segment in log.segments][-2:], end]


def test_one_whose_checksum_holds_but_speaks_of_nothing_here_is_not_used(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL)
    for _ in range(4):
        author.write(log)
    end = stop(bench, log)
    liar = encode_snapshot([ProducerStateEntry(77, 5)])
    bench.files.write_whole(bench.path(file_name(end + 1, SNAPSHOT)), liar)
    bench.files.write_whole(bench.path(file_name(1, SNAPSHOT)), liar)
    log = bench.open(SMALL, recovery_point=end)
    assert [producer.producer_id for producer in log.producers] == [9]
    assert {1, end + 1}.isdisjoint(snapshots(bench))


def test_after_a_kill_what_was_known_behind_the_recovery_point_is_found_out_again(
    bench: Any, author: Author
) -> None:
    log = bench.create(**SMALL)
    for _ in range(9):
        author.write(log)
    stop(bench, log)
    for offset in snapshots(bench):
        bench.files.write_whole(
            bench.path(file_name(offset, SNAPSHOT)), encode_snapshot([ProducerStateEntry(77, offset)])
        )
    log = bench.open(SMALL, had_clean_shutdown=False)
    assert [producer.producer_id for producer in log.producers] == [9]
    bench.run(log.flush())
    assert all([one.producer_id for one in snapshot(bench, offset)] == [9] for offset in snapshots(bench))


@pytest.mark.parametrize(
    ("offsets", "strays"),
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
def test_snapshots_that_nothing_needs(offsets: list[int], strays: list[int]) -> None:
    assert strays_among(offsets, [0, 10, 20], 30) == strays


def test_retention_takes_snapshots_along_with_their_segments(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL, retention_bytes=400, file_delete_delay_ms=10)
    for _ in range(15):
        author.write(log)
    bench.run(log.flush())
    log.high_watermark = log.log_end_offset
    assert bench.run(log.delete_old_segments(bench.now_ms, 0))
    first = log.segments[0].base_offset
    assert min(snapshots(bench)) == first
    marked = [name for name in bench.files.list_names(bench.path(".")) if name.endswith("snapshot.deleted")]
    assert marked
    bench.run(log.delete_pending_segments(10))
    assert not any(name.endswith(".deleted") for name in bench.files.list_names(bench.path(".")))
    log = bench.open(SMALL, had_clean_shutdown=False, recovery_point=log.recovery_point)
    assert author.repeat(log, 14) == 28


def test_a_cut_takes_snapshots_behind_it_and_knows_producers_as_they_were(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL)
    for _ in range(9):
        author.write(log)
    end = stop(bench, log)
    log = bench.open(SMALL, recovery_point=end)
    log.truncate_to(7, bench.now_ms)
    assert max(snapshots(bench)) <= 7
    assert [producer.last_data_offset for producer in log.producers] == [5]
    assert [author.repeat(log, number) for number in (2, 5)] == [4, None]


def test_a_log_that_is_emptied_remembers_nobody(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL)
    for _ in range(9):
        author.write(log, transactional=True)
    bench.run(log.flush())
    log.truncate_fully_and_start_at(100, bench.now_ms)
    assert (len(log.producers), snapshots(bench), log.last_stable_offset) == (0, [], 100)


def test_a_snapshot_written_while_its_log_is_cut_does_not_stay(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL)
    for _ in range(9):
        author.write(log)
    offload = bench.files.offload

    def cut_meanwhile(work: Callable[[], Any]) -> Any:
        bench.files.offload = offload
        log.truncate_to(6, bench.now_ms)
        return offload(work)

    bench.files.offload = cut_meanwhile
    bench.run(log.flush())
    assert log.recovery_point == 0
    assert all(offset <= 6 for offset in snapshots(bench))
    bench.run(log.flush())
    assert snapshots(bench) == [segment.base_offset for segment in log.segments][1:]
    assert [producer.last_data_offset for producer in log.producers] == [5]


def test_what_a_follower_copies_over_several_segments_has_its_snapshots(bench: Any, author: Author) -> None:
    leader = bench.create(segment_bytes=100_000)
    for _ in range(9):
        author.write(leader, transactional=True)
    author.end(leader, ABORT)
    data = leader.read(0, 1 << 20).data.read()
    bench.files.remove_tree(bench.path(""))
    follower = bench.create(**SMALL)
    follower.append_as_follower(bytearray(data), 0, bench.now_ms)
    assert list(follower.producers) == list(leader.producers)
    bases = [segment.base_offset for segment in follower.segments]
    assert [len(segment.aborted()) for segment in follower.segments] == [0] * (len(bases) - 1) + [1]
    bench.run(follower.flush())
    assert snapshots(bench) == bases[1:]
    assert [snapshot(bench, base)[0].last_data_offset for base in bases[1:]] == [
        min(base - 1, 17) for base in bases[1:]
    ]


# Transactions.


def test_an_open_transaction_is_open_after_a_restart(bench: Any, author: Author) -> None:
    log = bench.create(**SMALL)
    bench.append(log, 3)
    author.write(log, transactional=True)
    bench.append(log, 3)
    for had_clean_shutdown in (True, False):
        end = stop(bench, log) if had_clean_shutdown else 0
        log = bench.open(SMALL, had_clean_shutdown=had_clean_shutdown, recovery_point=end)
        log.high_watermark = log.log_end_offset
        assert log.last_stable_offset == 3
    author.end(log, COMMIT)
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == log.log_end_offset


def test_the_last_stable_offset_waits_for_the_marker_to_be_replicated(bench: Any, author: Author) -> None:
    log = bench.create()
    author.write(log, transactional=True)
    log.high_watermark = 2
    author.end(log, COMMIT)
    assert log.last_stable_offset == 0
    log.high_watermark = 3
    assert log.last_stable_offset == 3


def test_there_is_no_index_of_aborted_transactions_without_one(bench: Any, author: Author) -> None:
    log = bench.create()
    author.write(log, transactional=True)
    author.end(log, COMMIT)
    author.end(log, ABORT)
    stop(bench, log)
    assert not bench.files.exists(bench.path(file_name(0, TRANSACTION_INDEX)))


def test_aborted_transactions_are_in_the_segment_of_their_marker(bench: Any, author: Author) -> None:
    log = bench.create(segment_bytes=10_000)
    author.write(log, transactional=True)
    log.roll(bench.now_ms)
    author.end(log, ABORT)
    end = stop(bench, log)
    entry = AbortedTransaction(9, 0, 2, 3)
    assert bench.files.read_whole(bench.path(file_name(2, TRANSACTION_INDEX))) == encode_aborted([entry])
    log = bench.open(recovery_point=end)
    assert [list(segment.aborted()) for segment in log.segments] == [[], [entry]]
    assert log.aborted_transactions_between(0, 2) == [entry]
    assert log.aborted_transactions_between(3, 9) == []


@pytest.mark.parametrize(
    "content", [b"", b"x" * 34, b"x" * 35, encode_aborted([AbortedTransaction(9, 0, 1, 2)])]
)
def test_an_index_of_aborted_transactions_that_cannot_be_true_is_built_anew(
    bench: Any, author: Author, content: bytes
) -> None:
    log = bench.create(segment_bytes=10_000)
    for _ in range(2):
        author.write(log, transactional=True)
        log.roll(bench.now_ms)
    author.end(log, ABORT)
    bench.append(log, 1)
    end = stop(bench, log)
    path = bench.path(file_name(4, TRANSACTION_INDEX))
    true = bench.files.read_whole(path)
    bench.files.write_whole(path, content)
    log = bench.open(recovery_point=end, had_clean_shutdown=bool(content))
    assert log.aborted_transactions_between(0, 9) == [AbortedTransaction(9, 0, 4, 5)]
    assert bench.files.read_whole(path) == true


def test_a_cut_takes_aborted_transactions_whose_markers_go(bench: Any, author: Author) -> None:
    log = bench.create()
    for _ in range(3):
        author.write(log, transactional=True)
        author.end(log, ABORT)
    end = stop(bench, log)
    entries = [AbortedTransaction(9, 3 * number, 3 * number + 2, 3 * number + 3) for number in range(3)]
    path = bench.path(file_name(0, TRANSACTION_INDEX))
    for offset, kept in ((end, 3), (8, 2), (2, 0)):
        log = bench.open(recovery_point=log.log_end_offset)
        log.truncate_to(offset, bench.now_ms)
        assert log.aborted_transactions_between(0, end) == entries[:kept]
        stop(bench, log)
        assert bench.files.exists(path) == bool(kept)
    assert log.log_end_offset == 2
    for offset in (2, 5):
        author.end(log := bench.open(recovery_point=log.log_end_offset), ABORT)
        assert [one.last_offset for one in log.aborted_transactions_between(0, 9)] == [2]
        log.truncate_to(offset, bench.now_ms)
        stop(bench, log)


def test_reads_are_told_of_what_may_matter_to_them_and_not_of_all(
    bench: Any, batch: Callable[..., bytearray]
) -> None:
    log = bench.create(segment_bytes=2000, index_interval_bytes=100)
    authors = [Author(bench, batch, number) for number in range(30)]
    for one in authors:
        one.write(log, transactional=True)
        one.end(log, ABORT)
    assert len(log.segments) > 2
    log.high_watermark = log.log_end_offset
    for number in range(30):
        told = [one.producer_id for one in log.aborted_transactions_in(3 * number, log.read(3 * number, 1))]
        assert number in told
        assert len(told) <= 4
    everything = log.aborted_transactions_between(0, log.log_end_offset)
    assert [one.producer_id for one in everything] == list(range(30))
    assert log.aborted_transactions_in(90, log.read(90, 1)) == []


@pytest.mark.parametrize("suffix", [SNAPSHOT, TRANSACTION_INDEX])
def test_no_flipped_bit_of_these_files_breaks_a_start_or_an_append(
    bench: Any, author: Author, suffix: str
) -> None:
    log = bench.create(segment_bytes=400)
    for _ in range(4):
        author.write(log, transactional=True)
        author.end(log, ABORT)
    author.write(log, transactional=True)
    known = [one._replace(batches=one.batches[-1:]) for one in log.producers]
    end = stop(bench, log)
    names = [name for name in bench.files.list_names(bench.path(".")) if name.endswith(suffix)]
    whole = {name: bench.files.read_whole(bench.path(name)) for name in names}
    assert len(names) >= 2
    for name, content in whole.items():
        for bit in range(0, 8 * len(content), 5):
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            for each, true in whole.items():
                bench.files.write_whole(bench.path(each), bytes(damaged) if each == name else true)
            log = bench.open({"segment_bytes": 400}, recovery_point=end)
            log.high_watermark = end
            assert [one._replace(batches=one.batches[-1:]) for one in log.producers] == known
            assert log.last_stable_offset == 12
            assert len(log.aborted_transactions_between(0, end)) <= 4
            author.end(log, COMMIT)
            log.truncate_to(end, bench.now_ms)
            log.finish_close()


def test_producer_0_is_one_like_all_others(bench: Any, batch: Callable[..., bytearray]) -> None:
    log = bench.create(**SMALL)
    author = Author(bench, batch, 0)
    offsets = [author.write(log) for _ in range(3)]
    bench.run(log.close())
    for offset in snapshots(bench):
        bench.files.remove(bench.path(file_name(offset, SNAPSHOT)))
    again = bench.open(SMALL)
    assert [author.repeat(again, number) for number in range(3)] == offsets


def test_a_producer_whose_segments_went_is_known_by_the_snapshot_where_the_log_begins(
    bench: Any, author: Author
) -> None:
    log = bench.create(**SMALL)
    author.write(log)
    log.roll(bench.now_ms)
    bench.append(log, 2)
    bench.run(log.flush())
    log.high_watermark = log.log_end_offset
    log.advance_log_start_offset(2)
    bench.run(log.delete_old_segments(bench.now_ms, 0))
    assert log.segments[0].base_offset == 2
    for _ in range(2):
        log = bench.open(SMALL, had_clean_shutdown=False, recovery_point=0, log_start_offset=2)
        assert author.repeat(log, 0) == 0
        assert 2 in snapshots(bench)
