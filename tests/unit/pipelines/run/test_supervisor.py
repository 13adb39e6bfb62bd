"""When a driver is started again, whose process is whose, and what its end says."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipelines.checkpoint.checkpoint import Checkpoint, CheckpointState, PlannedBatch
from odradek.pipelines.checkpoint.lease import GroupLease, LeaseTaken, holder, local_lock
from odradek.pipelines.checkpoint.lease_holder import Holder, is_dead_here, parse_holder
from odradek.pipelines.checkpoint.start_offsets import START_FILE
from odradek.pipelines.monitoring.run_monitor import RunMonitor
from odradek.pipelines.query import marker_retention
from odradek.pipelines.query.marker_retention import check_retention, too_old_words
from odradek.pipelines.query.transforms import TransformFailed, check_transform
from odradek.pipelines.run.driver_process import session_in, session_members
from odradek.pipelines.run.restarts import BACKOFF_MAX_MS, Restarts
from odradek.pipelines.run.supervisor import Supervisor
from odradek.pipelines.spec.reader import Restart, parse_spec
from odradek.spark.sink import marker_store

TABLES = """
[pipeline]
name = "orders"
[source]
type = "table"
path = "lake"
[sink]
type = "noop"
"""


class WatchedLease:
    """A lease that is held at once, and looks for the note of a reset before."""

    on_lost: object = None
    note: str | None = None

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def wait(self) -> None:
        self.note = self._checkpoint.read_beside("reset.json")


def test_waits_double_until_there_were_enough_in_a_row() -> None:
    restarts = Restarts(Restart(attempts=3, backoff_ms=100))
    waits = [restarts.wait_ms(made_progress=False) for _ in range(4)]
    assert waits == [100, 200, 400, None]


def test_progress_begins_the_count_anew() -> None:
    restarts = Restarts(Restart(attempts=1, backoff_ms=100))
    assert [restarts.wait_ms(made_progress=True) for _ in range(5)] == [100] * 5
    assert restarts.wait_ms(made_progress=False) is None


@given(st.integers(0, 50), st.integers(1, 10**6))
def test_a_driver_is_started_again_at_most_as_often_as_allowed(attempts: int, backoff_ms: int) -> None:
    restarts = Restarts(Restart(attempts, backoff_ms))
    waits = [restarts.wait_ms(made_progress=False) for _ in range(attempts + 1)]
    assert waits[-1] is None
    assert all(wait is not None and 0 < wait <= BACKOFF_MAX_MS for wait in waits[:-1])


def test_no_attempts_mean_no_second_start() -> None:
    assert Restarts(Restart(0, 100)).wait_ms(made_progress=True) is None


def test_the_session_of_a_process_is_found_whatever_its_name() -> None:
    assert session_in("12 (a) b) S 1 12 77 0 -1") == 77
    assert session_in("12 (gone) Z 1 12 77 0 -1") is None
    assert session_in("") is None


def test_this_process_is_one_of_its_session() -> None:
    assert os.getpid() in session_members(os.getsid(0))


def test_a_holder_is_read_from_the_name_it_gave_itself() -> None:
    assert parse_holder(str(Holder("castle", 12))) == Holder("castle", 12)
    assert parse_holder("somebody") is None
    assert not is_dead_here(os.getpid())


def test_a_local_checkpoint_has_one_runner_and_says_who(tmp_path: Path) -> None:
    spec = parse_spec(TABLES, tmp_path / "orders.toml", {})
    assert holder(spec) is None
    with local_lock(spec):
        assert holder(spec) == f"{os.uname().nodename}:{os.getpid()}"
        with pytest.raises(LeaseTaken, match=rf"orders is run by .*:{os.getpid()} already"), local_lock(spec):
            pass
    assert holder(spec) is None
    with local_lock(spec):
        pass


def test_a_reset_that_was_cut_short_is_left_alone_until_the_lease_is_held(tmp_path: Path) -> None:
    spec = parse_spec(TABLES, tmp_path / "orders.toml", {})
    checkpoint = Checkpoint(spec.checkpoint)
    checkpoint.write_beside("reset.json", "{}")
    lease = WatchedLease(checkpoint)
    Supervisor(spec, [], {}, cast(RunMonitor, None), cast(GroupLease, lease))._own()
    assert lease.note == "{}"
    assert checkpoint.read_beside("reset.json") is None
    assert checkpoint.read_sidecar(START_FILE) == "{}"


def test_only_an_unfinished_batch_of_an_exactly_once_topic_can_be_too_old(tmp_path: Path) -> None:
    spec = parse_spec(TABLES, tmp_path / "orders.toml", {})
    check_retention(spec, CheckpointState("q", PlannedBatch(1, 0, (), {}), None, None), 10**15)


@pytest.mark.parametrize(("age_share", "is_refused"), [(0.8, False), (0.95, True), (2, True)])
def test_an_unfinished_batch_whose_markers_may_be_forgotten_is_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_share: float, is_refused: bool
) -> None:
    sink = 'type = "topic"\ntopic = "out"\nbrokers = "127.0.0.1:1"\nguarantee = "exactly_once"'
    spec = parse_spec(TABLES.replace('type = "noop"', sink), tmp_path / "orders.toml", {})
    monkeypatch.setattr(marker_retention, "admin_for", lambda *_: nullcontext())
    monkeypatch.setattr(marker_store, "offsets_retention_ms", lambda _: 60_000)
    state = CheckpointState("q", PlannedBatch(7, 1_000_000, (), {}), None, None)
    with pytest.raises(marker_retention.BatchTooOld) if is_refused else nullcontext():
        check_retention(spec, state, 1_000_000 + round(60_000 * age_share))


def test_a_batch_that_is_too_old_is_told_with_its_time_and_a_way_out(tmp_path: Path) -> None:
    words = too_old_words(parse_spec(TABLES, tmp_path / "orders.toml", {}), 7, 1000)
    assert words.startswith("batch 7 of orders was begun at 1970-01-01T00:00:01+00:00")
    assert 'guarantee = "at_least_once"' in words


def test_a_transform_that_cannot_be_imported_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad_transform.py").write_text("x = 1\nraise KeyError('castle')\ndef clean(df): return df\n")
    text = TABLES + '[transform]\nmodule = "bad_transform:clean"\n'
    spec = parse_spec(text, tmp_path / "orders.toml", {})
    try:
        with pytest.raises(TransformFailed, match=r"bad_transform\.py:2: KeyError: 'castle'"):
            check_transform(spec)
    finally:
        sys.path.remove(str(tmp_path))
