"""kafka-python 2, run by the Python of an environment of its own: one JSON question in, one JSON answer out.

Old releases of the protocol are spoken by pinning ``api_version``: (0, 8, 2) sends Produce 0 and Fetch 0 with
messages of magic 0, (0, 9) Produce 1 and Fetch 1, (0, 10, 0) version 2 of both with magic 1.
"""

import base64
import json
import logging
import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError


def packed(data):
    """Bytes as text."""
    return None if data is None else base64.b64encode(data).decode()


def unpacked(text):
    """Text as bytes."""
    return None if text is None else base64.b64decode(text)


def settings_of(question):
    """What every client of this question gets."""
    settings = {"bootstrap_servers": question["bootstrap"]}
    if question.get("api_version"):
        settings["api_version"] = tuple(question["api_version"])
    return settings


def produce(question):
    """Produce messages; gives offsets. (With acks=0 this client leaves bytes unsent when it closes.)"""
    producer = KafkaProducer(
        acks=question.get("acks", 1),
        compression_type=question.get("compression"),
        linger_ms=50,
        **settings_of(question),
    )
    futures = [
        producer.send(
            question["topic"],
            value=unpacked(value),
            key=unpacked(key),
            timestamp_ms=timestamp_ms,
            partition=question.get("partition", 0),
        )
        for key, value, timestamp_ms in question["messages"]
    ]
    offsets = [future.get(timeout=20).offset for future in futures]
    producer.close()
    return offsets


def consume(question):
    """Consume by assignment from an offset or the earliest; gives [offset, key, value, timestamp] each."""
    consumer = KafkaConsumer(auto_offset_reset="earliest", enable_auto_commit=False, **settings_of(question))
    partition = TopicPartition(question["topic"], question.get("partition", 0))
    consumer.assign([partition])
    if question.get("start") is not None:
        consumer.seek(partition, question["start"])
    else:
        consumer.seek_to_beginning(partition)
    found = []
    for _ in range(100):
        for records in consumer.poll(timeout_ms=200).values():
            found += [[one.offset, packed(one.key), packed(one.value), one.timestamp] for one in records]
        if len(found) >= question["count"]:
            break
    consumer.close()
    return found


def offsets(question):
    """The first and the next offset."""
    consumer = KafkaConsumer(**settings_of(question))
    partition = TopicPartition(question["topic"], question.get("partition", 0))
    answer = [
        consumer.beginning_offsets([partition])[partition],
        consumer.end_offsets([partition])[partition],
    ]
    consumer.close()
    return answer


def create_topic(question):
    """Create a topic; gives all topic names."""
    admin = KafkaAdminClient(**settings_of(question))
    admin.create_topics([NewTopic(question["topic"], 1, 1)])
    names = admin.list_topics()
    admin.close()
    return names


ACTIONS = {"produce": produce, "consume": consume, "offsets": offsets, "create_topic": create_topic}


def main():
    """Read a question, answer it."""
    logging.basicConfig(level=logging.ERROR)
    question = json.load(sys.stdin)
    try:
        answer = {"answer": ACTIONS[question["action"]](question)}
    except KafkaError as error:
        answer = {"error": getattr(error, "errno", -1000), "words": repr(error)}
    json.dump(answer, sys.stdout)


main()
