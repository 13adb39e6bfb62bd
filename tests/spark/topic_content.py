"""What is in a topic, for tests that compare it with what was written."""

from __future__ import annotations

from odradek import Admin, Consumer, ConsumerRecord, NewTopic, TopicPartition


def make_topic(bootstrap: str, name: str, partitions_count: int = 1) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions_count, 1)])


def committed_records(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """All records that a reader of committed ones is given, partition by partition."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        places = [TopicPartition(topic, one.partition) for one in consumer.partitions_for(topic)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        found: list[ConsumerRecord] = []
        while any(consumer.position(place) < ends[place] for place in places):
            found += consumer.poll(timeout_s=1)
    return sorted(found, key=lambda record: (record.partition, record.offset))


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """The values of all committed records, sorted."""
    return sorted(record.value for record in committed_records(bootstrap, topic))
