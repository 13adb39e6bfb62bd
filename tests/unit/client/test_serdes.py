"""Keys and values as bytes and back."""

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


def there_and_back(name: SerdeName, value: object) -> object:
    serialize, deserialize = serialize_with(name, "value"), deserialize_with(name, "value")
    assert serialize is not None
    data = serialize("t", value)
    assert data is None or type(data) is bytes
    return data if deserialize is None else deserialize("t", data)


@given(st.none() | st.binary())
def test_bytes_come_back(value: bytes | None) -> None:
    assert there_and_back("bytes", value) == value


@given(st.none() | st.text())
def test_texts_come_back(value: str | None) -> None:
    assert there_and_back("str", value) == value


@given(st.none() | JSON)
def test_what_json_can_say_comes_back(value: object) -> None:
    assert there_and_back("json", value) == value


@pytest.mark.parametrize("name", ["bytes", "str", "json"])
def test_no_value_stays_no_value(name: SerdeName) -> None:
    assert there_and_back(name, None) is None


def test_without_a_serde_there_is_nothing_to_call() -> None:
    assert serialize_with(None, "key") is None
    assert deserialize_with(None, "key") is None
    assert deserialize_with("bytes", "key") is None


@pytest.mark.parametrize("value", [bytearray(b"abc"), memoryview(b"abc")])
def test_whatever_holds_bytes_is_taken(value: Any) -> None:
    assert BytesSerde().serialize("t", value) == b"abc"
    assert there_and_back("bytes", value) == b"abc"


def test_texts_may_have_another_encoding() -> None:
    serde = StringSerde("utf-16-le")
    assert serde.serialize("t", "a") == b"a\0"
    assert serde.deserialize("t", b"a\0") == "a"


def test_json_is_written_short_and_in_utf_8() -> None:
    assert JsonSerde().serialize("t", {"ä": [1, 2]}) == '{"ä":[1,2]}'.encode()


def test_a_plain_function_serves_as_a_serializer_and_sees_no_tombstones() -> None:
    serialize = serialize_with(lambda number: number.to_bytes(2, "big"), "value")
    deserialize = deserialize_with(lambda data: int.from_bytes(data, "big"), "value")
    assert serialize is not None
    assert deserialize is not None
    assert (serialize("t", 258), serialize("t", None)) == (b"\1\2", None)
    assert (deserialize("t", b"\1\2"), deserialize("t", None)) == (258, None)


class Shouting:
    """A serde that wants to know the topic, and has a word for nothing."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return f"{topic}:{value}".upper().encode()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return (topic, data)


def test_an_object_with_two_functions_is_a_serde_and_sees_everything() -> None:
    serialize, deserialize = serialize_with(Shouting(), "key"), deserialize_with(Shouting(), "key")
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
def test_a_failing_serializer_says_where_and_why(
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
def test_a_failing_deserializer_says_where_and_why(deserializer: Any, cause: type[BaseException]) -> None:
    deserialize = deserialize_with(deserializer, "value")
    assert deserialize is not None
    with pytest.raises(SerializationFailed, match=r"cannot deserialize the value .* topic orders") as failed:
        deserialize("orders", b"\xff")
    assert isinstance(failed.value.__cause__, cause)


def test_a_serializer_that_gives_no_bytes_is_found_out() -> None:
    serialize = serialize_with(str, "value")  # type: ignore[arg-type]
    assert serialize is not None
    with pytest.raises(SerializationFailed, match="value serializer gave str for a record of topic t"):
        serialize("t", 1)


def test_what_cannot_be_a_serde_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match='no key serde is called \'avro\'; there are "bytes", "str", "json"'):
        serialize_with("avro", "key")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="value_serializer must be a function"):
        serialize_with(5, "value")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="key_deserializer must be a function"):
        deserialize_with(5, "key")  # type: ignore[arg-type]
