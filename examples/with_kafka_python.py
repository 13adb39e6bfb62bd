"""Produce and consume with kafka-python: python examples/with_kafka_python.py [HOST:PORT]"""

from __future__ import annotations

import sys

from kafka import KafkaConsumer, KafkaProducer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
TOPIC = "postcards"


def main() -> None:
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
    for number in range(3):
        producer.send(TOPIC, key=b"castle", value=f"postcard {number}".encode())
    producer.flush()
    producer.close()

    options = {"group_id": "collectors", "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, **options)
    for _ in range(3):
        record = next(consumer)
        sys.stdout.write(f"{record.offset} {record.key.decode()} {record.value.decode()}\n")
    consumer.close()


if __name__ == "__main__":
    main()
