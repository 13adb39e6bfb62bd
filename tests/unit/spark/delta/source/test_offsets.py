"""Positions in a table's history: batches cover every file once, however they are cut."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.spark.delta.errors import TableChanged
from odradek.spark.delta.options import read_source_options
from odradek.spark.delta.source.commit_log import (
    CommitKind,
    TableFile,
    grouped,
    log_name,
    read_commit,
    version_of,
)
from odradek.spark.delta.source.offsets import Limits, Position, advance, files_to_read, from_offset, spans

counts = st.lists(st.integers(0, 5), min_size=1, max_size=8)
limits = st.builds(Limits, st.none() | st.integers(1, 4), st.none() | st.integers(1, 3))


@given(counts, st.integers(0, 6), st.booleans(), st.lists(limits, min_size=1, max_size=4))
def test_batches_cover_every_file_once_and_end(
    files: list[int], whole: int, snapshot: bool, sizes: list[Limits]
) -> None:
    def file_count(version: int, is_whole: bool) -> int:
        return whole if is_whole else files[version]

    start = Position(0, 0, snapshot)
    newest = len(files) - 1
    position, read, turn = start, [], 0
    while (end := advance(position, newest, sizes[turn % len(sizes)], file_count)) != position:
        for span in spans(position, end):
            last = file_count(span.version, span.snapshot) if span.end is None else span.end
            read += [(span.version, span.snapshot, file) for file in range(span.start, last)]
        assert from_offset(json.loads(json.dumps(end.as_offset()))) == end
        position, turn = end, turn + 1
    first = (
        [(0, True, file) for file in range(whole)]
        if snapshot
        else [(0, False, file) for file in range(files[0])]
    )
    rest = [(version, False, file) for version in range(1, len(files)) for file in range(files[version])]
    assert read == first + rest
    assert position == Position(len(files))


def test_a_batch_keeps_its_limits_but_always_moves() -> None:
    def three(_version: int, _whole: bool) -> int:
        return 3

    assert advance(Position(4), 9, Limits(2, None), three) == Position(4, 2)
    assert advance(Position(4, 2), 9, Limits(2, None), three) == Position(5, 1)
    assert advance(Position(4), 9, Limits(None, 2), three) == Position(6)
    assert advance(Position(4), 3, Limits(None, None), three) == Position(4)


def test_offsets_are_written_in_one_way_only() -> None:
    assert json.dumps(Position(7, 2).as_offset()) == '{"files": 2, "snapshot": false, "version": 7}'


def test_a_beginning_that_was_pinned_by_another_is_never_read_past() -> None:
    # The anchor batch failed, the table grew, and the query was asked again where it begins.
    assert spans(Position(7, 0, True), Position(5, 0, True)) == []
    assert spans(Position(7, 0, True), Position(6)) == []
    assert spans(Position(3), Position(5, 0, True)) == []
    assert spans(Position(6), Position(5)) == []


def _log(*actions: dict[str, object]) -> str:
    return "\n".join(json.dumps(action) for action in actions)


ADD = {"add": {"path": "a%20b/f.parquet", "size": 9, "partitionValues": {"p": "a b"}, "dataChange": True}}
MOVED = {"add": {"path": "g.parquet", "size": 9, "partitionValues": {}, "dataChange": False}}
GONE = {"remove": {"path": "f.parquet", "dataChange": True}}
MOVED_AWAY = {"remove": {"path": "f.parquet", "dataChange": False}}


@pytest.mark.parametrize(
    ("actions", "kind", "file_count"),
    [
        ([ADD], CommitKind.APPENDS, 1),
        ([{"commitInfo": {"operation": "SET TBLPROPERTIES"}}], CommitKind.APPENDS, 0),
        ([MOVED, MOVED_AWAY], CommitKind.REARRANGES, 0),
        ([GONE], CommitKind.DELETES, 0),
        ([ADD, GONE], CommitKind.CHANGES, 1),
    ],
)
def test_commits_are_told_apart(actions: list[dict[str, object]], kind: CommitKind, file_count: int) -> None:
    commit = read_commit(_log(*actions))
    assert (commit.kind, len(commit.added)) == (kind, file_count)


def test_a_file_is_known_by_its_path_in_storage() -> None:
    assert read_commit(_log(ADD)).added == (TableFile("a b/f.parquet", 9, (("p", "a b"),)),)
    assert version_of(log_name(12).removeprefix("_delta_log/")) == 12
    assert version_of("00000000000000000010.checkpoint.parquet") is None
    assert version_of("_last_checkpoint") is None


def test_changes_are_refused_unless_allowed() -> None:
    options = read_source_options({"path": "t"})
    change, delete = read_commit(_log(ADD, GONE)), read_commit(_log(GONE))
    for commit in (change, delete):
        with pytest.raises(TableChanged, match=r"version 3 of the table at t (changes|deletes) rows"):
            files_to_read(commit, 3, options)
    assert files_to_read(change, 3, dataclasses.replace(options, skip_change_commits=True)) == ()
    assert files_to_read(change, 3, dataclasses.replace(options, ignore_changes=True)) == change.added
    assert files_to_read(delete, 3, dataclasses.replace(options, ignore_deletes=True)) == ()
    with pytest.raises(TableChanged):
        files_to_read(change, 3, dataclasses.replace(options, ignore_deletes=True))


@given(st.lists(st.integers(0, 30)), st.integers(1, 50))
def test_groups_hold_all_files_in_order_and_are_no_larger_than_they_must(
    sizes: list[int], limit: int
) -> None:
    files = [TableFile(str(number), size, ()) for number, size in enumerate(sizes)]
    groups = grouped(files, limit)
    assert [file for group in groups for file in group] == files
    assert all(len(group) == 1 or sum(file.size_bytes for file in group) <= limit for group in groups)
