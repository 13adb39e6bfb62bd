"""An idempotent producer that is idle while a broker is replaced.

A broker that takes over a partition knows its sequence numbers from the producer snapshot of its predecessor
alone. The batches of a busy producer, replicated before the broker leads, would hide a wrong snapshot. A
leader that knows nothing of a producer accepts any sequence number: so the last batch is sent twice, too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Producer
from tests.mixed.harness.load import read_values
from tests.mixed.harness.log_files import Batch, read_batches
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.support.kio_requests import produce_request, produced_partition
from tests.support.raw_connection import RawConnection

SECONDS_MAX = 60.0
PRODUCER = struct.Struct(">qhi")
PRODUCER_AT = 43
OFFSET_BYTES = 8


class ProducerFields(NamedTuple):
    """The fields of a batch by which a leader recognizes doubled and missing batches."""

    producer_id: int
    epoch: int
    base_sequence: int


class RareProducer:
    """Sends one record to each partition at a time."""

    def __init__(self, cluster: MixedCluster, topic: str, partitions: Sequence[int]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._count = 0
        settings = {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 2}
        self._producer = Producer(settings)

    def send(self) -> None:
        for partition in self._partitions:
            self._producer.produce(self._topic, b"%d" % self._count, partition=partition)
        if self._producer.flush(SECONDS_MAX):
            raise TimeoutError(f"records must be acknowledged within {SECONDS_MAX} s")
        self._count += 1

    @property
    def has_sent(self) -> bool:
        return self._count > 0

    def repeat(self) -> None:
        """Send the last batch of each partition again, as after a lost answer: it must not be written."""
        for partition in self._partitions:
            leader = self._cluster.znodes.partition_state(self._topic, partition)["leader"]
            last = read_batches(self._cluster.replica_path(leader, self._topic, partition))[-1]
            sent = bytes(OFFSET_BYTES) + last.data[OFFSET_BYTES:]
            with RawConnection(self._cluster.address(leader)) as connection:
                response = connection.exchange(produce_request(self._topic, sent, partition=partition))
            result = produced_partition(response)
            assert (int(result.error_code), int(result.base_offset)) == (0, last.base_offset), (
                f"{self._topic}-{partition}: broker {leader} does not know its last batch: {result}"
            )

    def check(self) -> None:
        """Check that the records are there once, and that no broker refused a sequence number."""
        for partition in self._partitions:
            values = read_values(self._cluster.bootstrap, self._topic, partition)
            assert values == [b"%d" % number for number in range(self._count)]
            for broker in BROKERS:
                batches = read_batches(self._cluster.replica_path(broker, self._topic, partition))
                check_sequences([read_producer(batch) for batch in batches])


def read_producer(batch: Batch) -> ProducerFields:
    return ProducerFields(*PRODUCER.unpack_from(batch.data, PRODUCER_AT))


def check_sequences(batches: Sequence[ProducerFields]) -> None:
    """Check that batches of one record each are of one producer, which never began a new epoch."""
    producer_id = batches[0].producer_id
    expected = [ProducerFields(producer_id, 0, sequence) for sequence in range(len(batches))]
    assert list(batches) == expected, f"a producer had to begin again: {batches}"
