"""Helpers to read the committed records of a topic."""

from __future__ import annotations

from odradek import Admin, Consumer, ConsumerRecord, NewTopic, TopicPartition


def make_topic(bootstrap: str, name: str, partitions_count: int = 1) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions_count, 1)])


def committed_records(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """Return all committed records, by partition and offset."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        records: list[ConsumerRecord] = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            records += consumer.poll(timeout_s=1)
    return sorted(records, key=lambda record: (record.partition, record.offset))


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """Return the values of all committed records, sorted."""
    return sorted(record.value or b"" for record in committed_records(bootstrap, topic))
