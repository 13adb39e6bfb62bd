"""Partitions of a broker process: records with known values, appended and read over raw connections."""

from __future__ import annotations

import struct
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.faults.storage.specimen import is_whole, whole_batches
from tests.support.broker import Broker
from tests.support.kio_requests import (
    create_topics_request,
    fetch,
    fetched_partition,
    kio_requests,
    produce_request,
)
from tests.support.raw_connection import RawConnection
from tests.support.record_batches import HandMadeBatch, record

from odradek.records import codec

NOT_YET = (3, 5, 6)
"""Error codes of a partition without a leader yet."""
EARLIEST_TIMESTAMP = -2

list_offsets = kio_requests("list_offsets", 5)


def batch_of(*values: bytes) -> bytes:
    """Encode a batch with these values."""
    return HandMadeBatch([record(index, value) for index, value in enumerate(values)]).build()


def create(
    connection: RawConnection, topic: str, partitions: int = 1, configs: dict[str, str | None] | None = None
) -> int:
    """Create a topic; return the error code."""
    (created,) = connection.exchange(create_topics_request(topic, partitions, configs)).topics
    return int(created.error_code)


def append(connection: RawConnection, topic: str, partition: int, batch: bytes, acks: int = -1) -> Any:
    """Produce one batch; return the partition's response."""
    request = produce_request(topic, batch, acks=acks, partition=partition)
    ((entry,),) = (response.partition_responses for response in connection.exchange(request).responses)
    return entry


def delete_records(connection: RawConnection, topic: str, before: int, partition: int = 0) -> int:
    """Delete the records before an offset; return the error code."""
    delete = kio_requests("delete_records", 2)
    partition_request = delete.DeleteRecordsPartition(partition_index=partition, offset=before)
    request = delete.DeleteRecordsRequest(
        topics=(delete.DeleteRecordsTopic(name=topic, partitions=(partition_request,)),),
        timeout=timedelta(seconds=10),
    )
    return int(connection.exchange(request).topics[0].partitions[0].error_code)


def fetch_page(connection: RawConnection, topic: str, partition: int, offset: int) -> Any:
    """Fetch; return the partition's response."""
    partition_request = fetch.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    request = fetch.FetchRequest(
        max_wait=timedelta(0),
        min_bytes=0,
        max_bytes=1 << 26,
        topics=(fetch.FetchTopic(topic=topic, partitions=(partition_request,)),),
        forgotten_topics_data=(),
    )
    return fetched_partition(connection.exchange(request))


def first_offset(connection: RawConnection, topic: str, partition: int = 0) -> int:
    """Return the log start offset; raises ValueError if it is not returned."""
    partition_request = list_offsets.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=-1, timestamp=EARLIEST_TIMESTAMP
    )
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(list_offsets.ListOffsetsTopic(name=topic, partitions=(partition_request,)),),
    )
    while True:
        entry = connection.exchange(request).topics[0].partitions[0]
        if entry.error_code == 0:
            return int(entry.offset)
        if entry.error_code not in NOT_YET:
            raise ValueError(f"{topic}-{partition} does not tell its start: error {entry.error_code}")


def read_records(
    connection: RawConnection,
    topic: str,
    partition: int = 0,
    offset: int = 0,
    *,
    may_have_holes: bool = False,
) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Return keys and values by offset, with checksums verified; raises ValueError."""
    records: dict[int, tuple[bytes | None, bytes | None]] = {}
    while True:
        entry = fetch_page(connection, topic, partition, offset)
        if entry.error_code in NOT_YET:
            continue
        if entry.error_code:
            raise ValueError(f"{topic}-{partition} at {offset}: error {entry.error_code}")
        before = offset
        for batch in whole_batches(entry.records):
            if not is_whole(batch):
                raise ValueError(f"{topic}-{partition} at {offset}: a batch with a wrong checksum")
            records |= {record.offset: (record.key, record.value) for record in codec.decode(batch)}
            offset = struct.unpack_from(">q", batch)[0] + struct.unpack_from(">i", batch, 23)[0] + 1
        if offset == before:
            if offset != entry.high_watermark and not may_have_holes:
                raise ValueError(f"{topic}-{partition} ends at {offset}, not at {entry.high_watermark}")
            return records


def read_values(connection: RawConnection, topic: str, partition: int = 0) -> dict[int, bytes | None]:
    """Return all values by offset."""
    return {offset: value for offset, (_, value) in read_records(connection, topic, partition).items()}


def log_file(broker: Broker, topic: str, partition: int) -> Path:
    """Return the path of a partition's first segment."""
    return broker.directory / "data" / f"{topic}-{partition}" / f"{0:020d}.log"
