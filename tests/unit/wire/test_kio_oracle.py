"""kio, an independent implementation of the protocol, encodes and decodes the same bytes."""

from __future__ import annotations

import datetime
import io
import uuid
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import UnknownAPIKey, UnknownEntity, load_payload_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from odradek.wire.apis import APIS
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.schema import Field

EXAMPLES = settings().max_examples // 12
"""Per message and version, of which there are hundreds."""

ZERO = bytes(16)
EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)


def find(key: int, version: int, kind: Any, name: str) -> Any:
    try:
        return getattr(load_payload_module(key, version, kind), name)
    except (UnknownAPIKey, UnknownEntity):
        return None


def known() -> list[Any]:
    types = []
    for api in APIS:
        for cls, kind in ((api.request, EntityType.request), (api.response, EntityType.response)):
            for version in api.versions:
                theirs = find(api.key, version, kind, cls.__name__)
                if theirs is not None:
                    types.append(pytest.param(cls, version, theirs, id=f"{cls.__name__}-{version}"))
    return types


CASES = known()


def our_name(cls: Any, field: Any) -> str:
    """kio omits the unit in names of times, which are datetime objects there."""
    return field.name if field.name in cls.FIELDS else f"{field.name}_ms"


def inner(theirs: Any, name: str) -> Any:
    """Return the kio class of a field: of tuple elements, or of an optional."""
    hint = get_type_hints(theirs)[name]
    while get_args(hint):
        hint = next(each for each in get_args(hint) if each not in (type(None), Ellipsis))
    return hint


def wire_types(theirs: Any) -> dict[str, str]:
    """Return kio's field types by name; values must respect the ones narrower than the wire type."""
    types = {}
    for field in fields(theirs):
        if "kafka_type" in field.metadata:
            types[field.name] = types[f"{field.name}_ms"] = field.metadata["kafka_type"]
        else:
            types |= wire_types(inner(theirs, field.name))
    return types


NARROW = {
    "error_code": st.sampled_from(sorted(ErrorCode)).map(int),
    "datetime_i64": st.integers(0, 1 << 40),
    "timedelta_i64": st.integers(-(1 << 40), 1 << 40),
}


def to_kio_value(field: Field, value: Any, theirs: Any, kio_field: Any) -> Any:
    kafka_type = kio_field.metadata.get("kafka_type", "")
    if value is None and field.kind == "struct":
        return kio_field.default
    if value is None:
        return None
    if field.kind == "array":
        of = field.of
        if isinstance(of, Field):
            return tuple(to_kio_value(of, each, theirs, kio_field) for each in value)
        return tuple(to_kio(of, each, inner(theirs, kio_field.name)) for each in value)
    if field.kind == "struct":
        return to_kio(field.of, value, inner(theirs, kio_field.name))
    return to_kio_plain(kafka_type, value)


def to_kio_plain(kafka_type: str, value: Any) -> Any:
    match kafka_type:
        case "uuid":
            return None if value == ZERO else uuid.UUID(bytes=value)
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return value * MILLISECOND
        case "datetime_i64":
            return EPOCH + value * MILLISECOND
        case _:
            return value


def to_kio(cls: Any, message: Any, theirs: Any) -> Any:
    made = {}
    for kio_field in fields(theirs):
        name = our_name(cls, kio_field)
        made[kio_field.name] = to_kio_value(cls.FIELDS[name], getattr(message, name), theirs, kio_field)
    return theirs(**made)


@pytest.mark.parametrize(("cls", "version", "theirs"), CASES)
def test_kio_encodes_and_decodes_the_same_bytes(
    reference: SimpleNamespace, cls: Any, version: int, theirs: Any
) -> None:
    assert {name for name, field in cls.FIELDS.items() if field.is_in(version)} == {
        our_name(cls, field) for field in fields(theirs)
    }
    types = wire_types(theirs)
    write, read = entity_writer(theirs), entity_reader(theirs)

    def narrow(name: str, field: Field) -> Any:
        return NARROW.get(types.get(name, ""))

    @settings(max_examples=EXAMPLES, database=None)
    @given(reference.values(cls, version, narrow))
    def check(message: Any) -> None:
        entity = to_kio(cls, message, theirs)
        raw = encoder(cls, version)(message)
        with io.BytesIO() as out:
            write(out, entity)
            assert out.getvalue() == raw
        assert read(raw, 0) == (entity, len(raw))
        assert decoder(cls, version)(memoryview(raw), 0) == (message, len(raw))

    check()


def test_kio_covers_most_messages() -> None:
    assert len(CASES) > 400
