"""Start a broker, create a topic, produce and consume with a client people already use, show the result."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

TOPIC = "letters"
GROUP = "readers"
RECORDS = 10_000
PARTITIONS = 3
START_TIMEOUT_S = 30
CLIENT_TIMEOUT_S = 60

console = Console()


def start_broker(data: str) -> tuple[subprocess.Popen[str], str]:
    """A broker of its own on a free port; gives the process and where it listens."""
    command = [sys.executable, "-m", "odradek", "serve"]
    command += ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", f"log.dirs={data}"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert broker.stdout is not None
    for line in broker.stdout:
        found = re.search(r"listening on \S*?(127\.0\.0\.1:\d+)", line)
        if found:
            return broker, found[1]
    raise SystemExit(f"the broker ended with status {broker.wait(START_TIMEOUT_S)} before it listened")


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])[TOPIC].result(CLIENT_TIMEOUT_S)


def produce(bootstrap: str) -> float:
    """Send all records; gives the seconds it took until the last was acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    began = time.perf_counter()
    for number in range(RECORDS):
        producer.produce(TOPIC, key=f"castle-{number % 7}", value=f"letter {number}")
        producer.poll(0)
    if producer.flush(CLIENT_TIMEOUT_S):
        raise SystemExit("not every record was acknowledged")
    return time.perf_counter() - began


def consume(bootstrap: str) -> tuple[list[tuple[int, int, str, str]], int]:
    """Read as a member of a group and commit; gives the records and how far the group is behind."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    rows: list[tuple[int, int, str, str]] = []
    deadline = time.monotonic() + CLIENT_TIMEOUT_S
    while len(rows) < RECORDS and time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=1.0):
            if message.error():
                raise SystemExit(f"consume failed: {message.error()}")
            rows.append(
                (message.partition(), message.offset(), message.key().decode(), message.value().decode())
            )
    consumer.commit(asynchronous=False)
    lag = _lag(consumer)
    consumer.close()
    return rows, lag


def _lag(consumer: Consumer) -> int:
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    committed = consumer.committed(partitions, timeout=CLIENT_TIMEOUT_S)
    return sum(consumer.get_watermark_offsets(one)[1] - max(one.offset, 0) for one in committed)


def show(rows: list[tuple[int, int, str, str]]) -> None:
    table = Table(title=f"the first records of {TOPIC}")
    for column in ("partition", "offset", "key", "value"):
        table.add_column(column)
    for row in sorted(rows)[:5]:
        table.add_row(*map(str, row))
    console.print(table)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="odradek-demo-") as data:
        began = time.perf_counter()
        broker, bootstrap = start_broker(data)
        try:
            console.print(f"a broker listens on {bootstrap} after {time.perf_counter() - began:.2f} s")
            create_topic(bootstrap)
            console.print(f"topic {TOPIC} has {PARTITIONS} partitions")
            seconds = produce(bootstrap)
            console.print(f"{RECORDS:,} records acknowledged in {seconds:.2f} s (confluent-kafka, lz4)")
            rows, lag = consume(bootstrap)
            console.print(f"group {GROUP} has read and committed them: lag {lag}")
        finally:
            broker.send_signal(signal.SIGTERM)
            status = broker.wait(START_TIMEOUT_S)
        show(rows)
        size = sum(file.stat().st_size for file in Path(data).rglob("*.log"))
        console.print(
            f"{len(rows):,} records came back; {size:,} bytes on disk; the broker ended with {status}"
        )
        whole = {value for *_, value in rows} == {f"letter {n}" for n in range(RECORDS)}
        return 0 if whole and len(rows) == RECORDS and lag == 0 and status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
