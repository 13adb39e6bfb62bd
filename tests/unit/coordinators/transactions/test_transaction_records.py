"""Records of ``__transaction_state``: Kafka's bytes (see tests/golden/transaction_state) and any bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinators.effects import CoordinatorRecord
from odradek.coordinators.transactions.records import (
    StoredTransaction,
    read_key,
    read_transaction,
    transaction_record,
    write_key,
    write_transaction,
)
from odradek.coordinators.transactions.transaction_state import PREPARED, TransactionState
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition

GOLDEN = Path(__file__).parents[3] / "golden" / "transaction_state" / "records.txt"
SAMPLES = {
    (name, version): bytes.fromhex(raw)
    for name, version, raw in (
        line.split(" ") for line in GOLDEN.read_text(encoding="utf-8").splitlines() if line[0] != "#"
    )
}
VALUES = sorted(raw for (name, _), raw in SAMPLES.items() if name != "key")

NAME = "überweisung 😀"
PARTITIONS = frozenset(
    {TopicPartition("__consumer_offsets", 7), *(TopicPartition("zahlüngen", number) for number in (0, 2, 10))}
)


def expected(state: TransactionState) -> StoredTransaction:
    partitions = PARTITIONS if state is TransactionState.ONGOING or state in PREPARED else frozenset()
    start_ms = -1 if state is TransactionState.EMPTY else 1_699_999_999_000
    return StoredTransaction(1234567890123, 32766, 60_000, state, partitions, 1_700_000_000_000, start_ms)


def test_key_equals_that_of_kafkas_coordinator() -> None:
    assert write_key(NAME) == SAMPLES["key", "coordinator"] == SAMPLES["key", "0"]
    assert read_key(SAMPLES["key", "0"]) == NAME


@pytest.mark.parametrize("state", TransactionState)
def test_values_of_every_state_equal_kafkas_and_both_versions_are_read(
    state: TransactionState,
) -> None:
    assert write_transaction(expected(state)) == SAMPLES[state.value, "0"]
    for version in ("0", "1"):
        assert read_transaction(SAMPLES[state.value, version]) == expected(state)


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.COMPLETE_ABORT]
)
def test_value_version_is_that_of_kafkas_coordinator(state: TransactionState) -> None:
    stored = expected(state)
    if state is TransactionState.ONGOING:
        stored = stored._replace(partitions=frozenset({TopicPartition("zahlüngen", 2)}))
    assert write_transaction(stored) == SAMPLES[state.value, "coordinator"]


def test_keys_of_unknown_types_are_ignored() -> None:
    assert read_key(b"\x00\x01" + SAMPLES["key", "0"][2:]) is None


def test_record_of_none_is_a_tombstone() -> None:
    assert transaction_record(NAME, None) == CoordinatorRecord(SAMPLES["key", "0"], None)
    assert transaction_record(NAME, expected(TransactionState.EMPTY)) == CoordinatorRecord(
        SAMPLES["key", "0"], SAMPLES["Empty", "0"]
    )


@pytest.mark.parametrize("state_id", [-1, 8, 127])
def test_unknown_state_is_rejected(state_id: int) -> None:
    raw = bytearray(SAMPLES["CompleteCommit", "0"])
    raw[16] = state_id % 256
    with pytest.raises(BrokerError, match=f"state {state_id}") as rejected:
        read_transaction(bytes(raw))
    assert rejected.value.code is ErrorCode.CORRUPT_MESSAGE


def test_only_empty_state_may_have_null_partitions() -> None:
    raw = bytearray(SAMPLES["Empty", "0"])
    raw[16] = 1
    with pytest.raises(BrokerError, match="must not be null in state Ongoing"):
        read_transaction(bytes(raw))


@pytest.mark.parametrize("version", [-1, 2])
def test_values_of_unknown_versions_are_rejected(version: int) -> None:
    raw = version.to_bytes(2, "big", signed=True) + SAMPLES["Empty", "0"][2:]
    with pytest.raises(BrokerError, match=f"no version {version}"):
        read_transaction(raw)


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
partitions = st.frozensets(st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), max_size=9)
int64s = st.integers(-(2**63), 2**63 - 1)
transactions = st.builds(
    StoredTransaction,
    int64s,
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(TransactionState),
    partitions,
    int64s,
    int64s,
).map(
    lambda stored: (
        stored._replace(partitions=frozenset()) if stored.state is TransactionState.EMPTY else stored
    )
)


@given(names, transactions)
def test_records_round_trip(name: str, stored: StoredTransaction) -> None:
    entry = transaction_record(name, stored)
    assert entry.value is not None
    assert (read_key(entry.key), read_transaction(entry.value)) == (name, stored)


@given(st.sampled_from(VALUES), st.integers(0, 200), st.integers(0, 255))
def test_damaged_value_is_read_or_rejected_as_corrupt(sample: bytes, at: int, byte: int) -> None:
    raw = bytearray(sample)
    raw[at % len(raw)] = byte
    code = ErrorCode.CORRUPT_MESSAGE
    try:
        read_transaction(bytes(raw))
    except BrokerError as rejected:
        code = rejected.code
    assert code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("sample", VALUES, ids=range(len(VALUES)))
def test_every_truncation_is_rejected(sample: bytes) -> None:
    for length in range(len(sample)):
        with pytest.raises(BrokerError):
            read_transaction(sample[:length])
