"""Iteration over a consumer: exactly the records handed to the loop count as consumed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.clients.client_apis import Clients

from odradek import NewTopic, TopicPartition


def reader(clients: Clients, bootstrap: str, topic: str, **options: Any) -> Any:
    """Return a consumer of a topic with six records."""
    producer = clients.producer(bootstrap_servers=bootstrap)
    producer.send_many(topic, [b"%d" % number for number in range(6)], partition=0).result(30)
    consumer = clients.consumer(
        bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", **options
    )
    consumer.subscribe([topic])
    return consumer


def committed(clients: Clients, bootstrap: str, topic: str) -> int:
    offsets = clients.admin(bootstrap_servers=bootstrap).list_group_offsets(topic)
    return int(offsets[TopicPartition(topic, 0)].offset)


def test_abandoned_loop_commits_consumed_records(clients: Clients, bootstrap: str, topic: str) -> None:
    consumer = reader(clients, bootstrap, topic)
    for record in consumer:
        if record.offset == 2:
            break
    consumer.close()
    assert committed(clients, bootstrap, topic) == 3


def test_commit_inside_loop_covers_consumed_records(clients: Clients, bootstrap: str, topic: str) -> None:
    consumer = reader(clients, bootstrap, topic, enable_auto_commit=False)
    offsets = []
    for record in consumer:
        consumer.commit()
        offsets.append(committed(clients, bootstrap, topic))
        if record.offset == 2:
            break
    assert offsets == [1, 2, 3]


def test_poll_continues_after_loop(clients: Clients, bootstrap: str, topic: str) -> None:
    consumer = reader(clients, bootstrap, topic)
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 3:
            break
    seen += [record.offset for record in consumer.poll(10)]
    assert seen == [0, 1, 2, 3, 4, 5]


PARTITIONS = 3
RECORDS = 2000


def create_records(clients: Clients, bootstrap: str, topic: str) -> list[TopicPartition]:
    clients.admin(bootstrap_servers=bootstrap).create_topics([NewTopic(topic, PARTITIONS)])
    producer = clients.producer(bootstrap_servers=bootstrap)
    for partition in range(PARTITIONS):
        values = [b"%d" % number for number in range(RECORDS)]
        producer.send_many(topic, values, partition=partition).result(30)
    return [TopicPartition(topic, partition) for partition in range(PARTITIONS)]


@pytest.mark.parametrize("seed", range(3))
def test_loops_agree_with_positions(clients: Clients, bootstrap: str, topic: str, seed: int) -> None:
    rng = random.Random(seed)
    partitions = create_records(clients, bootstrap, topic)
    consumer = clients.consumer(
        bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    consumer.assign(partitions)
    positions = dict.fromkeys(partitions, 0)

    def check(record: Any) -> None:
        partition = TopicPartition(topic, record.partition)
        assert (record.offset, record.value) == (positions[partition], b"%d" % positions[partition])
        positions[partition] += 1

    for _ in range(60):
        count = min(rng.choice((1, 5, 100)), sum(RECORDS - offset for offset in positions.values()))
        for record in consumer if count else ():
            check(record)
            count -= 1
            if not count:
                break
        partition = rng.choice(partitions)
        match rng.randrange(5):
            case 0:
                for record in consumer.poll(0.1, rng.choice((1, 50))):
                    check(record)
            case 1:
                positions[partition] = rng.randrange(RECORDS)
                consumer.seek(partition, positions[partition])
            case 2:
                consumer.commit()
            case 3:
                consumer.pause(partition)
                consumer.resume(partition)
            case _:
                assert consumer.position(partition) == positions[partition]
    consumer.commit()
    offsets = consumer.committed(*partitions)
    committed_offsets = {
        partition: None if offset is None else offset.offset for partition, offset in offsets.items()
    }
    assert committed_offsets == positions
