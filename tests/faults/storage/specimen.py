"""A data directory with known records, and a reader that verifies everything.

The directory is written by a broker in memory: several segments, compressed and plain batches, idempotent
producers, an aborted transaction, a log start offset moved by DeleteRecords, and a compacted topic. Another
broker starts on a copy with one modification, and what it serves is compared with what was written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c

from odradek.model.protocol_enums import Compression
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.records.batch import BatchBuilder
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.records.layout import Record
from odradek.testing.broker import Client, MemoryBroker, MemoryCluster
from odradek.testing.files import MemoryFileSystem
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, FETCH, LIST_OFFSETS, CREATE_TOPICS, DELETE_RECORDS = 0, 1, 2, 19, 21
TOPIC = "orders"
STATES = "states"
"""A compacted topic."""
FIRST_TIMESTAMP = 1_700_000_000_000
ABORT_AFTER = 18
"""The batch after which a transaction is started and aborted."""
START = 13
"""Log start offset after DeleteRecords."""
CRC_POSITION, AFTER_CRC = 17, 21
READS_MAX = 200
SETTINGS = {"broker.id": "0"}
"""Default of ``odradek serve``."""


@dataclass
class Specimen:
    """Files by path, and acknowledged batches by base offset."""

    files: Mapping[str, bytes]
    batches: Mapping[int, bytes]
    end_offset: int
    cluster: MemoryCluster
    states: Mapping[int, Record] = field(default_factory=dict)
    """Records of the compacted topic, by offset."""

    def on_files(self, changed: Mapping[str, bytes | None]) -> MemoryFileSystem:
        """Return the files with some replaced or (None) missing."""
        specimen_files = MemoryFileSystem(self.cluster.clock.wall_ms)
        for path, content in {**self.files, **changed}.items():
            specimen_files.make_directories(path.rpartition("/")[0])
            if content is not None:
                file = specimen_files.open(path, create=True)
                file.append(content)
                file.close()
        self.cluster.files = specimen_files
        return specimen_files


@dataclass
class Served:
    """The result of reading a partition."""

    batches: dict[int, bytes] = field(default_factory=dict)
    """Complete batches by fetch offset."""
    problem: str | None = None
    """Reason why the reader stopped before the end: an error code, or a failed check."""
    start: int = -1
    end: int = -1


def files_of(files: MemoryFileSystem, directory: str = "/data") -> dict[str, bytes]:
    """Return every file below a directory."""
    contents: dict[str, bytes] = {}
    for name in files.list_names(directory):
        path = f"{directory}/{name}"
        if files.is_directory(path):
            contents |= files_of(files, path)
        elif name != ".lock":
            contents[path] = files.read_whole(path)
    return contents


def batch_of(number: int) -> bytes:
    """Encode batch ``number``: one to three records, in turn compressed or of an idempotent producer."""
    how: dict[str, Any] = {}
    if number % 3 == 1:
        how = {"compression": (Compression.GZIP, Compression.ZSTD, Compression.LZ4)[number // 3 % 3]}
    elif number % 3 == 2:
        how = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number // 3 * 2}
    builder = BatchBuilder(**how)
    count = 2 if "producer_id" in how else 1 + number % 3
    for index in range(count):
        timestamp = FIRST_TIMESTAMP + 10 * number + index
        builder.append(timestamp, b"key %d" % number, b"value %d of %d" % (index, number))
    return builder.build()


async def produce(
    client: Client, records: bytes, topic: str = TOPIC, transactional_id: str | None = None
) -> Any:
    """Append with acks=all; return the partition's response."""
    parts = [TopicProduceData(topic, [PartitionProduceData(0, bytearray(records))])]
    response = await client.request(PRODUCE, 11, ProduceRequest(transactional_id, -1, 30_000, parts))
    return response.responses[0].partition_responses[0]


async def create(client: Client, topic: str = TOPIC, **settings: str) -> int:
    """Create a topic with one partition; return the error code."""
    configs = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
    topic_request = CreatableTopic(topic, 1, 1, [], configs)
    response = await client.request(CREATE_TOPICS, 7, CreateTopicsRequest([topic_request]))
    return int(response.topics[0].error_code)


