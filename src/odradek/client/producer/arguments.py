"""Keyword arguments of producers, for type checkers: one overload for each pair of serializers.

A serializer is omitted, ``"bytes"``, ``"str"``, ``"json"``, or a custom object or function, which determines
the type of keys or values. Not used at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, Required, TypedDict, TypeVar

from odradek.client.environment import ClientEnvironment
from odradek.client.interceptors import ProducerInterceptor
from odradek.client.options.typed_options import ProducerOptions
from odradek.client.producer.partitioner import Partitioner
from odradek.client.serdes import Serializer

K = TypeVar("K")
V = TypeVar("V")


class ProducerArguments(ProducerOptions, total=False):
    """Keyword arguments of a producer, without the serializers."""

    partitioner: Partitioner | None
    interceptors: Sequence[ProducerInterceptor]
    environment: ClientEnvironment | None


class WritesBytesKey(TypedDict, total=False):
    key_serializer: Literal["bytes"] | None


class WritesTextKey(TypedDict, total=False):
    key_serializer: Required[Literal["str"]]


class WritesJsonKey(TypedDict, total=False):
    key_serializer: Required[Literal["json"]]


class WritesOwnKey(TypedDict, Generic[K], total=False):
    key_serializer: Required[Serializer[K] | Callable[[K], bytes | None]]


class WritesBytesValue(TypedDict, total=False):
    value_serializer: Literal["bytes"] | None


class WritesTextValue(TypedDict, total=False):
    value_serializer: Required[Literal["str"]]


class WritesJsonValue(TypedDict, total=False):
    value_serializer: Required[Literal["json"]]


class WritesOwnValue(TypedDict, Generic[V], total=False):
    value_serializer: Required[Serializer[V] | Callable[[V], bytes | None]]


class WritesBytesBytes(ProducerArguments, WritesBytesKey, WritesBytesValue): ...


class WritesBytesText(ProducerArguments, WritesBytesKey, WritesTextValue): ...


class WritesBytesJson(ProducerArguments, WritesBytesKey, WritesJsonValue): ...


class WritesBytesOwn(ProducerArguments, WritesBytesKey, WritesOwnValue[V], Generic[V]): ...


class WritesTextBytes(ProducerArguments, WritesTextKey, WritesBytesValue): ...


class WritesTextText(ProducerArguments, WritesTextKey, WritesTextValue): ...


class WritesTextJson(ProducerArguments, WritesTextKey, WritesJsonValue): ...


class WritesTextOwn(ProducerArguments, WritesTextKey, WritesOwnValue[V], Generic[V]): ...


class WritesJsonBytes(ProducerArguments, WritesJsonKey, WritesBytesValue): ...


class WritesJsonText(ProducerArguments, WritesJsonKey, WritesTextValue): ...


class WritesJsonJson(ProducerArguments, WritesJsonKey, WritesJsonValue): ...


class WritesJsonOwn(ProducerArguments, WritesJsonKey, WritesOwnValue[V], Generic[V]): ...


class WritesOwnBytes(ProducerArguments, WritesOwnKey[K], WritesBytesValue, Generic[K]): ...


class WritesOwnText(ProducerArguments, WritesOwnKey[K], WritesTextValue, Generic[K]): ...


class WritesOwnJson(ProducerArguments, WritesOwnKey[K], WritesJsonValue, Generic[K]): ...


class WritesOwnOwn(ProducerArguments, WritesOwnKey[K], WritesOwnValue[V], Generic[K, V]): ...
