"""Loading of a log after a clean shutdown, a crash, an interrupted operation or corruption."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.active_segment import ActiveSegment
from odradek.log.segments.segment_format import LOG, file_name
from odradek.model.protocol_enums import Compression
from odradek.records.codec import read_headers
from odradek.records.layout import Record
from odradek.records.message_set import write_message_set

Batch = Callable[..., bytearray]
SMALL = {"segment_bytes": 300, "index_interval_bytes": 100}


def _three_segments(harness: Any) -> Any:
    log = harness.create(**SMALL)
    for number in range(9):
        harness.append(log, 2, timestamp=1000 + number, leader_epoch=number // 3)
    assert len(log.segments) == 3
    return log


def _contents(harness: Any) -> dict[str, bytes]:
    return {
        name: harness.files.read_whole(harness.path(name))
        for name in harness.files.list_files(harness.path("."))
    }


@pytest.mark.sources
def test_no_scan_after_a_clean_shutdown(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _three_segments(harness)
    records = harness.records(log)
    harness.run(log.close())

    def fail(*_: object) -> None:
        raise AssertionError("a scan")

    monkeypatch.setattr("odradek.log.segments.log_segment.scan", fail)
    again = harness.open(SMALL)
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 18, 18)
    assert again.epochs.entries == ((0, 0), (1, 6), (2, 12))
    assert harness.records(again) == records
    assert len(harness.opened) <= 3


def test_loading_after_a_clean_shutdown_keeps_no_file_open(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    log = harness.open(SMALL)
    assert len(harness.opened) == 0
    assert all(segment._file is None and segment._offsets is None for segment in log.segments)


def test_only_segments_from_the_recovery_point_are_scanned(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    for point, scanned in [(0, 3), (5, 3), (6, 3), (7, 2), (12, 2), (13, 1), (18, 1), (99, 1)]:
        log = harness.open(SMALL, had_clean_shutdown=False, recovery_point=point)
        assert harness.recovered.scanned_segments == scanned
        assert (log.log_end_offset, log.recovery_point) == (18, min(point, 18))
        assert harness.recovered.problem is None


def test_torn_last_batch_is_truncated_at_any_byte(harness: Any) -> None:
    log = _three_segments(harness)
    records, epochs = harness.records(log), log.epochs.entries
    harness.run(log.close())
    path = harness.path(file_name(12, LOG))
    whole = harness.files.read_whole(path)
    last = read_headers(whole)[-1]
    for cut in range(last.position, len(whole)):
        harness.files.write_whole(path, whole[:cut])
        log = harness.open(SMALL, had_clean_shutdown=False, recovery_point=0)
        assert log.log_end_offset == 16
        assert harness.records(log) == records[:16]
        assert harness.files.size_of(path) == last.position
        assert log.epochs.entries == epochs
        assert bool(harness.recovered.problem) == (cut > last.position)
        assert harness.recovered.truncated_bytes == cut - last.position
        assert harness.append(log, 1, leader_epoch=2) == 16
        log.finish_close()


def test_rebuilt_indexes_equal_the_originals(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    before = _contents(harness)
    assert any(name.endswith(".index") and content for name, content in before.items())
    harness.run(harness.open(SMALL, had_clean_shutdown=False).close())
    assert _contents(harness) == before
    for name in before:
        if name.endswith("index"):
            harness.files.remove(harness.path(name))
    harness.open(SMALL)
    assert _contents(harness) == before


def test_log_is_truncated_at_a_corrupt_batch(harness: Any) -> None:
    log = _three_segments(harness)
    records = harness.records(log)
    harness.run(log.close())
    path = harness.path(file_name(6, LOG))
    damaged = bytearray(harness.files.read_whole(path))
    second = read_headers(damaged)[1]
    damaged[second.end_position - 1] ^= 1
    harness.files.write_whole(path, bytes(damaged))
    log = harness.open(SMALL, had_clean_shutdown=False)
    assert harness.records(log) == records[:8]
    assert log.log_end_offset == 8
    assert log.epochs.entries == ((0, 0), (1, 6))
    assert harness.recovered.dropped_segments == 1
    assert "checksum" in harness.recovered.problem
    assert [name for name in harness.files.list_files(harness.path(".")) if name.endswith(".log")] == [
        file_name(0, LOG),
        file_name(6, LOG),
    ]
    assert harness.append(log) == 8


def test_overlapping_segment_is_removed(harness: Any, batch: Batch) -> None:
    harness.run(_three_segments(harness).close())
    ActiveSegment.create(harness.context(), 3).append(
        batch(1, base_offset=3), read_headers(batch(1, base_offset=3))
    )
    log = harness.open(SMALL, had_clean_shutdown=False)
    assert log.log_end_offset == 6
    assert "does not continue at offset 6" in harness.recovered.problem


def test_segment_after_a_gap_is_removed_unless_the_topic_is_compacted(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    path = harness.path(file_name(6, LOG))
    whole = harness.files.read_whole(path)
    harness.files.write_whole(path, whole[: read_headers(whole)[1].position])
    log = harness.open({**SMALL, "cleanup_policy": ("compact",)}, had_clean_shutdown=False)
    assert [offset for offset, _, _ in harness.records(log)] == [*range(8), *range(12, 18)]
    log = harness.open(SMALL, had_clean_shutdown=False)
    assert log.log_end_offset == 8
    assert harness.recovered.dropped_segments == 1


@pytest.mark.parametrize("name", [file_name(0, ".index"), file_name(6, ".timeindex")])
@pytest.mark.parametrize("damage", [None, b"odd"])
def test_missing_or_odd_sized_index_is_rebuilt_after_a_clean_shutdown(
    harness: Any, name: str, damage: bytes | None
) -> None:
    harness.run(_three_segments(harness).close())
    before = _contents(harness)
    if damage is None:
        harness.files.remove(harness.path(name))
    else:
        harness.files.write_whole(harness.path(name), damage)
    harness.open(SMALL)
    assert _contents(harness) == before


def test_index_without_a_log_file_is_deleted(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    before = _contents(harness)
    for suffix in (".index", ".timeindex", ".txnindex"):
        harness.files.write_whole(harness.path(file_name(99, suffix)), bytes(24))
    harness.open(SMALL)
    assert _contents(harness) == before


def test_leftovers_of_deletions_and_unfinished_cleanings_are_deleted(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    before = _contents(harness)
    for name in (".log.deleted", ".index.deleted", ".log.cleaned", ".timeindex.cleaned"):
        harness.files.write_whole(harness.path(file_name(6, name)), b"left over")
    harness.files.write_whole(harness.path(file_name(12, ".log.swap")), b"of the same unfinished split")
    harness.open(SMALL)
    assert _contents(harness) == before


def test_finished_swap_replaces_the_cleaned_segments(harness: Any, batch: Batch) -> None:
    harness.run(_three_segments(harness).close())
    cleaned = bytes(batch(1, base_offset=1)) + bytes(batch(1, base_offset=11))
    harness.files.write_whole(harness.path(file_name(0, ".log.swap")), cleaned)
    harness.files.write_whole(harness.path(file_name(0, ".index.swap")), b"")
    harness.files.write_whole(harness.path(file_name(0, ".timeindex.swap")), b"")
    log = harness.open(SMALL)
    assert [segment.base_offset for segment in log.segments] == [0, 12]
    assert [offset for offset, _, _ in harness.records(log)] == [1, 11, *range(12, 18)]
    assert not [name for name in harness.files.list_files(harness.path(".")) if name.endswith(".swap")]
    assert harness.files.read_whole(harness.path(file_name(0, LOG))) == cleaned


def test_interrupted_swap_is_completed(harness: Any, batch: Batch) -> None:
    """Files are renamed one by one; the log file may be renamed while its index is not."""
    harness.run(_three_segments(harness).close())
    for name in list(harness.files.list_files(harness.path("."))):
        if name.startswith(file_name(0, "")) or name.startswith(file_name(6, "")):
            harness.files.remove(harness.path(name))
    harness.files.write_whole(harness.path(file_name(0, LOG)), bytes(batch(1, base_offset=1)))
    harness.files.write_whole(harness.path(file_name(0, ".index.swap")), b"")
    log = harness.open(SMALL)
    assert [offset for offset, _, _ in harness.records(log)] == [1, *range(12, 18)]
    assert harness.files.exists(harness.path(file_name(0, ".index")))


def test_log_that_ends_below_its_log_start_offset_is_reset(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    log = harness.open(SMALL, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert [segment.base_offset for segment in log.segments] == [500]
    assert log.epochs.entries == ()
    assert harness.append(log) == 500


def test_empty_directory_is_an_empty_log(harness: Any) -> None:
    harness.files.make_directories(harness.path("."))
    log = harness.open(SMALL, log_start_offset=7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    assert harness.append(log) == 7


def test_log_start_offset_is_the_checkpointed_one(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    log = harness.open(SMALL, log_start_offset=8)
    assert log.log_start_offset == 8
    assert log.epochs.entries == ((1, 8), (2, 12))
    assert harness.records(log)[0][0] == 8


def test_unreadable_leader_epochs_are_rebuilt_from_batches(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    for content in (b"7\n", b"0\n5\n1 1\n", b"\xff\xfe"):
        harness.files.write_whole(harness.path("leader-epoch-checkpoint"), content)
        assert harness.open(SMALL).epochs.entries == ((0, 0), (1, 6), (2, 12))


def test_old_message_formats_have_no_leader_epoch(harness: Any) -> None:
    log = harness.create()
    old = [Record(offset, 1000, b"key", b"value") for offset in (0, 1)]
    log.append_as_follower(bytearray(write_message_set(old, 1, Compression.NONE)), 5, 0)
    harness.append(log, leader_epoch=5)
    harness.run(log.close())
    harness.files.write_whole(harness.path("leader-epoch-checkpoint"), b"7\n")
    assert harness.open().epochs.entries == ((5, 2),)


def test_leader_epochs_above_the_recovery_point_are_rebuilt_from_batches(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    harness.files.write_whole(harness.path("leader-epoch-checkpoint"), b"0\n3\n0 0\n1 6\n9 13\n")
    assert harness.open(SMALL, had_clean_shutdown=False, recovery_point=12).epochs.entries == (
        (0, 0),
        (1, 6),
        (2, 12),
    )


def test_swap_index_without_its_log_file_is_deleted(harness: Any) -> None:
    """The cleaning was aborted: the index in place belongs to other batches."""
    harness.run(_three_segments(harness).close())
    path = harness.path("00000000000000000000.index")
    before = harness.files.read_whole(path)
    harness.files.write_whole(f"{path}.swap", bytes(16))
    harness.open(SMALL)
    assert harness.files.read_whole(path) == before
    assert not harness.files.exists(f"{path}.swap")


# Crashes.


@given(data=st.data())
def test_log_is_a_prefix_with_all_flushed_records_after_a_crash(
    data: st.DataObject, new_harness: Callable[[], Any], new_entropy: Callable[[int], Any]
) -> None:
    harness = new_harness()
    log = harness.create(**SMALL)
    harness.run(log.flush())
    written: list[tuple[int, int, bytes | None]] = []
    epoch_of: dict[int, int] = {}
    flushed, point = 0, 0
    for number in range(data.draw(st.integers(10, 40))):
        match data.draw(st.sampled_from(["append"] * 8 + ["flush", "crash"])):
            case "append":
                start = harness.append(
                    log, 2, timestamp=1000 + number, value=b"%d" % number, leader_epoch=number // 3
                )
                epoch_of[start] = epoch_of[start + 1] = number // 3
                written += [(start + index, 1000 + number + index, b"%d" % number) for index in range(2)]
            case "flush":
                harness.run(log.flush())
                flushed, point = len(written), log.recovery_point
            case _:
                harness.files.crash(new_entropy(data.draw(st.integers(0, 10_000))))
                log = harness.open(SMALL, had_clean_shutdown=False, recovery_point=point)
                records = harness.records(log)
                assert len(records) >= flushed
                assert records == written[: len(records)]
                assert log.log_end_offset == len(records)
                assert all(log.epochs.epoch_of(record[0]) == epoch_of[record[0]] for record in records)
                written = records
                harness.run(log.flush())
                flushed, point = len(written), log.recovery_point
    assert harness.records(log) == written


@given(seed=st.integers(0, 10_000), cut=st.integers(0, 20))
def test_log_is_readable_after_a_crash_during_truncation(
    new_harness: Callable[[], Any], new_entropy: Callable[[int], Any], seed: int, cut: int
) -> None:
    harness = new_harness()
    log = _three_segments(harness)
    harness.run(log.flush())
    old = harness.records(log)
    log.truncate_to(cut, harness.now_ms)
    append_offset = log.log_end_offset
    harness.append(log, 2, value=b"new", leader_epoch=9)
    point = log.recovery_point
    harness.files.crash(new_entropy(seed))
    log = harness.open(SMALL, had_clean_shutdown=False, recovery_point=point)
    records = harness.records(log)
    appended = [record for record in records if record[2] == b"new"]
    kept = [record for record in records if record[2] != b"new"]
    assert kept == old[: len(kept)]
    assert not appended or appended[0][0] == append_offset
    assert [record[0] for record in records] == sorted({record[0] for record in records})


@given(seed=st.integers(0, 100_000))
def test_no_flipped_bit_is_served(
    new_harness: Callable[[], Any], new_entropy: Callable[[int], Any], seed: int
) -> None:
    """After an unclean shutdown the log is a prefix of what was written, whatever bit has changed."""
    harness, entropy = new_harness(), new_entropy(seed)
    log = _three_segments(harness)
    written = harness.records(log)
    harness.run(log.close())
    names = [name for name in sorted(harness.files.list_files(harness.path("."))) if name[0] == "0"]
    path = harness.path(names[entropy.below(len(names))])
    content = bytearray(harness.files.read_whole(path))
    if content:
        position = entropy.below(len(content))
        content[position] ^= 1 << entropy.below(8)
    harness.files.write_whole(path, bytes(content))
    log = harness.open(SMALL, had_clean_shutdown=False)
    records = harness.records(log)
    without_offsets = [record[1:] for record in records]
    assert without_offsets == [record[1:] for record in written][: len(records)]


def test_log_with_an_unreadable_end_is_scanned_after_a_clean_shutdown(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    last = max(name for name in harness.files.list_names(harness.path("")) if name.endswith(".log"))
    file = harness.files.open(harness.path(last))
    file.append(bytes(30))
    file.close()
    log = harness.open(SMALL)
    assert log.log_end_offset == 18
    assert harness.recovered.problem is not None
    assert last in harness.recovered.problem


def test_log_that_does_not_end_at_the_recovery_point_is_scanned_after_a_clean_shutdown(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    harness.open(SMALL, recovery_point=18)
    assert harness.recovered.scanned_segments == 0
    harness.open(SMALL, recovery_point=17)
    assert harness.recovered.scanned_segments == 1


def test_log_start_offset_above_the_end_of_a_complete_log_is_ignored(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    log = harness.open(SMALL, recovery_point=18, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (0, 18)
    assert "ignoring log start offset 500" in str(harness.recovered.problem)


def test_segments_of_a_loaded_log_use_the_shared_open_segments(harness: Any) -> None:
    harness.run(_three_segments(harness).close())
    log = harness.open(SMALL, had_clean_shutdown=False)
    assert all(segment.context.opened is harness.opened for segment in log.segments)
