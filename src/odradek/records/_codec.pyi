"""Types of the compiled record codec; what each function does is said in ``_codec_py``."""

from collections.abc import Iterable

from odradek.records.layout import BatchHeader, FilteredRecords, FilterResult, Record, Walked
from odradek.records.pure.consumer import ColumnBuilder as ColumnBuilder
from odradek.records.pure.consumer import ConsumerRecord as ConsumerRecord
from odradek.records.pure.consumer import RecordReader as RecordReader
from odradek.records.pure.consumer import allocate_fetch_buffer as allocate_fetch_buffer
from odradek.records.pure.producer import BytesColumn as BytesColumn
from odradek.records.pure.producer import Delivery as Delivery
from odradek.records.pure.producer import HeadersColumn as HeadersColumn
from odradek.records.pure.producer import NumbersColumn as NumbersColumn
from odradek.records.pure.producer import ProducerBatch as ProducerBatch
from odradek.records.pure.producer import RecordAppender as RecordAppender
from odradek.records.pure.producer import RecordColumns as RecordColumns
from odradek.records.pure.producer import murmur2 as murmur2
from odradek.records.pure.producer import partition_for_key as partition_for_key
from odradek.records.pure.producer import partitions_for_keys as partitions_for_keys
from odradek.records.pure.producer import record_size_upper_bound as record_size_upper_bound
from odradek.records.pure.producer import refused_delivery as refused_delivery

Buffer = bytes | bytearray | memoryview

def pure_asked() -> bool: ...
def crc32c(data: Buffer, value: int = 0) -> int: ...
def crc32c_portable(data: Buffer, value: int = 0) -> int: ...
def read_headers(buffer: Buffer, position: int = 0) -> list[BatchHeader]: ...
def accept_in_place(
    buffer: Buffer,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    append_time: int,
    before_max_ms: int,
    after_max_ms: int,
    bytes_max: int,
    compacted: bool,
    from_client: bool,
    records: Buffer | None = None,
) -> BatchHeader | None: ...
def place(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None: ...
def stamp(
    buffer: bytearray | memoryview, position: int, size: int, attributes: int, max_timestamp: int
) -> int: ...
def walk(
    records: Buffer,
    count: int,
    base_timestamp: int,
    timestamp_fixed: bool,
    earliest_ms: int,
    latest_ms: int,
    compacted: bool,
    faults_max: int,
) -> Walked: ...
def decode_records(
    records: Buffer, count: int, base_offset: int, base_timestamp: int, timestamp_fixed: bool
) -> list[Record]: ...

class BatchBuffer:
    base_timestamp: int | None
    max_timestamp: int
    last_offset_delta: int
    count: int
    def __init__(self, base_timestamp: int | None = None) -> None: ...
    @property
    def size_bytes(self) -> int: ...
    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, Buffer | None]] = (),
        offset_delta: int = -1,
    ) -> int: ...
    def records(self) -> bytes: ...

def header_at(buffer: Buffer, position: int) -> BatchHeader | None: ...
def siphash(data: bytes, seed: bytes) -> bytes: ...

class OffsetMap:
    def __init__(self, slots: int, seed: bytes) -> None: ...
    @property
    def slots(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def latest_offset(self) -> int: ...
    def put(self, key: Buffer, offset: int) -> None: ...
    def get(self, key: Buffer) -> int: ...
    def reach(self, offset: int) -> None: ...
    def clear(self) -> None: ...
    def put_batches(self, buffer: Buffer, position: int, from_offset: int, count_max: int) -> int: ...
    def put_records(
        self, records: Buffer, count: int, base_offset: int, from_offset: int, count_max: int
    ) -> bool: ...

def filter_batches(
    buffer: Buffer,
    position: int,
    keys: OffsetMap,
    kept_last_offsets: Buffer,
    now_ms: int,
    delete_retention_ms: int,
    out: bytearray,
) -> FilterResult: ...
def filter_records(
    records: Buffer,
    header: BatchHeader,
    keys: OffsetMap | None,
    now_ms: int,
    delete_retention_ms: int,
    wants_horizon: bool,
) -> FilteredRecords: ...
