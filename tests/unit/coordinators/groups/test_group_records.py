"""Records of ``__consumer_offsets``: Kafka's bytes (see tests/golden/consumer_offsets) and any bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinators.effects import CoordinatorRecord
from odradek.coordinators.groups import records
from odradek.coordinators.groups.commands import OffsetAndMetadata
from odradek.coordinators.groups.records import (
    GroupKey,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetKey,
    StoredGroup,
    StoredMember,
)
from odradek.coordinators.record_serde import write_fields
from odradek.model.errors import BrokerError, ErrorCode, LocalProtocolViolation
from odradek.model.ids import TopicPartition
from odradek.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolPartitions,
    ConsumerProtocolSubscription,
)
from odradek.wire.message_codecs import decoder, encoder

GOLDEN = Path(__file__).parents[3] / "golden" / "consumer_offsets" / "records.txt"
SAMPLES = {
    (name, version): bytes.fromhex(raw)
    for name, version, raw in (
        line.split(" ") for line in GOLDEN.read_text(encoding="utf-8").splitlines() if line[0] != "#"
    )
}
VALUE_VERSIONS = range(5)
CONSUMER_VERSIONS = range(4)

GROUP = "grüppe 😀"
T = 1_700_000_000_000
EXPIRES = T + 86_400
OFFSET = OffsetAndMetadata(1234567890123, 7, 'said "é"', T)


def subscription(version: int) -> ConsumerProtocolSubscription:
    fields = ConsumerProtocolSubscription(["orders", "payments"])
    if version >= 1:
        owned = [
            ConsumerProtocolPartitions("orders", [0, 2]),
            ConsumerProtocolPartitions("payments2", [7]),
        ]
        fields.owned_partitions = owned
    if version >= 2:
        fields.user_data, fields.generation_id = b"\x01\xff>", 41
    if version >= 3:
        fields.rack_id = "r1"
    return fields


def assignment(version: int, user_data: bytes | None, *partitions: int) -> bytes:
    assigned = [ConsumerProtocolPartitions("orders", list(partitions))]
    fields = ConsumerProtocolAssignment(assigned, user_data)
    return version.to_bytes(2, "big") + encoder(ConsumerProtocolAssignment, version)(fields)


def member(member_id: str, instance_id: str | None, metadata: bytes, assigned: bytes) -> StoredMember:
    client_id = f"client-{member_id}"
    return StoredMember(member_id, instance_id, client_id, "/10.0.0.7", 300_000, 45_000, metadata, assigned)


STABLE = StoredGroup(
    "consumer",
    42,
    "range",
    "m-1",
    T + 1,
    (
        member("m-1", None, SAMPLES["subscription", "0"], assignment(0, None, 0, 1)),
        member("m-2", "static-2", SAMPLES["subscription", "3"], assignment(3, b"\x05", 2)),
    ),
)
EMPTY = StoredGroup("", 0, None, None, -1, ())


# Serialization.


def test_keys_equal_those_of_kafkas_coordinator() -> None:
    assert records.write_offset_key(OffsetKey(GROUP, "orders", 49)) == SAMPLES["offset-key", "coordinator"]
    assert records.write_group_key(GroupKey(GROUP)) == SAMPLES["group-key", "coordinator"]


def test_offsets_equal_those_of_kafkas_coordinator() -> None:
    assert records.write_offset(OFFSET) == SAMPLES["offset", "coordinator"]
    expiring = OFFSET._replace(expire_ms=EXPIRES)
    assert records.write_offset(expiring) == SAMPLES["expiring-offset", "coordinator"]


def test_groups_equal_those_of_kafkas_coordinator() -> None:
    assert records.write_group(STABLE) == SAMPLES["group", "coordinator"]
    assert records.write_group(EMPTY) == SAMPLES["empty-group", "coordinator"]


# Parsing.


def test_keys_of_all_versions_are_read() -> None:
    assert records.read_key(SAMPLES["offset-key", "0"]) == OffsetKey(GROUP, "orders", 49)
    assert records.read_key(SAMPLES["offset-key", "1"]) == OffsetKey(GROUP, "orders", 49)
    assert records.read_key(SAMPLES["group-key", "2"]) == GroupKey(GROUP)


@pytest.mark.parametrize("version", [-1, *range(3, 12), 32767])
def test_keys_of_unknown_types_are_ignored(version: int) -> None:
    assert records.read_key(version.to_bytes(2, "big", signed=True) + b"\x00\x01g") is None


@pytest.mark.parametrize("version", VALUE_VERSIONS)
def test_offsets_of_all_versions_are_read(version: int) -> None:
    expected = OFFSET._replace(
        leader_epoch=7 if version >= 3 else -1, expire_ms=EXPIRES if version == 1 else None
    )
    assert records.read_offset(SAMPLES["offset", str(version)]) == expected


@pytest.mark.parametrize("version", VALUE_VERSIONS)
def test_groups_of_all_versions_are_read(version: int) -> None:
    expected = STABLE
    if version < 3:
        members = tuple(each._replace(instance_id=None) for each in expected.members)
        expected = expected._replace(members=members)
    if version < 2:
        expected = expected._replace(state_timestamp_ms=-1)
    if version < 1:
        members = tuple(each._replace(rebalance_timeout_ms=45_000) for each in expected.members)
        expected = expected._replace(members=members)
    assert records.read_group(SAMPLES["group", str(version)]) == expected
    assert records.read_group(SAMPLES["empty-group", str(version)]) == EMPTY


def test_record_of_none_is_a_tombstone() -> None:
    partition = TopicPartition("orders", 49)
    offset_key, group_key = SAMPLES["offset-key", "1"], SAMPLES["group-key", "2"]
    assert records.offset_record(GROUP, partition, None) == CoordinatorRecord(offset_key, None)
    assert records.offset_record(GROUP, partition, OFFSET) == CoordinatorRecord(
        offset_key, SAMPLES["offset", "3"]
    )
    assert records.group_record(GROUP, None) == CoordinatorRecord(group_key, None)
    assert records.group_record(GROUP, STABLE) == CoordinatorRecord(group_key, SAMPLES["group", "3"])


# Arbitrary records and bytes.

NAMES = st.text(st.characters(codec="utf-8"), max_size=50)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.builds(OffsetAndMetadata, INT64, INT32, NAMES, INT64, st.none())
EXPIRING_OFFSETS = st.builds(OffsetAndMetadata, INT64, INT32, NAMES, INT64, INT64)
MEMBERS = st.builds(
    StoredMember, NAMES, st.none() | NAMES, NAMES, NAMES, INT32, INT32, st.binary(), st.binary()
)
GROUPS = st.builds(
    StoredGroup,
    NAMES,
    INT32,
    st.none() | NAMES,
    st.none() | NAMES,
    INT64,
    st.lists(MEMBERS, max_size=4).map(tuple),
)
READERS: list[Callable[[bytes], Any]] = [records.read_key, records.read_offset, records.read_group]

READ_OR_CORRUPT = {ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE}


@given(st.builds(OffsetKey, NAMES, NAMES, INT32), st.builds(GroupKey, NAMES))
def test_keys_round_trip(offset: OffsetKey, group: GroupKey) -> None:
    assert records.read_key(records.write_offset_key(offset)) == offset
    assert records.read_key(records.write_group_key(group)) == group


@given(OFFSETS)
def test_offsets_round_trip(offset: OffsetAndMetadata) -> None:
    assert records.read_offset(records.write_offset(offset)) == offset


@given(OFFSETS, st.integers(0, 2**63 - 1))
def test_offset_with_expiration_time_loses_only_its_leader_epoch(
    offset: OffsetAndMetadata, expire_ms: int
) -> None:
    expiring = offset._replace(expire_ms=expire_ms)
    assert records.read_offset(records.write_offset(expiring)) == expiring._replace(leader_epoch=-1)


# Packed records and those of the schemas.


def schema_value(offset: OffsetAndMetadata) -> bytes:
    version = records.OFFSET_VERSION if offset.expire_ms is None else records.EXPIRING_OFFSET_VERSION
    value = OffsetCommitValue(offset.offset, offset.leader_epoch, offset.metadata, offset.commit_ms)
    if offset.expire_ms is not None:
        value.expire_timestamp = offset.expire_ms
    return write_fields(value, version)


def schema_key(group_id: str, partition: TopicPartition) -> bytes:
    key = OffsetCommitKey(group_id, partition.topic, partition.partition)
    return write_fields(key, records.OFFSET_KEY_VERSION)


TOPIC_PARTITIONS = st.builds(TopicPartition, NAMES | st.sampled_from("ab"), INT32)


@given(NAMES, st.dictionaries(TOPIC_PARTITIONS, OFFSETS | EXPIRING_OFFSETS, max_size=8))
def test_records_of_a_commit_equal_those_of_the_schemas(
    group_id: str, offsets: dict[TopicPartition, OffsetAndMetadata]
) -> None:
    written, stored = records.offset_records(group_id, offsets)
    assert written == [
        (schema_key(group_id, partition), schema_value(offset)) for partition, offset in offsets.items()
    ]
    assert written == [records.offset_record(group_id, *offset) for offset in offsets.items()]
    if stored is not None:
        assert stored.group_id == group_id
        assert list(stored.offsets.items()) == [read_offset_record(record) for record in written]


def read_offset_record(record: CoordinatorRecord) -> tuple[TopicPartition, OffsetAndMetadata]:
    key = records.read_key(record.key)
    assert isinstance(key, OffsetKey)
    assert record.value is not None
    return TopicPartition(key.topic, key.partition), records.read_offset(record.value)


@pytest.mark.parametrize("character", ["a", "é", "😀"])
@pytest.mark.parametrize("size", [*range(258), 32_764, 32_767])
def test_strings_of_any_length_equal_those_of_the_schemas(size: int, character: str) -> None:
    text = character * (size // len(character.encode()))
    partition, offset = TopicPartition(text, 7), OFFSET._replace(metadata=text)
    assert records.offset_record(text, partition, offset) == (
        schema_key(text, partition),
        schema_value(offset),
    )


@pytest.mark.parametrize("text", ["a" * 32_768, "é" * 16_384, "a" * 65_536])
def test_strings_that_are_too_long_are_refused(text: str) -> None:
    for group_id, topic, metadata in ((text, "t", ""), ("g", text, ""), ("g", "t", text)):
        partition, offset = TopicPartition(topic, 0), OFFSET._replace(metadata=metadata)
        with pytest.raises(LocalProtocolViolation):
            records.offset_record(group_id, partition, offset)


@given(GROUPS)
def test_groups_round_trip(group: StoredGroup) -> None:
    assert records.read_group(records.write_group(group)) == group


def error_code(read: Callable[[bytes], Any], raw: bytes) -> ErrorCode:
    try:
        read(raw)
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize("read", READERS)
@given(version=st.integers(-1, 6), rest=st.binary())
def test_any_bytes_are_read_or_rejected_as_corrupt(
    read: Callable[[bytes], Any], version: int, rest: bytes
) -> None:
    assert error_code(read, version.to_bytes(2, "big", signed=True) + rest) in READ_OR_CORRUPT
    assert error_code(read, rest) in READ_OR_CORRUPT


@given(sample=st.sampled_from(sorted(SAMPLES.values())), at=st.integers(0), byte=st.integers(0, 255))
def test_damaged_record_is_read_or_rejected_as_corrupt(sample: bytes, at: int, byte: int) -> None:
    damaged = bytearray(sample)
    damaged[at % len(sample)] = byte
    for read in READERS:
        assert error_code(read, bytes(damaged)) in READ_OR_CORRUPT
    records.subscribed_topics("consumer", bytes(damaged))


@pytest.mark.parametrize(
    ("read", "name", "version"),
    [
        (records.read_key, "offset-key", "1"),
        (records.read_key, "group-key", "2"),
        *((records.read_offset, "offset", str(version)) for version in VALUE_VERSIONS),
        *((records.read_group, "group", str(version)) for version in VALUE_VERSIONS),
    ],
)
def test_every_truncation_is_rejected(read: Callable[[bytes], Any], name: str, version: str) -> None:
    raw = SAMPLES[name, version]
    for end in range(len(raw)):
        with pytest.raises(BrokerError) as rejected:
            read(raw[:end])
        assert rejected.value.code is ErrorCode.CORRUPT_MESSAGE
    read(raw + b"more")


@pytest.mark.parametrize("read", [records.read_offset, records.read_group])
@pytest.mark.parametrize("version", [-1, 5])
def test_values_of_unknown_versions_are_rejected(read: Callable[[bytes], Any], version: int) -> None:
    with pytest.raises(BrokerError, match=f"has no version {version}"):
        read(version.to_bytes(2, "big", signed=True) + bytes(50))


# Consumer protocol.


@pytest.mark.parametrize("version", CONSUMER_VERSIONS)
def test_consumer_metadata_equals_kafkas(version: int) -> None:
    raw = SAMPLES["subscription", str(version)]
    assert encoder(ConsumerProtocolSubscription, version)(subscription(version)) == raw[2:]
    decoded = decoder(ConsumerProtocolSubscription, version)(memoryview(raw), 2)
    assert decoded == (subscription(version), len(raw))
    user_data = b"\x09" if version else None
    assert assignment(version, user_data, 0, 1, 2) == SAMPLES["assignment", str(version)]


@pytest.mark.parametrize("version", CONSUMER_VERSIONS)
def test_subscribed_topics_are_read_in_every_version(version: int) -> None:
    raw = SAMPLES["subscription", str(version)]
    assert records.subscribed_topics("consumer", raw) == {"orders", "payments"}


@pytest.mark.parametrize("version", [-1, 4, 99])
def test_subscription_of_an_unknown_version_is_read_as_version_0(version: int) -> None:
    raw = version.to_bytes(2, "big", signed=True) + SAMPLES["subscription", "3"][2:] + b"more"
    assert records.subscribed_topics("consumer", raw) == {"orders", "payments"}


def test_subscribed_topics_of_other_protocol_types_are_unknown() -> None:
    for protocol_type in ("connect", "Consumer", ""):
        assert records.subscribed_topics(protocol_type, SAMPLES["subscription", "0"]) is None


def test_subscribed_topics_of_a_malformed_subscription_are_unknown() -> None:
    raw = SAMPLES["subscription", "0"]
    assert {records.subscribed_topics("consumer", raw[:end]) for end in range(len(raw))} == {None}
