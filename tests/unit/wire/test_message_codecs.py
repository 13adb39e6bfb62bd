"""Generated encoders and decoders."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.model.errors import LocalProtocolViolation, RemoteProtocolViolation
from odradek.ports.files import FileSlice
from odradek.wire.apis import APIS
from odradek.wire.message_codecs import decoder, encoder, parts_encoder
from odradek.wire.messages.create_topics import CreateTopicsRequest
from odradek.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

EXAMPLES = settings().max_examples // 12
"""Per message and version, of which there are hundreds."""

CASES = [
    pytest.param(cls, version, id=f"{cls.__name__}-{version}")
    for api in APIS
    for cls in (api.request, api.response)
    for version in api.versions
]


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_generated_codec_equals_the_interpreter(reference: SimpleNamespace, cls: type, version: int) -> None:
    @settings(max_examples=EXAMPLES, database=None)
    @given(reference.values(cls, version))
    def check(message: Any) -> None:
        expected = reference.encode(cls, version, message)
        assert encoder(cls, version)(message) == expected
        assert b"".join(cast(list[bytes], parts_encoder(cls, version)(message))) == expected
        assert decoder(cls, version)(memoryview(b"#" + expected), 1) == (message, 1 + len(expected))
        assert reference.decode(cls, version, expected) == message

    check()


def test_unsupported_version_is_rejected() -> None:
    for make in (encoder, parts_encoder, decoder):
        with pytest.raises(LocalProtocolViolation, match=r"version must be in 0\.\.4, got 5"):
            make(HeartbeatRequest, 5)


def test_codecs_are_cached() -> None:
    assert encoder(HeartbeatRequest, 3) is encoder(HeartbeatRequest, 3)
    assert decoder(HeartbeatRequest, 3) is decoder(HeartbeatRequest, 3)
    assert parts_encoder(FetchResponse, 3) is parts_encoder(FetchResponse, 3)


class MemoryFile:
    def read_at(self, position: int, size_bytes: int) -> bytes:
        return b"0123456789"[position : position + size_bytes]


def test_parts_encoder_does_not_copy_records() -> None:
    view, piece = memoryview(b"abc"), FileSlice(MemoryFile(), 2, 4)  # type: ignore[arg-type]
    partitions = [
        PartitionData(0, records=view),
        PartitionData(1, records=None),
        PartitionData(2, records=b""),
        PartitionData(3, records=piece),
    ]
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])
    for version in FetchResponse.VERSIONS:  # type: ignore[attr-defined]
        parts = parts_encoder(FetchResponse, version)(response)
        assert [part for part in parts if type(part) is not bytes] == [view, piece]
        assert parts[1] is view
        assert parts[3] is piece
        joined = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
        assert encoder(FetchResponse, version)(response) == joined


def test_decoded_records_are_a_view_into_the_frame() -> None:
    request = ProduceRequest(topic_data=[TopicProduceData("t", [PartitionProduceData(0, b"abc")])])
    for version in ProduceRequest.VERSIONS:  # type: ignore[attr-defined]
        frame = bytearray(encoder(ProduceRequest, version)(request))
        decoded, _ = decoder(ProduceRequest, version)(memoryview(frame), 0)
        records = decoded.topic_data[0].partition_data[0].records
        records[0] = ord("X")
        assert b"Xbc" in frame


def test_non_default_field_absent_in_the_version_is_rejected() -> None:
    with pytest.raises(LocalProtocolViolation, match=r"HeartbeatRequest\.group_instance_id .* version 2"):
        encoder(HeartbeatRequest, 2)(HeartbeatRequest("g", 1, "m", "static"))
    with pytest.raises(LocalProtocolViolation, match="validate_only"):
        encoder(CreateTopicsRequest, 0)(CreateTopicsRequest(validate_only=True))
    with pytest.raises(LocalProtocolViolation, match="replica_state"):
        encoder(FetchRequest, 14)(FetchRequest(replica_state=ReplicaState(1, 2)))
    with pytest.raises(LocalProtocolViolation, match=r"FetchRequest\.replica_id"):
        encoder(FetchRequest, 15)(FetchRequest(replica_id=1))


def test_ignorable_field_absent_in_the_version_is_dropped() -> None:
    assert encoder(HeartbeatResponse, 0)(HeartbeatResponse(throttle_time_ms=9, error_code=3)) == b"\0\3"


def test_null_in_a_version_where_not_nullable_is_rejected() -> None:
    assert encoder(MetadataRequest, 1)(MetadataRequest(topics=None)) == b"\xff\xff\xff\xff"
    with pytest.raises(LocalProtocolViolation, match="MetadataRequest version 0"):
        encoder(MetadataRequest, 0)(MetadataRequest(topics=None))
    with pytest.raises(LocalProtocolViolation):
        encoder(HeartbeatRequest, 4)(HeartbeatRequest(None, 1, "m"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        HeartbeatRequest("g", 1 << 31, "m"),
        HeartbeatRequest("g", "one", "m"),  # type: ignore[arg-type]
        HeartbeatRequest("x" * 32768, 1, "m"),
        HeartbeatRequest("\ud800", 1, "m"),
        HeartbeatRequest(b"g", 1, "m"),  # type: ignore[arg-type]
    ],
    ids=["too large a number", "text for a number", "too long", "lone surrogate", "bytes for text"],
)
@pytest.mark.parametrize("version", [0, 4])
def test_unencodable_values_are_a_local_protocol_violation(wrong: HeartbeatRequest, version: int) -> None:
    with pytest.raises(LocalProtocolViolation):
        encoder(HeartbeatRequest, version)(wrong)


def test_uuid_of_wrong_size_is_rejected() -> None:
    with pytest.raises(LocalProtocolViolation, match="16 bytes, got 3"):
        encoder(FetchResponse, 13)(FetchResponse(responses=[FetchableTopicResponse(topic_id=b"abc")]))


def test_tagged_structure_with_default_fields_is_encoded() -> None:
    partition = PartitionData(diverging_epoch=EpochEndOffset())
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    raw = encoder(FetchResponse, 12)(response)
    assert decoder(FetchResponse, 12)(memoryview(raw), 0)[0] == response


def test_unknown_tags_are_skipped() -> None:
    plain = encoder(HeartbeatResponse, 4)(HeartbeatResponse(1, 2))
    tagged = plain[:-1] + b"\2" + b"\5\3abc" + b"\xff\1\0"
    assert decoder(HeartbeatResponse, 4)(memoryview(tagged), 0) == (HeartbeatResponse(1, 2), len(tagged))


def test_unknown_tags_next_to_known_ones_are_skipped() -> None:
    request = FetchRequest(cluster_id="c")
    raw = encoder(FetchRequest, 12)(request)
    assert raw.endswith(b"\1\0\2\2c")
    tagged = raw[: -len(b"\1\0\2\2c")] + b"\3" + b"\x09\1!" + b"\0\2\2c" + b"\x80\1\0"
    assert decoder(FetchRequest, 12)(memoryview(tagged), 0) == (request, len(tagged))


def test_tagged_field_with_wrong_size_is_rejected() -> None:
    raw = encoder(FetchRequest, 12)(FetchRequest(cluster_id="c"))
    with pytest.raises(RemoteProtocolViolation, match="size"):
        decoder(FetchRequest, 12)(memoryview(raw[:-3] + b"\3\2c!"), 0)


def test_any_negative_length_decodes_to_null() -> None:
    assert decoder(MetadataRequest, 1)(memoryview(b"\xff\xff\xff\xf0"), 0)[0].topics is None


@given(st.integers(0, 1 << 40))
def test_counts_above_the_remaining_bytes_are_rejected(count: int) -> None:
    lead = bytearray()
    while count > 127:
        lead.append(count & 127 | 128)
        count >>= 7
    lead.append(count)
    with pytest.raises(RemoteProtocolViolation):
        decoder(MetadataResponse, 9)(memoryview(bytes(4) + lead), 0)
