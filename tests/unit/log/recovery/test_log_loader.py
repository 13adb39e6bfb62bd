"""Starting on what is there: after a clean stop, a crash, an interrupted change, a damage."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.active_segment import ActiveSegment
from odradek.log.segments.segment_format import LOG, file_name
from odradek.records.codec import read_headers
from odradek.records.compression import Compression
from odradek.records.layout import Record
from odradek.records.message_set import write_message_set

Batch = Callable[..., bytearray]
SMALL = {"segment_bytes": 300, "index_interval_bytes": 100}


def _three_segments(bench: Any) -> Any:
    log = bench.create(**SMALL)
    for number in range(9):
        bench.append(log, 2, timestamp=1000 + number, leader_epoch=number // 3)
    assert len(log.segments) == 3
    return log


def _contents(bench: Any) -> dict[str, bytes]:
    return {
        name: bench.files.read_whole(bench.path(name)) for name in bench.files.list_files(bench.path("."))
    }


def test_a_clean_stop_needs_no_scan(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _three_segments(bench)
    records = bench.records(log)
    bench.run(log.close())

    def refuse(*_: object) -> None:
        raise AssertionError("a scan")

    monkeypatch.setattr("odradek.log.segments.log_segment.scan", refuse)
    again = bench.open(SMALL)
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 18, 18)
    assert again.epochs.entries == ((0, 0), (1, 6), (2, 12))
    assert bench.records(again) == records
    assert len(bench.opened) <= 3


def test_a_clean_stop_leaves_nothing_open_and_nothing_mapped(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    log = bench.open(SMALL)
    assert len(bench.opened) == 0
    assert all(segment._file is None and segment._offsets is None for segment in log.segments)


def test_only_segments_from_the_recovery_point_on_are_scanned(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    for point, scanned in [(0, 3), (5, 3), (6, 3), (7, 2), (12, 2), (13, 1), (18, 1), (99, 1)]:
        log = bench.open(SMALL, had_clean_shutdown=False, recovery_point=point)
        assert bench.recovered.scanned_segments == scanned
        assert (log.log_end_offset, log.recovery_point) == (18, min(point, 18))
        assert bench.recovered.problem is None


def test_a_torn_tail_is_cut_at_every_byte_of_the_last_batch(bench: Any) -> None:
    log = _three_segments(bench)
    records, epochs = bench.records(log), log.epochs.entries
    bench.run(log.close())
    path = bench.path(file_name(12, LOG))
    whole = bench.files.read_whole(path)
    last = read_headers(whole)[-1]
    for cut in range(last.position, len(whole)):
        bench.files.write_whole(path, whole[:cut])
        log = bench.open(SMALL, had_clean_shutdown=False, recovery_point=0)
        assert log.log_end_offset == 16
        assert bench.records(log) == records[:16]
        assert bench.files.size_of(path) == last.position
        assert log.epochs.entries == epochs
        assert bool(bench.recovered.problem) == (cut > last.position)
        assert bench.recovered.truncated_bytes == cut - last.position
        assert bench.append(log, 1, leader_epoch=2) == 16
        log.finish_close()


def test_rebuilt_indexes_are_those_that_were_there(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    before = _contents(bench)
    assert any(name.endswith(".index") and content for name, content in before.items())
    bench.run(bench.open(SMALL, had_clean_shutdown=False).close())
    assert _contents(bench) == before
    for name in before:
        if name.endswith("index"):
            bench.files.remove(bench.path(name))
    bench.open(SMALL)
    assert _contents(bench) == before


def test_damage_in_the_middle_drops_all_that_follows(bench: Any) -> None:
    log = _three_segments(bench)
    records = bench.records(log)
    bench.run(log.close())
    path = bench.path(file_name(6, LOG))
    damaged = bytearray(bench.files.read_whole(path))
    second = read_headers(damaged)[1]
    damaged[second.end_position - 1] ^= 1
    bench.files.write_whole(path, bytes(damaged))
    log = bench.open(SMALL, had_clean_shutdown=False)
    assert bench.records(log) == records[:8]
    assert log.log_end_offset == 8
    assert log.epochs.entries == ((0, 0), (1, 6))
    assert bench.recovered.dropped_segments == 1
    assert "checksum" in bench.recovered.problem
    assert [name for name in bench.files.list_files(bench.path(".")) if name.endswith(".log")] == [
        file_name(0, LOG),
        file_name(6, LOG),
    ]
    assert bench.append(log) == 8


def test_a_segment_that_starts_too_low_is_dropped(bench: Any, batch: Batch) -> None:
    bench.run(_three_segments(bench).close())
    ActiveSegment.create(bench.place(), 3).append(
        batch(1, base_offset=3), read_headers(batch(1, base_offset=3))
    )
    log = bench.open(SMALL, had_clean_shutdown=False)
    assert log.log_end_offset == 6
    assert "does not follow on offset 6" in bench.recovered.problem


def test_a_segment_whose_forerunner_lost_its_end_goes_unless_compaction_makes_holes(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    path = bench.path(file_name(6, LOG))
    whole = bench.files.read_whole(path)
    bench.files.write_whole(path, whole[: read_headers(whole)[1].position])
    log = bench.open({**SMALL, "cleanup_policy": ("compact",)}, had_clean_shutdown=False)
    assert [offset for offset, _, _ in bench.records(log)] == [*range(8), *range(12, 18)]
    log = bench.open(SMALL, had_clean_shutdown=False)
    assert log.log_end_offset == 8
    assert bench.recovered.dropped_segments == 1


@pytest.mark.parametrize("name", [file_name(0, ".index"), file_name(6, ".timeindex")])
@pytest.mark.parametrize("damage", [None, b"odd"])
def test_an_index_that_is_missing_or_odd_is_rebuilt_even_after_a_clean_stop(
    bench: Any, name: str, damage: bytes | None
) -> None:
    bench.run(_three_segments(bench).close())
    before = _contents(bench)
    if damage is None:
        bench.files.remove(bench.path(name))
    else:
        bench.files.write_whole(bench.path(name), damage)
    bench.open(SMALL)
    assert _contents(bench) == before


def test_an_index_without_a_log_file_goes(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    before = _contents(bench)
    for suffix in (".index", ".timeindex", ".txnindex"):
        bench.files.write_whole(bench.path(file_name(99, suffix)), bytes(24))
    bench.open(SMALL)
    assert _contents(bench) == before


def test_leftovers_of_deletions_and_unfinished_cleanings_go(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    before = _contents(bench)
    for name in (".log.deleted", ".index.deleted", ".log.cleaned", ".timeindex.cleaned"):
        bench.files.write_whole(bench.path(file_name(6, name)), b"left over")
    bench.files.write_whole(bench.path(file_name(12, ".log.swap")), b"of the same unfinished split")
    bench.open(SMALL)
    assert _contents(bench) == before


def test_a_finished_cleaning_takes_the_place_of_what_it_cleaned(bench: Any, batch: Batch) -> None:
    bench.run(_three_segments(bench).close())
    cleaned = bytes(batch(1, base_offset=1)) + bytes(batch(1, base_offset=11))
    bench.files.write_whole(bench.path(file_name(0, ".log.swap")), cleaned)
    bench.files.write_whole(bench.path(file_name(0, ".index.swap")), b"")
    bench.files.write_whole(bench.path(file_name(0, ".timeindex.swap")), b"")
    log = bench.open(SMALL)
    assert [segment.base_offset for segment in log.segments] == [0, 12]
    assert [offset for offset, _, _ in bench.records(log)] == [1, 11, *range(12, 18)]
    assert not [name for name in bench.files.list_files(bench.path(".")) if name.endswith(".swap")]
    assert bench.files.read_whole(bench.path(file_name(0, LOG))) == cleaned


def test_an_interrupted_swap_is_finished_from_any_point(bench: Any, batch: Batch) -> None:
    """The files are renamed one by one; the log may be in place while its index is not."""
    bench.run(_three_segments(bench).close())
    for name in list(bench.files.list_files(bench.path("."))):
        if name.startswith(file_name(0, "")) or name.startswith(file_name(6, "")):
            bench.files.remove(bench.path(name))
    bench.files.write_whole(bench.path(file_name(0, LOG)), bytes(batch(1, base_offset=1)))
    bench.files.write_whole(bench.path(file_name(0, ".index.swap")), b"")
    log = bench.open(SMALL)
    assert [offset for offset, _, _ in bench.records(log)] == [1, *range(12, 18)]
    assert bench.files.exists(bench.path(file_name(0, ".index")))


def test_a_log_whose_end_is_below_its_start_begins_anew_there(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    log = bench.open(SMALL, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert [segment.base_offset for segment in log.segments] == [500]
    assert log.epochs.entries == ()
    assert bench.append(log) == 500


def test_an_empty_directory_is_an_empty_log(bench: Any) -> None:
    bench.files.make_directories(bench.path("."))
    log = bench.open(SMALL, log_start_offset=7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    assert bench.append(log) == 7


def test_the_start_is_the_checkpointed_one(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    log = bench.open(SMALL, log_start_offset=8)
    assert log.log_start_offset == 8
    assert log.epochs.entries == ((1, 8), (2, 12))
    assert bench.records(log)[0][0] == 8


def test_epochs_that_cannot_be_read_are_taken_from_the_batches(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    for content in (b"7\n", b"0\n5\n1 1\n", b"\xff\xfe"):
        bench.files.write_whole(bench.path("leader-epoch-checkpoint"), content)
        assert bench.open(SMALL).epochs.entries == ((0, 0), (1, 6), (2, 12))


def test_batches_of_old_formats_have_no_epoch_to_learn(bench: Any) -> None:
    log = bench.create()
    old = [Record(offset, 1000, b"key", b"value") for offset in (0, 1)]
    log.append_as_follower(bytearray(write_message_set(old, 1, Compression.NONE)), 5, 0)
    bench.append(log, leader_epoch=5)
    bench.run(log.close())
    bench.files.write_whole(bench.path("leader-epoch-checkpoint"), b"7\n")
    assert bench.open().epochs.entries == ((5, 2),)


def test_epochs_above_the_recovery_point_are_taken_from_the_batches(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    bench.files.write_whole(bench.path("leader-epoch-checkpoint"), b"0\n3\n0 0\n1 6\n9 13\n")
    assert bench.open(SMALL, had_clean_shutdown=False, recovery_point=12).epochs.entries == (
        (0, 0),
        (1, 6),
        (2, 12),
    )


def test_a_finished_index_without_its_log_file_replaces_none(bench: Any) -> None:
    """The compaction that wrote it was given up: what stands in its place is of other batches."""
    bench.run(_three_segments(bench).close())
    path = bench.path("00000000000000000000.index")
    before = bench.files.read_whole(path)
    bench.files.write_whole(f"{path}.swap", bytes(16))
    bench.open(SMALL)
    assert bench.files.read_whole(path) == before
    assert not bench.files.exists(f"{path}.swap")


# Crashes.


@given(data=st.data())
def test_after_a_crash_the_log_is_a_prefix_that_holds_all_that_was_flushed(
    data: st.DataObject, new_bench: Callable[[], Any], new_chance: Callable[[int], Any]
) -> None:
    bench = new_bench()
    log = bench.create(**SMALL)
    bench.run(log.flush())
    written: list[tuple[int, int, bytes | None]] = []
    epoch_of: dict[int, int] = {}
    flushed, point = 0, 0
    for number in range(data.draw(st.integers(10, 40))):
        match data.draw(st.sampled_from(["append"] * 8 + ["flush", "crash"])):
            case "append":
                start = bench.append(
                    log, 2, timestamp=1000 + number, value=b"%d" % number, leader_epoch=number // 3
                )
                epoch_of[start] = epoch_of[start + 1] = number // 3
                written += [(start + one, 1000 + number + one, b"%d" % number) for one in range(2)]
            case "flush":
                bench.run(log.flush())
                flushed, point = len(written), log.recovery_point
            case _:
                bench.files.crash(new_chance(data.draw(st.integers(0, 10_000))))
                log = bench.open(SMALL, had_clean_shutdown=False, recovery_point=point)
                found = bench.records(log)
                assert len(found) >= flushed
                assert found == written[: len(found)]
                assert log.log_end_offset == len(found)
                assert all(log.epochs.epoch_of(one[0]) == epoch_of[one[0]] for one in found)
                written = found
                bench.run(log.flush())
                flushed, point = len(written), log.recovery_point
    assert bench.records(log) == written


@given(seed=st.integers(0, 10_000), cut=st.integers(0, 20))
def test_a_crash_around_a_cut_leaves_a_log_that_can_be_read(
    new_bench: Callable[[], Any], new_chance: Callable[[int], Any], seed: int, cut: int
) -> None:
    bench = new_bench()
    log = _three_segments(bench)
    bench.run(log.flush())
    old = bench.records(log)
    log.truncate_to(cut, bench.now_ms)
    new_from = log.log_end_offset
    bench.append(log, 2, value=b"new", leader_epoch=9)
    point = log.recovery_point
    bench.files.crash(new_chance(seed))
    log = bench.open(SMALL, had_clean_shutdown=False, recovery_point=point)
    found = bench.records(log)
    news = [one for one in found if one[2] == b"new"]
    olds = [one for one in found if one[2] != b"new"]
    assert olds == old[: len(olds)]
    assert not news or news[0][0] == new_from
    assert [one[0] for one in found] == sorted({one[0] for one in found})


@given(seed=st.integers(0, 100_000))
def test_no_flipped_bit_is_served_as_data(
    new_bench: Callable[[], Any], new_chance: Callable[[int], Any], seed: int
) -> None:
    """After an unclean stop what is read is a prefix of what was written, whatever bit of a file changed."""
    bench, chance = new_bench(), new_chance(seed)
    log = _three_segments(bench)
    written = bench.records(log)
    bench.run(log.close())
    names = [name for name in sorted(bench.files.list_files(bench.path("."))) if name[0] == "0"]
    path = bench.path(names[chance.below(len(names))])
    content = bytearray(bench.files.read_whole(path))
    if content:
        position = chance.below(len(content))
        content[position] ^= 1 << chance.below(8)
    bench.files.write_whole(path, bytes(content))
    log = bench.open(SMALL, had_clean_shutdown=False)
    found = bench.records(log)
    offset_moved = [one[1:] for one in found]
    assert offset_moved == [one[1:] for one in written][: len(found)]


def test_a_log_whose_end_cannot_be_read_after_a_clean_stop_is_scanned(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    last = max(name for name in bench.files.list_names(bench.path("")) if name.endswith(".log"))
    file = bench.files.open(bench.path(last))
    file.append(bytes(30))
    file.close()
    log = bench.open(SMALL)
    assert log.log_end_offset == 18
    assert bench.recovered.problem is not None
    assert last in bench.recovered.problem


def test_a_log_that_ends_elsewhere_than_the_clean_stop_said_is_scanned(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    bench.open(SMALL, recovery_point=18)
    assert bench.recovered.scanned_segments == 0
    bench.open(SMALL, recovery_point=17)
    assert bench.recovered.scanned_segments == 1


def test_a_start_above_the_end_of_a_whole_log_is_not_believed(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    log = bench.open(SMALL, recovery_point=18, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (0, 18)
    assert "no start at 500" in str(bench.recovered.problem)


def test_segments_of_an_opened_log_count_among_those_that_are_open(bench: Any) -> None:
    bench.run(_three_segments(bench).close())
    log = bench.open(SMALL, had_clean_shutdown=False)
    assert all(segment.context.opened is bench.opened for segment in log.segments)
