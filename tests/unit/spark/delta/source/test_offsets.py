"""Offsets of a table stream, and parsing of the Delta log."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.spark.delta.errors import TableChanged
from odradek.spark.delta.options import read_source_options
from odradek.spark.delta.source.commit_log import (
    CommitKind,
    TableFile,
    group_files,
    log_path,
    parse_version,
    read_commit,
)
from odradek.spark.delta.source.offsets import (
    BatchLimits,
    DeltaOffset,
    files_to_read,
    next_offset,
    offset_from_json,
    spans_between,
)

counts = st.lists(st.integers(0, 5), min_size=1, max_size=8)
limits = st.builds(BatchLimits, st.none() | st.integers(1, 4), st.none() | st.integers(1, 3))


@given(counts, st.integers(0, 6), st.booleans(), st.lists(limits, min_size=1, max_size=4))
def test_batches_cover_every_file_once(
    files: list[int], snapshot_count: int, snapshot: bool, sizes: list[BatchLimits]
) -> None:
    def file_count(version: int, is_snapshot: bool) -> int:
        return snapshot_count if is_snapshot else files[version]

    start = DeltaOffset(0, 0, snapshot)
    latest = len(files) - 1
    offset, read, turn = start, [], 0
    while (end := next_offset(offset, latest, sizes[turn % len(sizes)], file_count)) != offset:
        for span in spans_between(offset, end):
            last = file_count(span.version, span.snapshot) if span.end is None else span.end
            read += [(span.version, span.snapshot, file) for file in range(span.start, last)]
        assert offset_from_json(json.loads(json.dumps(end.to_json()))) == end
        offset, turn = end, turn + 1
    first = (
        [(0, True, file) for file in range(snapshot_count)]
        if snapshot
        else [(0, False, file) for file in range(files[0])]
    )
    rest = [(version, False, file) for version in range(1, len(files)) for file in range(files[version])]
    assert read == first + rest
    assert offset == DeltaOffset(len(files))


def test_batch_respects_limits_but_always_advances() -> None:
    def three(_version: int, _snapshot: bool) -> int:
        return 3

    assert next_offset(DeltaOffset(4), 9, BatchLimits(2, None), three) == DeltaOffset(4, 2)
    assert next_offset(DeltaOffset(4, 2), 9, BatchLimits(2, None), three) == DeltaOffset(5, 1)
    assert next_offset(DeltaOffset(4), 9, BatchLimits(None, 2), three) == DeltaOffset(6)
    assert next_offset(DeltaOffset(4), 3, BatchLimits(None, None), three) == DeltaOffset(4)


def test_delta_offset_json_is_canonical() -> None:
    assert json.dumps(DeltaOffset(7, 2).to_json()) == '{"files": 2, "snapshot": false, "version": 7}'


def test_no_files_between_a_later_start_and_an_earlier_end() -> None:
    # The first batch failed, the table grew, and Spark requested the initial offset again.
    assert spans_between(DeltaOffset(7, 0, True), DeltaOffset(5, 0, True)) == []
    assert spans_between(DeltaOffset(7, 0, True), DeltaOffset(6)) == []
    assert spans_between(DeltaOffset(3), DeltaOffset(5, 0, True)) == []
    assert spans_between(DeltaOffset(6), DeltaOffset(5)) == []


def _log(*actions: Mapping[str, object]) -> str:
    return "\n".join(json.dumps(action) for action in actions)


ADD = {"add": {"path": "a%20b/f.parquet", "size": 9, "partitionValues": {"p": "a b"}, "dataChange": True}}
REARRANGED_ADD = {"add": {"path": "g.parquet", "size": 9, "partitionValues": {}, "dataChange": False}}
REMOVE = {"remove": {"path": "f.parquet", "dataChange": True}}
REARRANGED_REMOVE = {"remove": {"path": "f.parquet", "dataChange": False}}


@pytest.mark.parametrize(
    ("actions", "kind", "file_count"),
    [
        ([ADD], CommitKind.APPENDS, 1),
        ([{"commitInfo": {"operation": "SET TBLPROPERTIES"}}], CommitKind.APPENDS, 0),
        ([REARRANGED_ADD, REARRANGED_REMOVE], CommitKind.REARRANGES, 0),
        ([REMOVE], CommitKind.DELETES, 0),
        ([ADD, REMOVE], CommitKind.CHANGES, 1),
    ],
)
def test_commit_kinds(actions: list[dict[str, object]], kind: CommitKind, file_count: int) -> None:
    commit = read_commit(_log(*actions))
    assert (commit.kind, len(commit.added)) == (kind, file_count)


def test_file_paths_are_unquoted_and_versions_parsed() -> None:
    assert read_commit(_log(ADD)).added == (TableFile("a b/f.parquet", 9, (("p", "a b"),)),)
    assert parse_version(log_path(12).removeprefix("_delta_log/")) == 12
    assert parse_version("00000000000000000010.checkpoint.parquet") is None
    assert parse_version("_last_checkpoint") is None


def test_change_commits_are_rejected_unless_allowed() -> None:
    options = read_source_options({"path": "t"})
    change, delete = read_commit(_log(ADD, REMOVE)), read_commit(_log(REMOVE))
    for commit in (change, delete):
        with pytest.raises(TableChanged, match=r"version 3 of the table at t (changes|deletes) rows"):
            files_to_read(commit, 3, options)
    assert files_to_read(change, 3, dataclasses.replace(options, skip_change_commits=True)) == ()
    assert files_to_read(change, 3, dataclasses.replace(options, ignore_changes=True)) == change.added
    assert files_to_read(delete, 3, dataclasses.replace(options, ignore_deletes=True)) == ()
    with pytest.raises(TableChanged):
        files_to_read(change, 3, dataclasses.replace(options, ignore_deletes=True))


@given(st.lists(st.integers(0, 30)), st.integers(1, 50))
def test_file_groups_keep_order_and_size_limit(sizes: list[int], limit: int) -> None:
    files = [TableFile(str(number), size, ()) for number, size in enumerate(sizes)]
    groups = group_files(files, limit)
    assert [file for group in groups for file in group] == files
    assert all(len(group) == 1 or sum(file.size_bytes for file in group) <= limit for group in groups)
