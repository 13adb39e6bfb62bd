"""How keys and values become bytes, and what becomes of bytes again.

A serde is an object with two functions, ``serialize(topic, value)`` and ``deserialize(topic, data)``; one of
them is enough for a client that only writes or only reads. A plain function of one argument does as well, and
so do the names ``"bytes"``, ``"str"`` and ``"json"``. None, the default, leaves bytes as they are at no cost.

No value is no value on both sides: a tombstone. The serdes here keep None as it is, and plain functions are
never called with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from odradek.model.client_errors import SerializationFailed

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Taken_contra = TypeVar("Taken_contra", contravariant=True, default=Any)
    Given_co = TypeVar("Given_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    Taken_contra = TypeVar("Taken_contra", contravariant=True)
    Given_co = TypeVar("Given_co", covariant=True)


class Serializer(Protocol[Taken_contra]):
    """Turns keys or values into bytes; None writes no key, or a tombstone.

    >>> class Number:
    ...     def serialize(self, topic, value):
    ...         return None if value is None else value.to_bytes(8, "big")
    >>> serialize_with(Number(), "value")("castle", 7)
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07'
    """

    def serialize(self, topic: str, value: Taken_contra, /) -> bytes | None: ...


class Deserializer(Protocol[Given_co]):
    """Makes keys or values of bytes; is also asked about None.

    >>> class Number:
    ...     def deserialize(self, topic, data):
    ...         return None if data is None else int.from_bytes(data, "big")
    >>> deserialize_with(Number(), "value")("castle", bytes(7) + b"\\x07")
    7
    """

    def deserialize(self, topic: str, data: bytes | None, /) -> Given_co: ...


SerdeName: TypeAlias = Literal["bytes", "str", "json"]
AnySerializer: TypeAlias = Serializer[Any] | Callable[[Any], bytes | None] | SerdeName | None
AnyDeserializer: TypeAlias = Deserializer[Any] | Callable[[bytes], Any] | SerdeName | None
Serialize: TypeAlias = Callable[[str, Any], bytes | None]
Deserialize: TypeAlias = Callable[[str, bytes | None], Any]
Part: TypeAlias = Literal["key", "value"]


class BytesSerde:
    """Bytes as they are, in whatever holds them.

    >>> BytesSerde().serialize("t", bytearray(b"abc"))
    b'abc'
    """

    def serialize(self, topic: str, value: bytes | bytearray | memoryview | None) -> bytes | None:
        """The bytes of whatever holds them.

        >>> BytesSerde().serialize("castle", memoryview(b"abc"))
        b'abc'
        """
        del topic
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise TypeError(f"needs bytes, not {type(value).__name__}")

    def deserialize(self, topic: str, data: bytes | None) -> bytes | None:
        """The bytes as they are.

        >>> BytesSerde().deserialize("castle", b"abc")
        b'abc'
        """
        del topic
        return data


class StringSerde:
    """Texts, in UTF-8 unless said otherwise.

    >>> StringSerde().serialize("t", "Käfer")
    b'K\\xc3\\xa4fer'
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, topic: str, value: str | None) -> bytes | None:
        """The bytes of a text.

        >>> StringSerde("latin-1").serialize("castle", "Käfer")
        b'K\\xe4fer'
        """
        del topic
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"needs a text, not {type(value).__name__}")
        return value.encode(self._encoding)

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        """The text that bytes hold.

        >>> StringSerde().deserialize("castle", b"abc")
        'abc'
        """
        del topic
        return None if data is None else data.decode(self._encoding)


class JsonSerde:
    """Whatever JSON can say, written without spaces. None is a tombstone and not ``null``.

    >>> JsonSerde().serialize("t", {"a": [1, None]})
    b'{"a":[1,null]}'
    """

    def __init__(self) -> None:
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """The JSON of a value.

        >>> JsonSerde().serialize("castle", {"guests": 2})
        b'{"guests":2}'
        """
        del topic
        return None if value is None else self._encode(value).encode()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """What JSON says.

        >>> JsonSerde().deserialize("castle", b'{"guests":2}')
        {'guests': 2}
        """
        del topic
        return None if data is None else json.loads(data)


_NAMED: Final = {"bytes": BytesSerde, "str": StringSerde, "json": JsonSerde}


def serialize_with(given: AnySerializer, part: Part) -> Serialize | None:
    """What a client calls for each key or value: ``serialize(topic, value)``; None if nothing need be done.

    The function gives bytes or None, and raises SerializationFailed whatever went wrong.

    >>> serialize_with("json", "value")("t", {"a": 1})
    b'{"a":1}'
    """
    if given is None:
        return None
    plain = _serialize_of(given, part)

    def serialize(topic: str, value: Any) -> bytes | None:
        try:
            data: object = plain(topic, value)
        except Exception as failure:  # a user's function may raise anything
            raise _failed("serialize", part, topic, failure) from failure
        if data is None or isinstance(data, bytes):
            return data
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise SerializationFailed(
            f"the {part} serializer gave {type(data).__name__} for a record of topic {topic}, not bytes"
        )

    return serialize


def deserialize_with(given: AnyDeserializer, part: Part) -> Deserialize | None:
    """What a client calls for each key or value: ``deserialize(topic, data)``; None if nothing need be done.

    The function raises SerializationFailed whatever went wrong.

    >>> deserialize_with("str", "key")("t", b"abc")
    'abc'
    """
    # Bytes are bytes already: whoever asks for them by name need not pay for it.
    if given is None or given == "bytes":
        return None
    plain = _deserialize_of(given, part)

    def deserialize(topic: str, data: bytes | None) -> Any:
        try:
            return plain(topic, data)
        except Exception as failure:  # a user's function may raise anything
            raise _failed("deserialize", part, topic, failure) from failure

    return deserialize


def _serialize_of(given: AnySerializer, part: Part) -> Serialize:
    if isinstance(given, str):
        return _named(given, part).serialize
    if (method := getattr(given, "serialize", None)) is not None:
        found: Serialize = method
        return found
    if callable(given):
        function = given
        return lambda topic, value: None if value is None else function(value)
    raise TypeError(f"{part}_serializer must be a function, have a function serialize, or be {_names()}")


def _deserialize_of(given: AnyDeserializer, part: Part) -> Deserialize:
    if isinstance(given, str):
        return _named(given, part).deserialize
    if (method := getattr(given, "deserialize", None)) is not None:
        found: Deserialize = method
        return found
    if callable(given):
        function = given
        return lambda topic, data: None if data is None else function(data)
    raise TypeError(f"{part}_deserializer must be a function, have a function deserialize, or be {_names()}")


def _named(name: str, part: Part) -> BytesSerde | StringSerde | JsonSerde:
    if name not in _NAMED:
        raise ValueError(f"no {part} serde is called {name!r}; there are {_names()}")
    serde: BytesSerde | StringSerde | JsonSerde = _NAMED[name]()
    return serde


def _names() -> str:
    return ", ".join(f'"{name}"' for name in _NAMED)


def _failed(verb: str, part: Part, topic: str, failure: Exception) -> SerializationFailed:
    return SerializationFailed(
        f"cannot {verb} the {part} of a record of topic {topic}: {type(failure).__name__}: {failure}"
    )
