"""Planted bad histories, files and events, each of which a check must find.

Bad histories of clients are planted in ``tests/faults/test_client_faults``.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.cluster_faults.harness.checks import (
    crashes,
    differing_replicas,
    leader_epochs_going_back,
    two_controllers_in_epoch,
    two_leaders_in_epoch,
)
from tests.cluster_faults.harness.copier import wrong_copies
from tests.cluster_faults.harness.rewrites import rewritten_values, without_rewritten
from tests.cluster_faults.harness.scene import (
    client_errors,
    foreign_values,
    seconds_until_acknowledged,
)
from tests.cluster_faults.harness.senders import longest_gap
from tests.cluster_faults.harness.topic_changes import wrong_values
from tests.cluster_faults.harness.truncations import truncated_offsets, unexplained_losses
from tests.faults.clients.history import History, ProducerPart, Send
from tests.mixed.harness.log_files import Batch
from tests.support.record_batches import HandMadeBatch, record

ROLE = "2026-01-01T00:00:00.000Z DEBUG   replica_manager.leader_changed partition=t-0 topic_id=A leader={} leader_epoch={}\n"  # noqa: E501
ELECTED = "2026-01-01T00:00:00.000Z INFO    membership.controller_elected broker={} controller_epoch={}\n"


def write_batches(directory: Path, *batches: tuple[int, int, bytes]) -> Path:
    """Write batches of (base offset, last offset, content), as far as a header is read."""
    directory.mkdir()
    data = b""
    for base, last, content in batches:
        body = bytes(11) + struct.pack(">i", last - base) + content
        data += struct.pack(">qi", base, len(body)) + body
    (directory / "00000000000000000000.log").write_bytes(data)
    return directory


def replicas(tmp_path: Path, *follower: tuple[int, int, bytes]) -> list[str]:
    leader = write_batches(tmp_path / "leader", (0, 1, b"a"), (2, 2, b"b"), (3, 3, b"c"))
    directories = {1: leader, 2: write_batches(tmp_path / "follower", *follower)}
    return list(differing_replicas("t-0", directories, 1, 3))


def test_tail_above_the_high_watermark_may_differ(tmp_path: Path) -> None:
    assert replicas(tmp_path, (0, 1, b"a"), (2, 2, b"b"), (3, 3, b"x")) == []


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        ([(0, 1, b"a"), (2, 2, b"x")], "replicas-differ: t-0 of broker 2 and leader 1"),
        ([(0, 1, b"a")], "replicas-differ: t-0 of broker 2 ends at 2, must reach 3"),
        ([(0, 2, b"a")], "replicas-differ: t-0 of broker 2 and leader 1"),
    ],
    ids=["bytes", "short", "offsets"],
)
def test_replica_that_differs_is_detected(tmp_path: Path, batches, text: str) -> None:
    (violation,) = replicas(tmp_path, *batches)
    assert violation.startswith(text)


def test_leaders_of_different_epochs_are_fine() -> None:
    events = {1: ROLE.format(1, 0) + ROLE.format(2, 1), 2: ROLE.format(1, 0) + ROLE.format(2, 1)}
    assert list(two_leaders_in_epoch(events)) == []


def test_two_leaders_in_an_epoch_are_detected() -> None:
    events = {1: ROLE.format(1, 3), 2: ROLE.format(2, 3)}
    assert list(two_leaders_in_epoch(events)) == ["two-leaders-in-epoch: [1, 2] led t-0 in epoch 3"]


def test_leader_epoch_that_goes_back_is_detected() -> None:
    events = {1: ROLE.format(1, 0) + ROLE.format(2, 2) + ROLE.format(2, 2), 2: ROLE.format(1, 1)}
    assert list(leader_epochs_going_back(events)) == []
    events[2] += ROLE.format(1, 0)
    violations = list(leader_epochs_going_back(events))
    assert violations == ["leader-epoch-back: of t-0 on broker 2, from 1 to 0"]


def test_two_controllers_in_an_epoch_are_detected() -> None:
    assert list(two_controllers_in_epoch([ELECTED.format(1, 1), ELECTED.format(2, 2)])) == []
    texts = [ELECTED.format(1, 2), ELECTED.format(3, 2)]
    assert list(two_controllers_in_epoch(texts)) == ["two-controllers-in-epoch: [1, 3] in epoch 2"]


def test_crash_is_detected() -> None:
    assert list(crashes({1: "fine", 2: "also fine"})) == []
    (violation,) = crashes({1: "fine", 2: "Traceback (most recent call last)"})
    assert violation.startswith("crash: of broker 2")


def test_error_of_an_idempotent_producer_is_detected() -> None:
    part = ProducerPart("p", [Send("p-0", 0, 0, callbacks=1), Send("p-1", 0, -1, "timed out", 1)])
    assert list(client_errors([part])) == ["client-error: p-1 of p failed with timed out"]


def test_record_in_a_wrong_topic_is_detected() -> None:
    history = History([ProducerPart("p", [Send("p-0", 0, 0, callbacks=1)])])
    assert list(foreign_values(history, {0: [(0, "p-0")]})) == []
    violations = list(foreign_values(history, {0: [(0, "p-0"), (1, "q-0")]}))
    assert violations == ["wrong-topic: q-0 is at (0, 1), and was not sent there"]


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ({0: ["a", "c"], 1: ["b"]}, None),
        ({0: ["a", "c"], 1: ["old", "b"]}, "wrong-topic: t-1 has ['old']"),
        ({0: ["a"], 1: ["b"]}, "lost-write: t-0 has [] and misses ['c']"),
        ({0: ["a", "c", "c"], 1: ["b"]}, "duplicate: t-0"),
        ({0: ["c", "a"], 1: ["b"]}, "nonmonotonic-send: t-0"),
    ],
    ids=["fine", "former-topic", "lost", "doubled", "reordered"],
)
def test_wrong_values_of_a_topic_are_detected(log: dict[int, list[str]], name: str | None) -> None:
    violations = list(wrong_values("t", log, ["a", "b", "c"]))
    assert len(violations) == (name is not None)
    assert name is None or violations[0].startswith(name)


TRUNCATED = "2026-01-01T00:00:00.000Z INFO    replica_fetcher.log_truncated partition={} offset={} log_end_offset={} high_watermark=2\n"  # noqa: E501


def test_truncations_of_a_partition_are_read() -> None:
    texts = [
        "fine\n",
        TRUNCATED.format("t-0", 4, 7) + TRUNCATED.format("u-0", 0, 9) + TRUNCATED.format("t-0", 2, 4),
    ]
    assert truncated_offsets(texts, "t-0") == {2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    ("truncated", "violations"),
    [
        ({1, 2}, []),
        ({1}, ["unreported-loss: c was acknowledged at 2, where None is"]),
        ({0, 1, 2}, ["unreal-truncation: a is at 0, which was truncated"]),
        (
            set(),
            [
                "unreported-loss: b was acknowledged at 1, where x is",
                "unreported-loss: c was acknowledged at 2, where None is",
            ],
        ),
    ],
    ids=["equal", "unreported", "unreal", "none-reported"],
)
def test_loss_that_differs_from_truncation_is_detected(truncated: set[int], violations: list[str]) -> None:
    log = [(0, "a"), (1, "x")]
    assert list(unexplained_losses({"a": 0, "b": 1, "c": 2}, log, truncated)) == violations


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([], None),
        (["a", "b"], None),
        (["a", "b", "c"], None),
        (["a", "b", "b"], "duplicate: copy of partition 0 has ['b'] twice"),
        (["a", "c"], "lost-write: copy of partition 0 has [] twice and misses ['b']"),
        (["b", "a"], "nonmonotonic-send: copy of partition 0"),
    ],
)
def test_wrong_copy_is_detected(values: list[str], name: str | None) -> None:
    source = {0: [(0, "a"), (1, "b"), (3, "c")]}
    violations = list(wrong_copies(source, {0: list(enumerate(values))}))
    assert len(violations) == (name is not None)
    assert name is None or violations[0].startswith(name)


def batch_of_producer(offset: int, epoch: int, *values: str, producer: int = 7) -> Batch:
    records = [record(number, value.encode()) for number, value in enumerate(values)]
    built = HandMadeBatch(records, producer_id=producer, producer_epoch=epoch, base_sequence=0).build()
    return Batch(offset, offset + len(values) - 1, built)


@pytest.mark.parametrize(
    ("copy", "is_rewritten"),
    [
        (batch_of_producer(9, 1, "b", "c"), True),
        (batch_of_producer(9, 0, "b", "c"), False),
        (batch_of_producer(9, 1, "b", "c", producer=8), False),
    ],
    ids=["new-epoch", "same-epoch", "other-producer"],
)
def test_only_copies_under_a_new_epoch_are_of_the_client(copy: Batch, is_rewritten: bool) -> None:
    batches = [batch_of_producer(0, 0, "a", "b"), batch_of_producer(2, 0, "c"), copy]
    assert rewritten_values(batches) == ({"b", "c"} if is_rewritten else set())


def test_violations_of_rewritten_values_are_left_out() -> None:
    violations = [
        "duplicate: b is at (0, 1) and (0, 9)",
        "nonmonotonic-send: b of theirs is after d in partition 0",
        "nonmonotonic-send: c of theirs is after b in partition 0",
        "duplicate: bb is at (0, 1) and (0, 9)",
        "lost-write: b of theirs is not at (0, 1)",
    ]
    assert list(without_rewritten(violations, {"b"})) == violations[3:]


def test_time_without_acknowledgements_begins_at_the_fault() -> None:
    sends = [
        Send("before", 0, 0, sent_s=0.9, acknowledged_s=1.1),
        Send("lost", 0, -1, sent_s=1.2),
        Send("second", 0, 2, sent_s=1.3, acknowledged_s=5.0),
        Send("first", 0, 1, sent_s=1.4, acknowledged_s=4.0),
        Send("elsewhere", 1, 0, sent_s=1.2, acknowledged_s=1.5),
    ]
    assert seconds_until_acknowledged(sends, 0, 1.0) == 3.0
    assert seconds_until_acknowledged(sends, 1, 1.0) == 0.5
    assert seconds_until_acknowledged(sends, 2, 1.0) is None


def test_longest_gap_counts_the_ends_of_the_period() -> None:
    assert longest_gap([1.0, 2.5, 3.0], 0.5, 3.25) == 1.5
    assert longest_gap([1.0], 0.0, 9.0) == 8.0
    assert longest_gap([], 0.0, 2.0) == 2.0