async def make_specimen(cluster: MemoryCluster, batches: int, *, clean: bool) -> Specimen:
    """Create a data directory as left by a clean shutdown, or (not ``clean``) by a crash of the process."""
    broker = await cluster.start({**SETTINGS, "transaction.partition.verification.enable": "false"})
    client = await broker.connect()
    settings = {"segment_bytes": "900", "index_interval_bytes": "150", "retention_ms": "-1"}
    assert await create(client, **settings) == 0
    written = {}
    for number in range(batches):
        entry = await produce(client, batch_of(number))
        assert entry.error_code == 0
        written[entry.base_offset] = batch_of(number)
        if number == ABORT_AFTER:
            await _abort_a_transaction(client, broker, written)
    end_offset = entry.base_offset + struct.unpack_from(">i", batch_of(number), 23)[0] + 1
    await _fill_states(client)
    part = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, START)])
    await client.request(DELETE_RECORDS, 2, DeleteRecordsRequest([part], 1000))
    await cluster.clock.sleep_ms(120_000)  # so that every checkpoint was written, and compaction is done
    states = await read_all(client, broker, STATES)
    records = {record.offset: record for batch in states.batches.values() for record in codec.decode(batch)}
    if clean:
        await broker.stop()
        kept = files_of(cluster.files)
    else:
        kept = files_of(cluster.files)
        await broker.stop()
    return Specimen(kept, written, end_offset, cluster, records)


async def _abort_a_transaction(client: Client, broker: MemoryBroker, written: dict[int, bytes]) -> None:
    """Write and abort a transaction: another kind of batch and of file."""
    builder = BatchBuilder(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    for index in range(2):
        builder.append(FIRST_TIMESTAMP, b"key", b"aborted %d" % index)
    entry = await produce(client, builder.build(), transactional_id="specimen")
    assert entry.error_code == 0
    written[entry.base_offset] = builder.build()
    replicas = broker.broker._replica_manager  # what a coordinator does, without its topic among the files
    partition = replicas.get_leader_partition(TOPIC, 0)
    marker = EndTransactionMarker(ControlRecordType.ABORT, 0)
    at = partition.append_end_marker(marker, 9, 0, FIRST_TIMESTAMP).first_offset
    replicas.complete_delayed_fetches(partition)
    [ending] = whole_batches((await fetch(client, broker, at)).records)
    written[at] = ending


async def _fill_states(client: Client) -> None:
    settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_bytes": "400"}
    assert await create(client, STATES, **settings) == 0
    for number in range(20):
        builder = BatchBuilder()
        builder.append(FIRST_TIMESTAMP + number, b"state %d" % (number % 5), b"value %d" % number)
        assert (await produce(client, builder.build(), STATES)).error_code == 0


async def fetch(client: Client, broker: MemoryBroker, offset: int, topic: str = TOPIC) -> Any:
    """Fetch one page; return the partition's response."""
    part = FetchPartition(0, fetch_offset=offset, partition_max_bytes=600)
    metadata = broker.broker.metadata_cache.topic(topic)
    assert metadata is not None
    asked = FetchTopic(topic_id=metadata.topic_id, partitions=[part])
    request = FetchRequest(max_bytes=1 << 20, max_wait_ms=0, min_bytes=1, topics=[asked])
    return (await client.request(FETCH, 17, request)).responses[0].partitions[0]


async def list_offset(client: Client, timestamp: int, topic: str = TOPIC) -> tuple[int, int]:
    """Return error code and offset of ListOffsets for a timestamp."""
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp)])
    response = await client.request(LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [asked]))
    entry = response.topics[0].partitions[0]
    return entry.error_code, entry.offset


def whole_batches(records: Any) -> Iterator[bytes]:
    """Split a fetched buffer into batches as a client does; an incomplete last one is dropped."""
    content = records.read() if isinstance(records, FileSlice) else bytes(records or b"")
    position = 0
    while position + 12 <= len(content):
        length = struct.unpack_from(">i", content, position + 8)[0]
        if length < 14:
            yield content[position:]
            return
        if position + 12 + length > len(content):
            return
        yield content[position : position + 12 + length]
        position += 12 + length


def is_whole(batch: bytes) -> bool:
    """Return whether a batch of magic 2 passes the checks of every client."""
    if len(batch) < 61 or batch[16] != 2 or len(batch) != 12 + struct.unpack_from(">i", batch, 8)[0]:
        return False
    return crc32c(batch[AFTER_CRC:]) == struct.unpack_from(">I", batch, CRC_POSITION)[0]


async def read_all(client: Client, broker: MemoryBroker, topic: str = TOPIC) -> Served:
    """Read as a client does, from start to end, until a check fails."""
    served = Served()
    code, served.start = await list_offset(client, -2, topic)
    if code == 0:
        code, served.end = await list_offset(client, -1, topic)
    if code:
        served.problem = f"refused: {code}"
        return served
    offset = served.start
    for _ in range(READS_MAX):
        entry = await fetch(client, broker, offset, topic)
        if entry.error_code:
            served.problem = f"refused: {entry.error_code}"
            return served
        before = offset
        for batch in whole_batches(entry.records):
            if not is_whole(batch):
                served.problem = "seen by the reader"
                return served
            base_offset = struct.unpack_from(">q", batch)[0]
            served.batches[base_offset] = batch
            offset = base_offset + struct.unpack_from(">i", batch, 23)[0] + 1
        if offset >= served.end:
            return served
        if offset <= before:
            served.problem = "stuck"
            return served
    served.problem = "endless"
    return served
