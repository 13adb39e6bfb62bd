"""A pipeline for tests: its file, its topic, its checkpoint as written by Spark, and its commands."""

from __future__ import annotations

import datetime
import json
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, OffsetSpec
from typer.testing import CliRunner, Result

from odradek import Admin, NewTopic, Producer, TopicPartition
from odradek.commands import app

HOUR_MS = 3_600_000


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def iso_time(at_ms: int) -> str:
    """Return a time in the form of command arguments."""
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).isoformat()


class Pipeline:
    """A pipeline file, its topic with two partitions, and its commands."""

    def __init__(self, directory: Path, bootstrap: str, topic: str) -> None:
        self.directory, self.bootstrap, self.topic = directory, bootstrap, topic
        self.file = directory / "orders.toml"
        self.checkpoint = directory / "checkpoint"
        self.group = f"group-of-{topic}"[:200]
        self.write()
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(topic, partitions=2)])

    def write(self, sink: str = 'type = "noop"', brokers: str | None = None, more: str = "") -> None:
        self.file.write_text(
            f"""
[pipeline]
name = "orders"
checkpoint = "checkpoint"
[source]
brokers = "{brokers or self.bootstrap}"
topics = ["{self.topic}"]
[sink]
{sink}
[observe]
group = "{self.group}"
{more}
""",
            encoding="utf-8",
        )

    def call(self, name: str, *arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(app, ["pipeline", name, str(self.file), *arguments])
        assert result.exit_code == status, result.output
        return result

    def json(self, name: str, *arguments: str, status: int = 0) -> Any:
        return json.loads(self.call(name, *arguments, "--json", status=status).stdout)

    def send(self, partition: int, *timestamps_ms: int, transactional_id: str | None = None) -> None:
        """Send records with these timestamps."""
        options: dict[str, Any] = {} if transactional_id is None else {"transactional_id": transactional_id}
        with Producer(bootstrap_servers=self.bootstrap, **options) as producer:
            if transactional_id is not None:
                producer.init_transactions()
                producer.begin_transaction()
            for at_ms in timestamps_ms:
                producer.send(self.topic, b"order", partition=partition, timestamp_ms=at_ms)
            if transactional_id is not None:
                producer.commit_transaction()

    def commit(self, **offsets: int) -> None:
        """Commit offsets of the group: ``p0=3``."""
        group_offsets = {
            TopicPartition(self.topic, int(name[1:])): offset for name, offset in offsets.items()
        }
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.alter_group_offsets(self.group, group_offsets)

    @cached_property
    def other_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    @property
    def committed(self) -> dict[int, int]:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            offsets = admin.list_group_offsets(self.group)
        return {
            partition.partition: offset.offset for partition, offset in offsets.items() if offset is not None
        }

    def write_batch(self, number: int, ends: dict[str, int], is_done: bool = True) -> None:
        """Write a batch to the checkpoint as Spark does."""
        (self.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "commits").mkdir(exist_ok=True)
        (self.checkpoint / "metadata").write_text('{"id":"6e0aa411-4bb8-44d8-a25b-7a4a14dc8f62"}')
        metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000, "conf": {}})
        offsets = json.dumps({self.topic: ends})
        (self.checkpoint / "offsets" / str(number)).write_text(f"v1\n{metadata}\n{offsets}")
        if is_done:
            (self.checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def confluent_lag(pipeline: Pipeline) -> dict[int, int]:
    """Return the lag by partition, computed with another client."""
    admin = pipeline.other_admin
    request = confluent_kafka.ConsumerGroupTopicPartitions(pipeline.group)
    response = admin.list_consumer_group_offsets([request])[pipeline.group].result(timeout=60)
    committed = {partition.partition: partition.offset for partition in response.topic_partitions}
    specs = {
        confluent_kafka.TopicPartition(pipeline.topic, number): OffsetSpec.latest() for number in committed
    }
    ends = {
        partition.partition: future.result(timeout=60).offset
        for partition, future in admin.list_offsets(specs).items()
    }
    return {number: ends[number] - committed[number] for number in committed}
