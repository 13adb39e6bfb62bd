"""Every message in every version equals the bytes written by Kafka's classes (see tests/golden/wire)."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from odradek.model.errors import RemoteProtocolViolation
from odradek.wire.apis import APIS
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.schema import Field

GOLDEN = Path(__file__).parents[2] / "golden" / "wire"
CLASSES = {cls.__name__: cls for api in APIS for cls in (api.request, api.response)}


def read_golden() -> tuple[dict[str, Any], dict[tuple[str, int, str], bytes]]:
    values: dict[str, Any] = {}
    samples: dict[tuple[str, int, str], bytes] = {}
    for path in sorted(GOLDEN.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            name, second, rest = [*line.split(" ", 2), ""][:3]
            if second == "=":
                values[name] = json.loads(rest)
            else:
                kind, _, raw = rest.partition(" ")
                samples[name, int(second), kind] = bytes.fromhex(raw)
    return values, samples


VALUES, SAMPLES = read_golden()
CASES = [pytest.param(*key, id="-".join(map(str, key))) for key in SAMPLES]


def rebuild_value(field: Field, value: Any, version: int, bare: bool) -> Any:
    if bare and field.is_nullable_in(version):
        return None
    if field.kind == "array":
        of = field.of
        return [
            rebuild_value(of, each, version, bare)
            if isinstance(of, Field)
            else rebuild(of, each, version, bare)
            for each in value
        ]
    if field.kind == "struct":
        return rebuild(field.of, value, version, bare)
    return bytes.fromhex(value) if field.kind in ("uuid", "bytes", "records") else value


def rebuild(cls: Any, value: dict[str, Any], version: int, bare: bool) -> Any:
    """Build the sample; in ``bare`` ones nullable fields are null and tagged fields have their defaults."""
    return cls(
        **{
            name: rebuild_value(field, value[name], version, bare)
            for name, field in cls.FIELDS.items()
            if field.is_in(version) and not (bare and field.tag is not None)
        }
    )


@pytest.mark.parametrize(("name", "version", "kind"), CASES)
def test_encoding_equals_kafka(name: str, version: int, kind: str) -> None:
    cls, raw = CLASSES[name], SAMPLES[name, version, kind]
    message = rebuild(cls, VALUES[name], version, kind == "bare")
    assert encoder(cls, version)(message).hex() == raw.hex()
    assert decoder(cls, version)(memoryview(raw), 0) == (message, len(raw))


def test_every_message_and_version_has_samples() -> None:
    expected = {
        (cls.__name__, version, kind)
        for api in APIS
        for cls in (api.request, api.response)
        for version in api.versions
        for kind in ("full", "bare")
    }
    assert set(SAMPLES) == expected


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_truncation_is_rejected(name: str) -> None:
    for version in CLASSES[name].VERSIONS:
        raw = SAMPLES[name, version, "full"]
        decode = decoder(CLASSES[name], version)
        for end in range(len(raw)):
            with pytest.raises(RemoteProtocolViolation):
                decode(memoryview(raw)[:end], 0)


def mutate(raw: bytes, chance: Random) -> bytes:
    out = bytearray(raw)
    for _ in range(chance.randint(1, 4)):
        position = chance.randrange(len(out) + 1)
        match chance.randrange(4):
            case 0:
                out[position : position + 1] = bytes([chance.choice([0, 1, 0x7F, 0x80, 0xFF])])
            case 1:
                out[position:position] = chance.randbytes(chance.randint(1, 6))
            case 2:
                del out[position : position + chance.randint(1, 6)]
            case _:
                out[position : position + 4] = b"\xff" * 4
    return bytes(out)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_mutated_bytes_decode_or_are_rejected(name: str) -> None:
    chance = Random(name)
    rejected = 0
    for version in CLASSES[name].VERSIONS:
        raw = SAMPLES[name, version, "full"]
        decode = decoder(CLASSES[name], version)
        for _ in range(40):
            mutated = mutate(raw, chance)
            try:
                _, end = decode(memoryview(mutated), 0)
            except RemoteProtocolViolation:
                rejected += 1
            else:
                assert 0 <= end <= len(mutated)
    assert rejected
