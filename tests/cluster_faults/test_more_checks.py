"""Planted bad records, deletions, refusals and commits, each of which a check must find."""

from __future__ import annotations

import pytest
from tests.cluster_faults.harness.cleaning_checks import (
    KeyedRecord,
    LogStart,
    decode_records,
    differing_tails,
    early_deletions,
    last_offsets,
    lost_keys,
)
from tests.cluster_faults.harness.copies import unclear_refusals
from tests.cluster_faults.harness.group_faults import Membership, accepted_zombies
from tests.cluster_faults.harness.ledgers import split_request
from tests.cluster_faults.harness.power_faults import Acknowledged, undocumented_losses
from tests.faults.transactions import frames
from tests.faults.transactions.frames import Identity
from tests.mixed.harness.coordinators import partition_of
from tests.mixed.harness.log_files import Batch
from tests.support.record_batches import HandMadeBatch, record

WRITTEN = {
    0: KeyedRecord("a", "1"),
    1: KeyedRecord("b", "1"),
    2: KeyedRecord("a", "2"),
    3: KeyedRecord("c", "1"),
    4: KeyedRecord("c", None),
}
COMPACTED = {1: WRITTEN[1], 2: WRITTEN[2]}
BATCHES = [Batch(0, 1, b"a"), Batch(2, 2, b"b"), Batch(3, 5, b"c")]
REFUSAL = "odradek: broker.id: must match the log directories, got 1, but meta.properties has broker.id=2"


def find_lost(present: dict[int, KeyedRecord]) -> list[str]:
    return list(lost_keys("t", WRITTEN, last_offsets(WRITTEN), present))


def test_compacted_records_and_removed_tombstones_are_fine() -> None:
    assert find_lost(WRITTEN) == []
    assert find_lost(COMPACTED) == []


@pytest.mark.parametrize(
    ("present", "violation"),
    [
        ({2: WRITTEN[2]}, "lost-key: t has b at None, acknowledged was 1"),
        ({0: WRITTEN[0], 1: WRITTEN[1]}, "lost-key: t has a at 0, acknowledged was 2"),
        ({**COMPACTED, 1: KeyedRecord("b", "9")}, "inconsistent-offsets: t has "),
    ],
    ids=["missing", "older", "other"],
)
def test_lost_key_is_detected(present: dict[int, KeyedRecord], violation: str) -> None:
    (violation_text,) = find_lost(present)
    assert violation_text.startswith(violation)


def test_keys_written_during_a_read_may_be_missing() -> None:
    assert list(lost_keys("t", WRITTEN, {"b": 1}, {1: WRITTEN[1]})) == []


def test_early_deletion_is_detected() -> None:
    timestamps = {0: 1000, 1: 1000, 2: 5000}
    assert list(early_deletions(timestamps, [LogStart(5000, 2, "log")], 4000)) == []
    (violation,) = early_deletions(timestamps, [LogStart(4999, 2, "log")], 4000)
    assert violation == "early-deletion: 2 records of log, the last at the age of 3999 ms"
    (violation,) = early_deletions(timestamps, [LogStart(6000, 3, "a fetch")], 4000)
    assert violation.startswith("early-deletion: 1 records of a fetch")


def test_replicas_are_compared_where_both_have_records() -> None:
    assert list(differing_tails("t", {1: BATCHES, 2: BATCHES[1:]}, 1, 6)) == []
    (violation,) = differing_tails("t", {1: BATCHES, 2: BATCHES[:2]}, 1, 6)
    assert violation.startswith("replicas-differ: t of broker 2 ends at 3, must reach 6")
    (violation,) = differing_tails("t", {1: BATCHES, 2: [BATCHES[1], Batch(3, 5, b"x")]}, 1, 6)
    assert violation.startswith("replicas-differ: t of broker 2 and leader 1")


def test_records_are_decoded_up_to_the_high_watermark() -> None:
    data = HandMadeBatch([record(0, b"1", b"a"), record(1, None, b"b")]).build()
    assert decode_records([Batch(0, 1, data)], 2) == {0: KeyedRecord("a", "1"), 1: KeyedRecord("b", None)}
    assert decode_records([Batch(0, 1, data)], 1) == {0: KeyedRecord("a", "1")}


def test_unclear_refusal_is_detected() -> None:
    info = "2026-01-01T00:00:00.000Z INFO    broker.starting\n"
    assert list(unclear_refusals(info + REFUSAL, "broker.id", "2")) == []
    assert next(iter(unclear_refusals(info, "broker.id"))).startswith("unclear-refusal: 0 lines")
    trace = f"Traceback (most recent call last)\n{REFUSAL}"
    assert next(iter(unclear_refusals(trace, "broker.id"))).startswith("unclear-refusal: 2 lines")
    assert next(iter(unclear_refusals(REFUSAL, "cluster"))).endswith("does not name ['cluster']")


def test_accepted_commit_of_a_zombie_is_detected() -> None:
    zombie = Membership("m", 3, [0])
    assert list(accepted_zombies(zombie, 22)) == []
    assert list(accepted_zombies(zombie, 0)) == ["zombie-commit: m of generation 3 got 0"]


@pytest.mark.parametrize(
    ("present", "since", "violations"),
    [
        ({0: "a", 1: "b", 2: "c"}, 3.0, []),
        ({0: "a", 1: "x"}, 1.5, []),
        ({0: "a"}, 2.5, ["lost-write: 1 of t was 0.5 s older than what may be lost"]),
        ({0: "a", 2: "c"}, 0.0, ["lost-write: 1 of t was lost, 2 was kept"]),
    ],
    ids=["nothing-lost", "end-lost", "too-old", "gap"],
)
def test_undocumented_loss_of_power_is_detected(
    present: dict[int, str], since: float, violations: list[str]
) -> None:
    acknowledged = {0: Acknowledged("a", 1.0), 1: Acknowledged("b", 2.0), 2: Acknowledged("c", 3.0)}
    assert list(undocumented_losses("t", acknowledged, present, since)) == violations


def test_requests_of_a_transaction_are_split_by_leader() -> None:
    producer = Identity("clerk-0", 7, 1)
    batches = {("debits", 0): b"one", ("credits", 2): b"three"}
    parts = split_request(frames.produce(producer, batches))
    assert [partition for partition, _ in parts] == list(batches)
    for partition, part in parts:
        assert part == frames.produce(producer, {partition: batches[partition]})
    body = frames.end(producer, commits=True)
    assert split_request(body) == [(("__transaction_state", partition_of("clerk-0")), body)]
    body = frames.commit_offsets(producer, "group-0", "inputs", 0, 5)
    assert [topic for (topic, _), _ in split_request(body)] == ["__consumer_offsets"]
