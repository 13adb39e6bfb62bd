"""kafka-python 2, run in its own virtual environment: one JSON request in, one JSON response out.

Old releases of the protocol are spoken by pinning ``api_version``: (0, 8, 2) sends Produce 0 and Fetch 0 with
messages of magic 0, (0, 9) Produce 1 and Fetch 1, (0, 10, 0) version 2 of both with magic 1.
"""

import base64
import json
import logging
import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError


def packed(data):
    """Encode bytes as text."""
    return None if data is None else base64.b64encode(data).decode()


def unpacked(text):
    """Decode text to bytes."""
    return None if text is None else base64.b64decode(text)


def settings_of(request):
    """Return the client settings of a request."""
    settings = {"bootstrap_servers": request["bootstrap"]}
    if request.get("api_version"):
        settings["api_version"] = tuple(request["api_version"])
    return settings


def produce(request):
    """Produce messages; return offsets. (With acks=0 this client leaves bytes unsent when it closes.)"""
    producer = KafkaProducer(
        acks=request.get("acks", 1),
        compression_type=request.get("compression"),
        linger_ms=50,
        **settings_of(request),
    )
    futures = [
        producer.send(
            request["topic"],
            value=unpacked(value),
            key=unpacked(key),
            timestamp_ms=timestamp_ms,
            partition=request.get("partition", 0),
        )
        for key, value, timestamp_ms in request["messages"]
    ]
    offsets = [future.get(timeout=20).offset for future in futures]
    producer.close()
    return offsets


def consume(request):
    """Consume by assignment from an offset or the earliest; return [offset, key, value, timestamp] each."""
    consumer = KafkaConsumer(auto_offset_reset="earliest", enable_auto_commit=False, **settings_of(request))
    partition = TopicPartition(request["topic"], request.get("partition", 0))
    consumer.assign([partition])
    if request.get("start") is not None:
        consumer.seek(partition, request["start"])
    else:
        consumer.seek_to_beginning(partition)
    result = []
    for _ in range(100):
        for records in consumer.poll(timeout_ms=200).values():
            result += [
                [record.offset, packed(record.key), packed(record.value), record.timestamp]
                for record in records
            ]
        if len(result) >= request["count"]:
            break
    consumer.close()
    return result


def offsets(request):
    """Return the beginning and end offset."""
    consumer = KafkaConsumer(**settings_of(request))
    partition = TopicPartition(request["topic"], request.get("partition", 0))
    response = [
        consumer.beginning_offsets([partition])[partition],
        consumer.end_offsets([partition])[partition],
    ]
    consumer.close()
    return response


def create_topic(request):
    """Create a topic; return all topic names, once the brokers know it."""
    admin = KafkaAdminClient(**settings_of(request))
    admin.create_topics([NewTopic(request["topic"], 1, 1)])
    for _ in range(100):
        names = admin.list_topics()
        if request["topic"] in names:
            break
        time.sleep(0.05)
    admin.close()
    return names


ACTIONS = {"produce": produce, "consume": consume, "offsets": offsets, "create_topic": create_topic}


def main():
    """Read a request, write its response."""
    logging.basicConfig(level=logging.ERROR)
    request = json.load(sys.stdin)
    try:
        response = {"response": ACTIONS[request["action"]](request)}
    except KafkaError as error:
        response = {"error": getattr(error, "errno", -1000), "message": repr(error)}
    json.dump(response, sys.stdout)


main()
