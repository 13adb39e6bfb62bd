"""librdkafka without a Python object per message: the library of confluent-kafka through ctypes.

A producer in Python would be the limit of every run with small messages. `Producer.put` enqueues thousands of
messages in one call; `Consumer.take` drops them in C. Only the functions used by the loads are bound.
Payloads are not copied: the caller keeps them alive until `flush`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import confluent_kafka

PRODUCER, CONSUMER = 0, 1
MSG_BLOCK, MSG_PARTITION = 0x4, 0x8
OFFSET_BEGINNING = -2
ERROR_TEXT_BYTES = 512


class Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("_private", c_void_p),
    )


def _load() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    libraries = sorted(folder.glob("librdkafka-*.so*"))
    if not libraries:
        raise OSError(f"confluent-kafka {confluent_kafka.__version__} does not bundle librdkafka")
    library = ctypes.CDLL(str(libraries[0]))
    for name, result, arguments in (
        ("rd_kafka_conf_new", c_void_p, ()),
        ("rd_kafka_conf_set", c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
        ("rd_kafka_new", c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
        ("rd_kafka_topic_new", c_void_p, (c_void_p, c_char_p, c_void_p)),
        ("rd_kafka_produce_batch", c_int, (c_void_p, c_int32, c_int, POINTER(Message), c_int)),
        ("rd_kafka_flush", c_int, (c_void_p, c_int)),
        ("rd_kafka_outq_len", c_int, (c_void_p,)),
        ("rd_kafka_init_transactions", c_void_p, (c_void_p, c_int)),
        ("rd_kafka_begin_transaction", c_void_p, (c_void_p,)),
        ("rd_kafka_commit_transaction", c_void_p, (c_void_p, c_int)),
        ("rd_kafka_error_string", c_char_p, (c_void_p,)),
        ("rd_kafka_queue_new", c_void_p, (c_void_p,)),
        ("rd_kafka_consume_start_queue", c_int, (c_void_p, c_int32, c_int64, c_void_p)),
        ("rd_kafka_consume_callback_queue", c_int, (c_void_p, c_int, c_void_p, c_void_p)),
        (
            "rd_kafka_query_watermark_offsets",
            c_int,
            (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
        ),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_rd = _load()


class Client:
    """A handle and one topic, not freed before the process exits."""

    def __init__(self, kind: int, topic: str, settings: Mapping[str, str]) -> None:
        text = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
        conf = _rd.rd_kafka_conf_new()
        for key, value in settings.items():
            if _rd.rd_kafka_conf_set(conf, key.encode(), value.encode(), text, ERROR_TEXT_BYTES):
                raise ValueError(text.value.decode())
        self._handle = _rd.rd_kafka_new(kind, conf, text, ERROR_TEXT_BYTES)
        if not self._handle:
            raise ValueError(text.value.decode())
        self._name = topic.encode()
        self._topic = _rd.rd_kafka_topic_new(self._handle, self._name, None)

    def end_offset(self, partition: int) -> int:
        low, high = c_int64(), c_int64()
        code = _rd.rd_kafka_query_watermark_offsets(
            self._handle, self._name, partition, ctypes.byref(low), ctypes.byref(high), 10_000
        )
        if code:
            raise ConnectionError(f"end offset of {partition}: librdkafka error {code}")
        return high.value


class Producer(Client):
    """Sends a fixed set of messages repeatedly, round robin over the partitions."""

    def __init__(self, topic: str, settings: Mapping[str, str], values: list[bytes], partitions: int) -> None:
        super().__init__(PRODUCER, topic, settings)
        self._values = values
        self._count = len(values)
        self._messages = (Message * self._count)()
        for index, value in enumerate(values):
            message = self._messages[index]
            message.payload = ctypes.cast(c_char_p(value), c_void_p)
            message.len = len(value)
            message.partition = index % partitions

    def put(self) -> int:
        """Enqueue the set, blocking while librdkafka's queue is full; return the number enqueued."""
        return int(
            _rd.rd_kafka_produce_batch(
                self._topic, -1, MSG_BLOCK | MSG_PARTITION, self._messages, self._count
            )
        )

    def flush(self, timeout_ms: int) -> int:
        """Wait for acknowledgements; return the number still outstanding."""
        _rd.rd_kafka_flush(self._handle, timeout_ms)
        return int(_rd.rd_kafka_outq_len(self._handle))

    def init_transactions(self, timeout_ms: int) -> None:
        _raise_on_error(_rd.rd_kafka_init_transactions(self._handle, timeout_ms))

    def begin_transaction(self) -> None:
        _raise_on_error(_rd.rd_kafka_begin_transaction(self._handle))

    def commit_transaction(self, timeout_ms: int) -> None:
        """Commit the transaction after all acknowledgements."""
        _raise_on_error(_rd.rd_kafka_commit_transaction(self._handle, timeout_ms))


def _raise_on_error(error: int | None) -> None:
    if error:
        raise ConnectionError(_rd.rd_kafka_error_string(error).decode())


class Consumer(Client):
    """Reads partitions from the beginning, without a group."""

    def __init__(self, topic: str, settings: Mapping[str, str], partitions: int) -> None:
        super().__init__(CONSUMER, topic, settings)
        self._partitions = partitions
        self._queue = _rd.rd_kafka_queue_new(self._handle)
        # Any C function of a message pointer without side effects serves as the callback.
        self._drop = ctypes.cast(_rd.rd_kafka_message_errstr, c_void_p)

    def begin(self) -> None:
        for partition in range(self._partitions):
            if _rd.rd_kafka_consume_start_queue(self._topic, partition, OFFSET_BEGINNING, self._queue):
                raise ConnectionError(f"cannot start partition {partition}")

    def take(self, timeout_ms: int) -> int:
        """Receive and drop messages during the timeout; return their number."""
        return int(_rd.rd_kafka_consume_callback_queue(self._queue, timeout_ms, self._drop, None))
