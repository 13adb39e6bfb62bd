"""Encoders and decoders by message and version, generated on first use and cached.

The functions are straight-line Python generated from the message's table. For any input, decoders raise
nothing but ``RemoteProtocolViolation``; encoders raise ``LocalProtocolViolation`` for values that the version
cannot carry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from odradek.model.errors import LocalProtocolViolation
from odradek.ports.files import Part
from odradek.wire.decoder_generator import decode_function
from odradek.wire.encoder_generator import encode_function
from odradek.wire.schema import Field, Table

Encoder = Callable[[Any], bytes]
PartsEncoder = Callable[[Any], list[Part]]
Decoder = Callable[[memoryview, int], tuple[Any, int]]


@cache
def encoder(cls: type, version: int) -> Encoder:
    """Return the function that encodes a message into bytes."""
    _check_version(cls, version)
    return cast(Encoder, encode_function(cast("type[Table]", cls), version, split=False))


@cache
def parts_encoder(cls: type, version: int) -> PartsEncoder:
    """Return the function that encodes a message into parts, with its records uncopied."""
    if not _holds_records(cast("type[Table]", cls)):
        whole = encoder(cls, version)
        return lambda message: [whole(message)]
    _check_version(cls, version)
    return cast(PartsEncoder, encode_function(cast("type[Table]", cls), version, split=True))


@cache
def decoder(cls: type, version: int) -> Decoder:
    """Return the function that decodes a message: frame and position in, message and end position out."""
    _check_version(cls, version)
    return cast(Decoder, decode_function(cast("type[Table]", cls), version))


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
