"""Serializers and deserializers of keys and values.

A serde is an object with the methods ``serialize(topic, value)`` and ``deserialize(topic, data)``; a client
that only writes or only reads needs one of them. A plain function of one argument works too, and so do the
names ``"bytes"``, ``"str"`` and ``"json"``. None, the default, leaves bytes as they are at no cost.

None is a null key, or a tombstone, on both sides. The serdes here keep None as it is, and plain functions are
never called with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from odradek.model.client_errors import SerializationFailed

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    In_contra = TypeVar("In_contra", contravariant=True, default=Any)
    Out_co = TypeVar("Out_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    In_contra = TypeVar("In_contra", contravariant=True)
    Out_co = TypeVar("Out_co", covariant=True)


class Serializer(Protocol[In_contra]):
    """Serializes keys or values to bytes; None is a null key or a tombstone.

    >>> class Number:
    ...     def serialize(self, topic, value):
    ...         return None if value is None else value.to_bytes(8, "big")
    >>> serialize_with(Number(), "value")("castle", 7)
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07'
    """

    def serialize(self, topic: str, value: In_contra, /) -> bytes | None: ...


class Deserializer(Protocol[Out_co]):
    """Deserializes keys or values from bytes; also called with None.

    >>> class Number:
    ...     def deserialize(self, topic, data):
    ...         return None if data is None else int.from_bytes(data, "big")
    >>> deserialize_with(Number(), "value")("castle", bytes(7) + b"\\x07")
    7
    """

    def deserialize(self, topic: str, data: bytes | None, /) -> Out_co: ...


SerdeName: TypeAlias = Literal["bytes", "str", "json"]
AnySerializer: TypeAlias = Serializer[Any] | Callable[[Any], bytes | None] | SerdeName | None
AnyDeserializer: TypeAlias = Deserializer[Any] | Callable[[bytes], Any] | SerdeName | None
Serialize: TypeAlias = Callable[[str, Any], bytes | None]
Deserialize: TypeAlias = Callable[[str, bytes | None], Any]
Part: TypeAlias = Literal["key", "value"]


class BytesSerde:
    """Bytes, unchanged.

    >>> BytesSerde().serialize("t", bytearray(b"abc"))
    b'abc'
    """

    def serialize(self, topic: str, value: bytes | bytearray | memoryview | None) -> bytes | None:
        """Return the bytes of a bytes-like value.

        >>> BytesSerde().serialize("castle", memoryview(b"abc"))
        b'abc'
        """
        del topic
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise TypeError(f"value must be bytes, got {type(value).__name__}")

    def deserialize(self, topic: str, data: bytes | None) -> bytes | None:
        """Return the bytes unchanged.

        >>> BytesSerde().deserialize("castle", b"abc")
        b'abc'
        """
        del topic
        return data


class StringSerde:
    """Strings, in UTF-8 by default.

    >>> StringSerde().serialize("t", "Käfer")
    b'K\\xc3\\xa4fer'
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, topic: str, value: str | None) -> bytes | None:
        """Return the encoded string.

        >>> StringSerde("latin-1").serialize("castle", "Käfer")
        b'K\\xe4fer'
        """
        del topic
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"value must be a str, got {type(value).__name__}")
        return value.encode(self._encoding)

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        """Return the decoded string.

        >>> StringSerde().deserialize("castle", b"abc")
        'abc'
        """
        del topic
        return None if data is None else data.decode(self._encoding)


class JsonSerde:
    """JSON values, written without spaces. None is a tombstone and not ``null``.

    >>> JsonSerde().serialize("t", {"a": [1, None]})
    b'{"a":[1,null]}'
    """

    def __init__(self) -> None:
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return a value as JSON.

        >>> JsonSerde().serialize("castle", {"guests": 2})
        b'{"guests":2}'
        """
        del topic
        return None if value is None else self._encode(value).encode()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Return the parsed JSON.

        >>> JsonSerde().deserialize("castle", b'{"guests":2}')
        {'guests': 2}
        """
        del topic
        return None if data is None else json.loads(data)


_SERDES: Final = {"bytes": BytesSerde, "str": StringSerde, "json": JsonSerde}


def serialize_with(serializer: AnySerializer, part: Part) -> Serialize | None:
    """Return the function ``serialize(topic, value)`` for keys or values; None if there is nothing to do.

    The function returns bytes or None, and raises SerializationFailed for any failure.

    >>> serialize_with("json", "value")("t", {"a": 1})
    b'{"a":1}'
    """
    if serializer is None:
        return None
    function = _serialize_function(serializer, part)

    def serialize(topic: str, value: Any) -> bytes | None:
        try:
            data: object = function(topic, value)
        except Exception as failure:  # a user's function may raise anything
            raise _failed("serialize", part, topic, failure) from failure
        if data is None or isinstance(data, bytes):
            return data
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise SerializationFailed(
            f"{part}_serializer must return bytes or None for a record of topic {topic},"
            f" got {type(data).__name__}"
        )

    return serialize


def deserialize_with(deserializer: AnyDeserializer, part: Part) -> Deserialize | None:
    """Return the function ``deserialize(topic, data)`` for keys or values; None if there is nothing to do.

    The function raises SerializationFailed for any failure.

    >>> deserialize_with("str", "key")("t", b"abc")
    'abc'
    """
    # Data is bytes already: "bytes" costs nothing.
    if deserializer is None or deserializer == "bytes":
        return None
    function = _deserialize_function(deserializer, part)

    def deserialize(topic: str, data: bytes | None) -> Any:
        try:
            return function(topic, data)
        except Exception as failure:  # a user's function may raise anything
            raise _failed("deserialize", part, topic, failure) from failure

    return deserialize


def _serialize_function(serializer: AnySerializer, part: Part) -> Serialize:
    if isinstance(serializer, str):
        return _named_serde(serializer, part).serialize
    if (method := getattr(serializer, "serialize", None)) is not None:
        serialize: Serialize = method
        return serialize
    if callable(serializer):
        function = serializer
        return lambda topic, value: None if value is None else function(value)
    raise TypeError(
        f"{part}_serializer must be a function, an object with a method serialize, or one of"
        f" {_serde_names()}, got {serializer!r}"
    )


def _deserialize_function(deserializer: AnyDeserializer, part: Part) -> Deserialize:
    if isinstance(deserializer, str):
        return _named_serde(deserializer, part).deserialize
    if (method := getattr(deserializer, "deserialize", None)) is not None:
        deserialize: Deserialize = method
        return deserialize
    if callable(deserializer):
        function = deserializer
        return lambda topic, data: None if data is None else function(data)
    raise TypeError(
        f"{part}_deserializer must be a function, an object with a method deserialize, or one of"
        f" {_serde_names()}, got {deserializer!r}"
    )


def _named_serde(name: str, part: Part) -> BytesSerde | StringSerde | JsonSerde:
    if name not in _SERDES:
        raise ValueError(f"{part} serde must be one of {_serde_names()}, got {name!r}")
    serde: BytesSerde | StringSerde | JsonSerde = _SERDES[name]()
    return serde


def _serde_names() -> str:
    return ", ".join(f'"{name}"' for name in _SERDES)


def _failed(verb: str, part: Part, topic: str, failure: Exception) -> SerializationFailed:
    return SerializationFailed(
        f"cannot {verb} the {part} of a record of topic {topic}: {type(failure).__name__}: {failure}"
    )
