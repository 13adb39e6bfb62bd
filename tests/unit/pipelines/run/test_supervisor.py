"""Restarts, process sessions, leases and checks of the supervisor."""

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
from odradek.pipelines.checkpoint.lease import (
    GroupLease,
    Holder,
    LeaseTaken,
    holder,
    is_process_dead,
    local_lock,
    parse_holder,
)
from odradek.pipelines.checkpoint.start_offsets import START_FILE
from odradek.pipelines.monitoring.run_monitor import RunMonitor
from odradek.pipelines.query import marker_retention
from odradek.pipelines.query.marker_retention import check_retention, too_old_message
from odradek.pipelines.query.transforms import TransformFailed, load_function
from odradek.pipelines.run.driver_process import session_id, session_members
from odradek.pipelines.run.failures import BACKOFF_MAX_MS, Restarts
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
    """Lease that is held at once, and reads the pending reset before."""

    on_lost: object = None
    pending_reset: str | None = None

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def wait(self) -> None:
        self.pending_reset = self._checkpoint.read_beside("reset.json")


def test_backoff_doubles_until_attempts_are_exhausted() -> None:
    restarts = Restarts(Restart(attempts=3, backoff_ms=100))
    waits = [restarts.wait_ms(made_progress=False) for _ in range(4)]
    assert waits == [100, 200, 400, None]


def test_progress_resets_the_backoff() -> None:
    restarts = Restarts(Restart(attempts=1, backoff_ms=100))
    assert [restarts.wait_ms(made_progress=True) for _ in range(5)] == [100] * 5
    assert restarts.wait_ms(made_progress=False) is None


@given(st.integers(0, 50), st.integers(1, 10**6))
def test_restarts_are_bounded(attempts: int, backoff_ms: int) -> None:
    restarts = Restarts(Restart(attempts, backoff_ms))
    waits = [restarts.wait_ms(made_progress=False) for _ in range(attempts + 1)]
    assert waits[-1] is None
    assert all(wait is not None and 0 < wait <= BACKOFF_MAX_MS for wait in waits[:-1])


def test_zero_attempts_mean_no_restart() -> None:
    assert Restarts(Restart(0, 100)).wait_ms(made_progress=True) is None


def test_session_id_is_parsed_whatever_the_process_name() -> None:
    assert session_id("12 (a) b) S 1 12 77 0 -1") == 77
    assert session_id("12 (gone) Z 1 12 77 0 -1") is None
    assert session_id("") is None


def test_session_members_include_this_process() -> None:
    assert os.getpid() in session_members(os.getsid(0))


def test_lease_holder_round_trips() -> None:
    assert parse_holder(str(Holder("castle", 12))) == Holder("castle", 12)
    assert parse_holder("somebody") is None
    assert not is_process_dead(os.getpid())


def test_local_lock_is_exclusive_and_names_its_holder(tmp_path: Path) -> None:
    spec = parse_spec(TABLES, tmp_path / "orders.toml", {})
    assert holder(spec) is None
    with local_lock(spec):
        assert holder(spec) == f"{os.uname().nodename}:{os.getpid()}"
        with (
            pytest.raises(LeaseTaken, match=rf"orders is already running: .*:{os.getpid()} "),
            local_lock(spec),
        ):
            pass
    assert holder(spec) is None
    with local_lock(spec):
        pass


def test_interrupted_reset_is_recovered_after_the_lease_is_held(tmp_path: Path) -> None:
    spec = parse_spec(TABLES, tmp_path / "orders.toml", {})
    checkpoint = Checkpoint(spec.checkpoint)
    checkpoint.write_beside("reset.json", "{}")
    lease = WatchedLease(checkpoint)
    Supervisor(spec, [], {}, cast(RunMonitor, None), cast(GroupLease, lease))._acquire()
    assert lease.pending_reset == "{}"
    assert checkpoint.read_beside("reset.json") is None
    assert checkpoint.read_sidecar(START_FILE) == "{}"


def test_marker_retention_applies_to_exactly_once_topics_only(tmp_path: Path) -> None:
    spec = parse_spec(TABLES, tmp_path / "orders.toml", {})
    check_retention(spec, CheckpointState("q", PlannedBatch(1, 0, (), {}), None, None), 10**15)


@pytest.mark.parametrize(("age_share", "is_refused"), [(0.8, False), (0.95, True), (2, True)])
def test_unfinished_batch_with_expired_markers_is_not_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_share: float, is_refused: bool
) -> None:
    sink = 'type = "topic"\ntopic = "out"\nbrokers = "127.0.0.1:1"\nguarantee = "exactly_once"'
    spec = parse_spec(TABLES.replace('type = "noop"', sink), tmp_path / "orders.toml", {})
    monkeypatch.setattr(marker_retention, "admin_for", lambda *_: nullcontext())
    monkeypatch.setattr(marker_store, "offsets_retention_ms", lambda _: 60_000)
    state = CheckpointState("q", PlannedBatch(7, 1_000_000, (), {}), None, None)
    with pytest.raises(marker_retention.BatchTooOld) if is_refused else nullcontext():
        check_retention(spec, state, 1_000_000 + round(60_000 * age_share))


def test_too_old_batch_is_reported_with_time_and_advice(tmp_path: Path) -> None:
    message = too_old_message(parse_spec(TABLES, tmp_path / "orders.toml", {}), 7, 1000)
    assert message.startswith("batch 7 of orders was started at 1970-01-01T00:00:01+00:00")
    assert 'guarantee = "at_least_once"' in message


def test_failing_transform_import_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad_transform.py").write_text("x = 1\nraise KeyError('castle')\ndef clean(df): return df\n")
    try:
        with pytest.raises(TransformFailed, match=r"bad_transform\.py:2: KeyError: 'castle'"):
            load_function("bad_transform", "clean", tmp_path)
    finally:
        sys.path.remove(str(tmp_path))
