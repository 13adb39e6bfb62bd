"""Serializers and deserializers of keys and values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.serdes import (
    BytesSerde,
    JsonSerde,
    SerdeName,
    StringSerde,
    deserialize_with,
    serialize_with,
)
from odradek.model.client_errors import SerializationFailed

JSON = st.recursive(
    st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner | st.none()) | st.dictionaries(st.text(), inner | st.none()),
)


def round_trip(name: SerdeName, value: object) -> object:
    serialize, deserialize = serialize_with(name, "value"), deserialize_with(name, "value")
    assert serialize is not None
    data = serialize("t", value)
    assert data is None or type(data) is bytes
    return data if deserialize is None else deserialize("t", data)


@given(st.none() | st.binary())
def test_bytes_round_trip(value: bytes | None) -> None:
    assert round_trip("bytes", value) == value


@given(st.none() | st.text())
def test_strings_round_trip(value: str | None) -> None:
    assert round_trip("str", value) == value


@given(st.none() | JSON)
def test_json_round_trip(value: object) -> None:
    assert round_trip("json", value) == value


@pytest.mark.parametrize("name", ["bytes", "str", "json"])
def test_none_stays_none(name: SerdeName) -> None:
    assert round_trip(name, None) is None


def test_no_serde_returns_no_function() -> None:
    assert serialize_with(None, "key") is None
    assert deserialize_with(None, "key") is None
    assert deserialize_with("bytes", "key") is None


@pytest.mark.parametrize("value", [bytearray(b"abc"), memoryview(b"abc")])
def test_bytes_like_values_are_accepted(value: Any) -> None:
    assert BytesSerde().serialize("t", value) == b"abc"
    assert round_trip("bytes", value) == b"abc"


def test_string_serde_with_another_encoding() -> None:
    serde = StringSerde("utf-16-le")
    assert serde.serialize("t", "a") == b"a\0"
    assert serde.deserialize("t", b"a\0") == "a"


def test_json_is_compact_utf8() -> None:
    assert JsonSerde().serialize("t", {"ä": [1, 2]}) == '{"ä":[1,2]}'.encode()


def test_plain_function_is_a_serde_and_is_not_called_with_none() -> None:
    serialize = serialize_with(lambda number: number.to_bytes(2, "big"), "value")
    deserialize = deserialize_with(lambda data: int.from_bytes(data, "big"), "value")
    assert serialize is not None
    assert deserialize is not None
    assert (serialize("t", 258), serialize("t", None)) == (b"\1\2", None)
    assert (deserialize("t", b"\1\2"), deserialize("t", None)) == (258, None)


class TopicSerde:
    """A serde that uses the topic, and serializes None."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return f"{topic}:{value}".upper().encode()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return (topic, data)


def test_serde_object_gets_topic_and_none() -> None:
    serialize, deserialize = serialize_with(TopicSerde(), "key"), deserialize_with(TopicSerde(), "key")
    assert serialize is not None
    assert deserialize is not None
    assert (serialize("t", "a"), serialize("t", None)) == (b"T:A", b"T:NONE")
    assert (deserialize("t", b"a"), deserialize("t", None)) == (("t", b"a"), ("t", None))


@pytest.mark.parametrize(
    ("serializer", "value", "cause"),
    [
        ("bytes", "text", TypeError),
        ("str", b"bytes", TypeError),
        ("str", "\ud800", UnicodeEncodeError),
        ("json", object(), TypeError),
        (lambda _: 1 / 0, 1, ZeroDivisionError),
    ],
)
def test_serializer_failure_names_topic_and_cause(
    serializer: Any, value: object, cause: type[BaseException]
) -> None:
    serialize = serialize_with(serializer, "key")
    assert serialize is not None
    with pytest.raises(
        SerializationFailed, match=r"cannot serialize the key of a record of topic orders: "
    ) as failed:
        serialize("orders", value)
    assert isinstance(failed.value.__cause__, cause)
    assert not failed.value.retriable


@pytest.mark.parametrize(
    ("deserializer", "cause"),
    [("str", UnicodeDecodeError), ("json", ValueError), (lambda _: 1 / 0, ZeroDivisionError)],
)
def test_deserializer_failure_names_topic_and_cause(deserializer: Any, cause: type[BaseException]) -> None:
    deserialize = deserialize_with(deserializer, "value")
    assert deserialize is not None
    with pytest.raises(SerializationFailed, match=r"cannot deserialize the value .* topic orders") as failed:
        deserialize("orders", b"\xff")
    assert isinstance(failed.value.__cause__, cause)


def test_serializer_must_return_bytes() -> None:
    serialize = serialize_with(str, "value")  # type: ignore[arg-type]
    assert serialize is not None
    with pytest.raises(
        SerializationFailed,
        match="value_serializer must return bytes or None for a record of topic t, got str",
    ):
        serialize("t", 1)


def test_invalid_serde_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"key serde must be one of .*, got 'avro'"):
        serialize_with("avro", "key")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="value_serializer must be a function"):
        serialize_with(5, "value")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="key_deserializer must be a function"):
        deserialize_with(5, "key")  # type: ignore[arg-type]
