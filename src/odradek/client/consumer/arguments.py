"""Typed constructor keywords of consumers: one class per combination of key and value deserializers.

A deserializer is omitted, ``"bytes"``, ``"str"``, ``"json"``, or a user-defined object or function, whose
return type is then the type of keys or values. Used by type checkers only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, Required, TypedDict, TypeVar

from odradek.client.consumer.assignors import Assignor
from odradek.client.environment import ClientEnvironment
from odradek.client.interceptors import ConsumerInterceptor
from odradek.client.options.typed_options import ConsumerOptions
from odradek.client.serdes import Deserializer

K = TypeVar("K")
V = TypeVar("V")


class ConsumerArguments(ConsumerOptions, total=False):
    """Keywords of a consumer other than the deserializers."""

    interceptors: Sequence[ConsumerInterceptor]
    assignors: Sequence[Assignor] | None
    environment: ClientEnvironment | None


class ReadsBytesKey(TypedDict, total=False):
    key_deserializer: Literal["bytes"] | None


class ReadsTextKey(TypedDict, total=False):
    key_deserializer: Required[Literal["str"]]


class ReadsJsonKey(TypedDict, total=False):
    key_deserializer: Required[Literal["json"]]


class ReadsOwnKey(TypedDict, Generic[K], total=False):
    key_deserializer: Required[Deserializer[K] | Callable[[bytes], K]]


class ReadsBytesValue(TypedDict, total=False):
    value_deserializer: Literal["bytes"] | None


class ReadsTextValue(TypedDict, total=False):
    value_deserializer: Required[Literal["str"]]


class ReadsJsonValue(TypedDict, total=False):
    value_deserializer: Required[Literal["json"]]


class ReadsOwnValue(TypedDict, Generic[V], total=False):
    value_deserializer: Required[Deserializer[V] | Callable[[bytes], V]]


class ReadsBytesBytes(ConsumerArguments, ReadsBytesKey, ReadsBytesValue): ...


class ReadsBytesText(ConsumerArguments, ReadsBytesKey, ReadsTextValue): ...


class ReadsBytesJson(ConsumerArguments, ReadsBytesKey, ReadsJsonValue): ...


class ReadsBytesOwn(ConsumerArguments, ReadsBytesKey, ReadsOwnValue[V], Generic[V]): ...


class ReadsTextBytes(ConsumerArguments, ReadsTextKey, ReadsBytesValue): ...


class ReadsTextText(ConsumerArguments, ReadsTextKey, ReadsTextValue): ...


class ReadsTextJson(ConsumerArguments, ReadsTextKey, ReadsJsonValue): ...


class ReadsTextOwn(ConsumerArguments, ReadsTextKey, ReadsOwnValue[V], Generic[V]): ...


class ReadsJsonBytes(ConsumerArguments, ReadsJsonKey, ReadsBytesValue): ...


class ReadsJsonText(ConsumerArguments, ReadsJsonKey, ReadsTextValue): ...


class ReadsJsonJson(ConsumerArguments, ReadsJsonKey, ReadsJsonValue): ...


class ReadsJsonOwn(ConsumerArguments, ReadsJsonKey, ReadsOwnValue[V], Generic[V]): ...


class ReadsOwnBytes(ConsumerArguments, ReadsOwnKey[K], ReadsBytesValue, Generic[K]): ...


class ReadsOwnText(ConsumerArguments, ReadsOwnKey[K], ReadsTextValue, Generic[K]): ...


class ReadsOwnJson(ConsumerArguments, ReadsOwnKey[K], ReadsJsonValue, Generic[K]): ...


class ReadsOwnOwn(ConsumerArguments, ReadsOwnKey[K], ReadsOwnValue[V], Generic[K, V]): ...
