"""Produce and consume with aiokafka: python examples/with_aiokafka.py [HOST:PORT]"""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
TOPIC = "telegrams"


async def main() -> None:
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(3):
            await producer.send_and_wait(TOPIC, key=b"castle", value=f"telegram {number}".encode())

    options = {"group_id": "operators", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, **options) as consumer:
        for _ in range(3):
            record = await consumer.getone()
            sys.stdout.write(f"{record.offset} {record.key.decode()} {record.value.decode()}\n")


if __name__ == "__main__":
    asyncio.run(main())
