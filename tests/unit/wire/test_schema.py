"""Message classes: construction, equality, repr."""

from __future__ import annotations

import pytest

from odradek.wire.messages.fetch import FetchRequest, FetchTopic, PartitionData
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.offset_fetch import OffsetFetchRequest
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.schema import EMPTY, boolean, float64, int8, message, structure, table_of, uint16, uint32


def test_construction_by_position_or_keyword() -> None:
    assert HeartbeatRequest("g", 1, "m") == HeartbeatRequest(member_id="m", generation_id=1, group_id="g")
    assert HeartbeatRequest("g", 1, "m") != HeartbeatRequest("g", 2, "m")
    assert HeartbeatRequest() != FetchTopic()


def test_defaults_are_kafkas() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.session_epoch) == (-1, 0x7FFFFFFF, -1)
    assert (request.cluster_id, request.replica_state, request.topics) == (None, None, [])
    assert OffsetFetchRequest().topics == []


def test_default_lists_are_not_shared() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchTopic("t"))
    assert second.topics == []


def test_init_is_generated_with_the_first_object() -> None:
    @structure
    class First:
        number: int = int8()

    @structure
    class Second:
        number: int = int8()

    assert First.__init__ is Second.__init__
    assert First(5).number == 5
    assert First.__init__ is not Second.__init__


def test_unknown_field_names_are_rejected() -> None:
    with pytest.raises(TypeError):
        HeartbeatRequest(group="g")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        HeartbeatRequest().group = "g"  # type: ignore[attr-defined]


def test_messages_are_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(HeartbeatRequest())


def test_messages_can_be_matched_by_position() -> None:
    match HeartbeatRequest("g", 4):
        case HeartbeatRequest(group, generation):
            assert (group, generation) == ("g", 4)


def test_repr_shortens_long_values() -> None:
    assert repr(HeartbeatRequest("g", 1, "m")) == (
        "HeartbeatRequest(group_id='g', generation_id=1, member_id='m', group_instance_id=None)"
    )
    assert "records=<1000 bytes>" in repr(PartitionData(records=bytes(1000)))
    assert "records=b'abc'" in repr(PartitionData(records=memoryview(b"abc")))
    assert repr(EMPTY) == "[]"


def test_repr_hides_secrets() -> None:
    assert "hunter2" not in repr(SaslAuthenticateRequest(b"\0user\0hunter2"))


def test_fields_keep_declaration_order_and_docstring() -> None:
    @structure
    class Inner:
        """Doc."""

        first: int = int8(default=3)
        second: int = uint16()
        third: int = uint32()

    @message(versions=range(2), flexible=1)
    class Outer:
        ratio: float = float64()
        done: bool = boolean(since=1)

    assert list(table_of(Inner)) == ["first", "second", "third"]
    assert Inner.__doc__ == "Doc."
    assert Inner(second=2) == Inner(3, 2, 0)
    assert (range(2), 1) == (Outer.VERSIONS, Outer.FLEXIBLE)  # type: ignore[attr-defined]
    assert (Outer().ratio, Outer().done) == (0.0, False)
