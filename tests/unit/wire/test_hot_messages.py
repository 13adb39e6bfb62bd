"""Compiled codecs of hot messages equal the generated Python ones, for valid and for hostile input."""

from __future__ import annotations

import enum
import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from types import BuiltinFunctionType, SimpleNamespace
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.model.errors import LocalProtocolViolation
from odradek.ports.files import FileSlice
from odradek.wire import message_codecs
from odradek.wire.hot_messages_generator import HOT_MESSAGES
from odradek.wire.message_codecs import (
    decoder,
    encoder,
    generated_decoder,
    generated_encoder,
    generated_parts_encoder,
    parts_encoder,
)
from odradek.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.schema import table_of

pytestmark = pytest.mark.compiled

EXAMPLES = settings().max_examples // 12
"""Per message and version, of which there are more than a hundred."""
ALLOCATED_BYTES_MAX = 100_000
DAMAGES = 40
"""Per example."""
TRUNCATIONS_MAX = 200
"""At each end of a frame: some frames hold long strings."""

CASES = [
    pytest.param(cls, version, id=f"{cls.__name__}-{version}")
    for cls in HOT_MESSAGES
    for version in cls.VERSIONS  # type: ignore[union-attr]
]
EXTREMES = [
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff", b"\x7f\xff", b"\x80\0"),
    *(b"\0\0\0\0", b"\0", b"\1", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\0"),
    *(b"\x80\x80\x80\x80\x80\x01", b"\x81\x80\x02", b"\xff\xff\x01", b"\xff\xff\xff\xff\x07"),
]


class Number:
    def __index__(self) -> int:
        return 3


class Code(enum.IntEnum):
    FIVE = 5


class Text(str):
    __slots__ = ()


class MemoryFile:
    def read_at(self, position: int, size_bytes: int) -> bytes:
        return b"0123456789"[position : position + size_bytes]


WRONG: list[Any] = [
    *(None, True, False, 0, -1, 1, 127, 128, -128, -129, 1 << 15, -(1 << 15), (1 << 15) - 1, 1 << 31),
    *((1 << 31) - 1, -(1 << 31), -(1 << 31) - 1, 1 << 63, (1 << 63) - 1, -(1 << 63), -(1 << 63) - 1, 1 << 70),
    *(1.0, Number(), Code.FIVE, Text("text"), "", "x", "ü€", "\ud800", "y" * 32767, "y" * 32768, "ü" * 16384),
    *(b"", b"abc", bytes(15), bytes(16), bytes(17), bytearray(16), bytearray(b"abc"), memoryview(b"abc")),
    *(memoryview(bytes(16)), memoryview(bytes(8)).cast("i"), memoryview(b"abcdef")[::2], [], (), {}, [None]),
    *([1], (1, 2), [1 << 40], ["x"], [b"x"], range(3), object(), HeartbeatResponse(), EpochEndOffset()),
    FileSlice(MemoryFile(), 2, 4),  # type: ignore[arg-type]
]


def forbidden() -> NoReturn:
    raise AssertionError("the generated function must not be needed")


def compiled(kind: str, cls: type, version: int) -> Any:
    """Return a compiled function that fails where it would call the generated one."""
    return getattr(message_codecs._hot_messages(), kind)(cls, version, forbidden)


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a call returns, with the types of all values, or what it raises."""
    try:
        result = function(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is, both have to raise it
        return type(error), str(error), type(error.__cause__)
    return plain(result)


def plain(value: Any) -> Any:
    """Return a value that compares by type, and field by field."""
    if isinstance(value, tuple | list):
        return type(value), [plain(each) for each in value]
    if hasattr(type(value), "FIELDS"):
        return type(value), {name: plain(getattr(value, name)) for name in table_of(type(value))}
    if isinstance(value, memoryview):
        return memoryview, value.tobytes(), value.readonly, value.format, value.shape, value.strides
    return type(value), value


def assert_decodes_equally(cls: type, version: int, raw: bytes | bytearray, position: int = 0) -> None:
    frame = memoryview(raw)
    expected = outcome(generated_decoder_of(cls, version), frame, position)
    assert outcome(decoder(cls, version), frame, position) == expected


GENERATED: dict[Any, Any] = {}


def generated_decoder_of(cls: type, version: int) -> Any:
    if (cls, version) not in GENERATED:
        GENERATED[cls, version] = generated_decoder(cls, version)
    return GENERATED[cls, version]


def structures_in(value: Any) -> Iterator[Any]:
    """Yield a message and all structures in it."""
    yield value
    for name in table_of(type(value)):
        field = getattr(value, name)
        for each in field if isinstance(field, list) else [field]:
            if hasattr(type(each), "FIELDS"):
                yield from structures_in(each)


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_every_version_is_compiled_and_used(cls: type, version: int) -> None:
    assert cls.__module__ in message_codecs.HOT_MODULES
    for make in (decoder, encoder, parts_encoder):
        assert isinstance(make(cls, version), BuiltinFunctionType)


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_valid_messages_do_not_need_the_generated_functions(
    reference: SimpleNamespace, cls: type, version: int
) -> None:
    encode, decode = compiled("encoder", cls, version), compiled("decoder", cls, version)
    encode_parts = compiled("parts_encoder", cls, version)
    generated, generated_parts = generated_encoder(cls, version), generated_parts_encoder(cls, version)

    @settings(max_examples=EXAMPLES, database=None)
    @given(reference.values(cls, version))
    def check(message: Any) -> None:
        raw = encode(message)
        assert raw == generated(message)
        assert type(raw) is bytes
        assert encode_parts(message) == generated_parts(message)
        for frame, position in ((raw, 0), (bytearray(b"##" + raw + b"#"), 2)):
            view = memoryview(frame)
            expected = outcome(generated_decoder_of(cls, version), view, position)
            assert outcome(decode, view, position) == expected
            assert expected[1][1] == (int, position + len(raw))

    check()


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_damaged_frames_decode_equally(reference: SimpleNamespace, cls: type, version: int) -> None:
    encode = generated_encoder(cls, version)

    @settings(max_examples=EXAMPLES, database=None)
    @given(reference.values(cls, version), st.randoms(use_true_random=False))
    def check(message: Any, random: Random) -> None:
        raw = encode(message)
        for size in range(len(raw)):
            if min(size, len(raw) - size) <= TRUNCATIONS_MAX:
                assert_decodes_equally(cls, version, raw[:size])
        for _ in range(DAMAGES):
            assert_decodes_equally(cls, version, damaged(raw, random))

    check()


def damaged(raw: bytes, random: Random) -> bytearray:
    """Flip bytes, or put a length, count or number of an extreme value somewhere."""
    frame = bytearray(raw)
    start = random.choice((0, 0, max(0, len(raw) - 60)))
    position = random.randint(start, min(len(raw), start + 60))
    kind = random.randrange(4)
    if kind == 0:
        frame[position : position + 1] = bytes([random.randrange(256)])
    elif kind == 1:
        extreme = random.choice(EXTREMES)
        frame[position : position + len(extreme)] = extreme
    elif kind == 2:
        frame[position:position] = random.choice(EXTREMES)
    else:
        del frame[position : position + random.randint(1, 4)]
    return frame


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_random_bytes_decode_equally(cls: type, version: int) -> None:
    random = Random(f"{cls.__name__} {version}")
    for _ in range(DAMAGES):
        assert_decodes_equally(cls, version, random.randbytes(random.randrange(64)))
        small = bytes(random.choice((0, 0, 0, 1, 2, 3, 255)) for _ in range(random.randrange(64)))
        assert_decodes_equally(cls, version, small)


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_unusual_values_encode_equally(reference: SimpleNamespace, cls: type, version: int) -> None:
    pairs = [
        (encoder(cls, version), generated_encoder(cls, version)),
        (parts_encoder(cls, version), generated_parts_encoder(cls, version)),
    ]

    @settings(max_examples=EXAMPLES, database=None)
    @given(reference.values(cls, max(cls.VERSIONS)), st.randoms(use_true_random=False))  # type: ignore[attr-defined]
    def check(message: Any, random: Random) -> None:
        for _ in range(DAMAGES):
            structure = random.choice([*structures_in(message)])
            name = random.choice([*table_of(type(structure))])
            before = getattr(structure, name)
            if random.randrange(8):
                setattr(structure, name, random.choice(WRONG))
            else:
                delattr(structure, name)
            for function, expected in pairs:
                assert outcome(function, message) == outcome(expected, message)
            setattr(structure, name, before)

    check()


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_each_field_encodes_each_unusual_value_equally(cls: type, version: int) -> None:
    pairs = [
        (encoder(cls, version), generated_encoder(cls, version)),
        (parts_encoder(cls, version), generated_parts_encoder(cls, version)),
    ]
    for path in paths_to_structures(cls):
        for name in table_of(path[-1][1] if path else cls):
            for value in WRONG:
                message = cls()
                structure: Any = message
                for field_name, inner in path:
                    held = inner()
                    is_array = table_of(type(structure))[field_name].kind == "array"
                    setattr(structure, field_name, [held] if is_array else held)
                    structure = held
                setattr(structure, name, value)
                for function, expected in pairs:
                    assert outcome(function, message) == outcome(expected, message), (path, name, value)


def paths_to_structures(cls: type) -> Iterator[list[tuple[str, type]]]:
    """Yield the names and classes that lead from a message to each of its structures."""
    yield []
    for name, field in table_of(cls).items():
        if isinstance(field.of, type):
            for rest in paths_to_structures(field.of):
                yield [(name, field.of), *rest]


@pytest.mark.parametrize("message", [None, 1, HeartbeatResponse(), type("Other", (), {})()])
def test_other_objects_than_the_message_encode_equally(message: Any) -> None:
    for version in range(5):
        expected = outcome(generated_encoder(HeartbeatRequest, version), message)
        assert outcome(encoder(HeartbeatRequest, version), message) == expected


def test_object_with_the_fields_of_the_message_is_encoded() -> None:
    message = SimpleNamespace(throttle_time_ms=1, error_code=2)
    assert encoder(HeartbeatResponse, 1)(message) == b"\0\0\0\1\0\2"


def released() -> memoryview:
    view = memoryview(bytes(20))
    view.release()
    return view


@pytest.mark.parametrize(
    "arguments",
    [
        *[(memoryview(bytes(20)), position) for position in (-1, -20, -21, 19, 20, 21, 1 << 70, -(1 << 70))],
        *[(memoryview(bytes(20)), position) for position in (True, Number(), 1.0, None, "1")],
        *[(frame, 0) for frame in (None, 1, "text", bytes(20), bytearray(20), memoryview(b""), released())],
        (memoryview(bytes(40))[::2], 0),
        (memoryview(bytes(20))[::-1], 0),
        (memoryview(bytes(80)).cast("i"), 0),
        (memoryview(bytes(20)).cast("b"), 0),
        (memoryview(bytes(20)).cast("c"), 0),
        (memoryview(bytes(20)).cast("B", (4, 5)), 0),
        (memoryview(b"x").cast("B", ()), 0),
        (),
        (memoryview(bytes(20)),),
        (memoryview(bytes(20)), 0, 0),
    ],
)
@pytest.mark.parametrize("version", [0, 3, 4])
def test_unusual_frames_decode_equally(version: int, arguments: tuple[Any, ...]) -> None:
    for cls in (HeartbeatRequest, ProduceRequest):
        expected = outcome(generated_decoder_of(cls, version), *arguments)
        assert outcome(decoder(cls, version), *arguments) == expected


def produce_request() -> ProduceRequest:
    return ProduceRequest("t", -1, 5, [TopicProduceData("t", [PartitionProduceData(0, b"abcdef")])])


def test_decoded_records_are_a_slice_of_the_frame() -> None:
    for version in ProduceRequest.VERSIONS:  # type: ignore[attr-defined]
        message = produce_request()
        message.transactional_id = None
        frame = bytearray(b"#" + encoder(ProduceRequest, version)(message))
        decoded, _ = compiled("decoder", ProduceRequest, version)(memoryview(frame), 1)
        records = decoded.topic_data[0].partition_data[0].records
        assert (records.obj is frame, records.nbytes, len(records), records.readonly) == (True, 6, 6, False)
        assert (records.contiguous, records.c_contiguous, records.ndim) == (True, True, 1)
        assert (records[0], records[-1], records[1:3].tobytes()) == (ord("a"), ord("f"), b"bc")
        with pytest.raises(IndexError):
            records[6]
        records[2:4] = b"XY"
        assert b"abXYef" in frame
        with pytest.raises(BufferError):
            frame.append(0)
        records.release()
        del decoded
        frame.append(0)


def test_frame_can_be_resized_after_a_failure() -> None:
    frame = bytearray(encoder(ProduceRequest, 9)(produce_request())[:-3])
    with pytest.raises(Exception, match=r"cannot be decoded|remaining"):
        decoder(ProduceRequest, 9)(memoryview(frame), 0)
    gc.collect()
    frame.append(0)


class Meddling:
    """Records that change the response while it is encoded."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self.meddle = meddle

    def __len__(self) -> int:
        self.meddle()
        return 3

    def read(self) -> bytes:
        return b"abc"


def test_response_that_changes_while_it_is_encoded_is_no_danger() -> None:
    for version in FetchResponse.VERSIONS:  # type: ignore[attr-defined]
        for make in (encoder, parts_encoder):
            encode: Any = make(FetchResponse, version)
            response = FetchResponse()

            def meddle(response: FetchResponse = response) -> None:
                for topic in response.responses:
                    del topic.partitions[:]
                    topic.partitions = []
                response.responses.clear()
                del response.responses
                gc.collect()

            partitions = [PartitionData(0, records=Meddling(meddle)), PartitionData(1)]  # type: ignore[arg-type]
            response.responses = [FetchableTopicResponse(partitions=partitions) for _ in range(3)]
            del partitions
            with pytest.raises(LocalProtocolViolation):
                encode(response)


def test_interrupt_while_encoding_is_not_lost() -> None:
    def interrupt() -> None:
        calls.append(1)
        raise KeyboardInterrupt

    calls: list[int] = []
    partition = PartitionData(0, records=Meddling(interrupt))  # type: ignore[arg-type]
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    with pytest.raises(KeyboardInterrupt):
        parts_encoder(FetchResponse, 11)(response)
    assert calls == [1]


def test_tags_that_repeat_and_sizes_of_two_bytes() -> None:
    request = FetchRequest(cluster_id="c" * 300)
    raw = compiled("encoder", FetchRequest, 12)(request)
    assert raw == generated_encoder(FetchRequest, 12)(request)
    assert compiled("decoder", FetchRequest, 12)(memoryview(raw), 0) == (request, len(raw))
    repeated = encoder(FetchRequest, 12)(FetchRequest())[:-1] + b"\2\0\2\2a" + b"\0\2\2b"
    assert compiled("decoder", FetchRequest, 12)(memoryview(repeated), 0)[0].cluster_id == "b"


def test_large_messages_and_many_elements() -> None:
    topics = [TopicProduceData(f"topic-{n}", [PartitionProduceData(n, b"r" * n)]) for n in range(500)]
    request = ProduceRequest(topic_data=topics)
    for version in ProduceRequest.VERSIONS:  # type: ignore[attr-defined]
        raw = compiled("encoder", ProduceRequest, version)(request)
        assert raw == generated_encoder(ProduceRequest, version)(request)
        assert compiled("decoder", ProduceRequest, version)(memoryview(raw), 0) == (request, len(raw))


def test_decoded_messages_are_collected() -> None:
    raw = memoryview(encoder(ProduceRequest, 9)(produce_request()))
    decoded, _ = decoder(ProduceRequest, 9)(raw, 0)
    assert gc.is_tracked(decoded)
    assert gc.is_tracked(decoded.topic_data)
    decoded.topic_data.append(decoded)
    identity = id(decoded)
    del decoded
    gc.collect()
    assert not any(id(each) == identity for each in gc.get_objects() if type(each) is ProduceRequest)


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_huge_counts_allocate_nothing(cls: type, version: int) -> None:
    raw = encoder(cls, version)(cls())
    huge = b"\xff\xff\xff\xff\x07" if version >= cls.FLEXIBLE else b"\x7f\xff\xff\xff"  # type: ignore[attr-defined]
    frames = [memoryview(raw[:position] + huge + bytes(8)) for position in range(len(raw))]
    decode = decoder(cls, version)
    for frame in frames:
        outcome(decode, frame, 0)
    tracemalloc.start()
    try:
        for frame in frames:
            outcome(decode, frame, 0)
        assert tracemalloc.get_traced_memory()[1] < ALLOCATED_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_no_object_leaks() -> None:
    """Neither from complete messages nor from any place where decoding or encoding stops."""
    message = FetchResponse(
        responses=[FetchableTopicResponse("topic", partitions=[PartitionData(0, 1, 2, records=b"abc")] * 2)]
    )
    spoilt = FetchResponse(
        responses=[FetchableTopicResponse("topic", partitions=[PartitionData(0, "1", 2)] * 2)]  # type: ignore[arg-type]
    )
    raw = encoder(FetchResponse, 12)(message)
    frames = [memoryview(raw[:size]) for size in range(len(raw) + 1)]
    decode, encode, parts = (make(FetchResponse, 12) for make in (decoder, encoder, parts_encoder))

    def everything() -> None:
        for frame in frames:
            outcome(decode, frame, 0)
        for each in (message, spoilt):
            outcome(encode, each)
            outcome(parts, each)

    def blocks_after(rounds: int) -> int:
        for _ in range(rounds):
            everything()
        gc.collect()
        return sys.getallocatedblocks()

    blocks_after(3)
    before = blocks_after(3)
    assert blocks_after(20) - before < 20
