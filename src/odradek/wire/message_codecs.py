"""Encoders and decoders by message and version, generated on first use and cached.

The functions are straight-line Python generated from the message's table. For any input, decoders raise
nothing but ``RemoteProtocolViolation``; encoders raise ``LocalProtocolViolation`` for values that the version
cannot carry.

Hot messages have compiled functions with equal results. These handle what is valid and usual, and call the
generated function with everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, cast

from odradek.model.errors import LocalProtocolViolation
from odradek.ports.files import Part
from odradek.wire.decoder_generator import decode_function
from odradek.wire.encoder_generator import encode_function
from odradek.wire.schema import Field, Table

Encoder = Callable[[Any], bytes]
PartsEncoder = Callable[[Any], list[Part]]
Decoder = Callable[[memoryview, int], tuple[Any, int]]

HOT_MODULES: Final = frozenset(
    f"odradek.wire.messages.{name}" for name in ("fetch", "heartbeat", "metadata", "offset_commit", "produce")
)
"""Modules of the messages that may have compiled functions; the compiled functions import all of them."""


@cache
def encoder(cls: type, version: int) -> Encoder:
    """Return the function that encodes a message into bytes."""
    _check_version(cls, version)
    return cast(Encoder, _compiled("encoder", cls, version, generated_encoder))


@cache
def parts_encoder(cls: type, version: int) -> PartsEncoder:
    """Return the function that encodes a message into parts, with its records uncopied."""
    _check_version(cls, version)
    return cast(PartsEncoder, _compiled("parts_encoder", cls, version, generated_parts_encoder))


@cache
def decoder(cls: type, version: int) -> Decoder:
    """Return the function that decodes a message: frame and position in, message and end position out."""
    _check_version(cls, version)
    return cast(Decoder, _compiled("decoder", cls, version, generated_decoder))


@cache
def generated_encoder(cls: type, version: int) -> Encoder:
    return cast(Encoder, encode_function(cast("type[Table]", cls), version, split=False))


def generated_parts_encoder(cls: type, version: int) -> PartsEncoder:
    if not _holds_records(cast("type[Table]", cls)):
        whole = generated_encoder(cls, version)
        return lambda message: [whole(message)]
    return cast(PartsEncoder, encode_function(cast("type[Table]", cls), version, split=True))


def generated_decoder(cls: type, version: int) -> Decoder:
    return cast(Decoder, decode_function(cast("type[Table]", cls), version))


def _compiled(kind: str, cls: type, version: int, generate: Callable[[type, int], object]) -> object:
    """Return the compiled function, which generates the Python one on first need; else the Python one."""
    compiled = None
    if cls.__module__ in HOT_MODULES and (hot_messages := _hot_messages()) is not None:
        compiled = getattr(hot_messages, kind)(cls, version, partial(generate, cls, version))
    return generate(cls, version) if compiled is None else compiled


@cache
def _hot_messages() -> Any:
    """Return the module of compiled functions; None if the compiled modules are not in use."""
    try:
        return import_module("odradek.wire.hot_messages")
    except ImportError:
        return None


def _check_version(cls: type, version: int) -> None:
    versions = cast("type[Table]", cls).VERSIONS
    if version not in versions:
        raise LocalProtocolViolation(
            f"{cls.__name__} version must be in {versions[0]}..{versions[-1]}, got {version}"
        )


def _holds_records(cls: type[Table]) -> bool:
    return any(
        field.kind == "records"
        or (not isinstance(field.of, Field) and field.of is not None and _holds_records(field.of))
        for field in cls.FIELDS.values()
    )
