"""Clients that cause the traffic: an admin, producers, transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kio.schema.alter_partition_reassignments.v0 import request as reassignment
from kio.schema.incremental_alter_configs.v1 import request as configs
from tests.support.raw_connection import RawConnection

SECONDS_MAX = 90.0
"""Longer than librdkafka's timeout of a request, whose error says more than a timeout of the test."""
TOPIC_CONFIG, BROKER_CONFIG = 2, 4
SET = 0


class Clients:
    """Operations on the cluster; each returns when the broker has answered.

    Each has a client of its own: brokers come and go between operations.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _connect(self) -> AdminClient:
        self._admin = AdminClient(self._settings())
        return self._admin

    def _settings(self, **settings: str) -> dict[str, Any]:
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        return {"bootstrap.servers": self._bootstrap, "log_level": 2, **dotted}

    def create_topic(
        self, name: str, assignment: Sequence[Sequence[int]], config: Mapping[str, str] | None = None
    ) -> None:
        topic = NewTopic(
            name, len(assignment), replica_assignment=list(map(list, assignment)), config=dict(config or {})
        )
        self._finish(self._connect().create_topics([topic]))

    def create_partitions(self, name: str, count: int) -> None:
        self._finish(self._connect().create_partitions([NewPartitions(name, count)]))

    def delete_topic(self, name: str) -> None:
        self._finish(self._connect().delete_topics([name]))

    def delete_records(self, name: str, partition: int) -> None:
        """Delete all records up to the high watermark."""
        self._finish(self._connect().delete_records([TopicPartition(name, partition, -1)]))

    def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None:
        chosen = [TopicPartition(*partition) for partition in partitions]
        self._connect().elect_leaders(ElectionType.PREFERRED, chosen).result(SECONDS_MAX)

    def produce(
        self, topic: str, partition: int, count: int, acks: str = "all", bootstrap: str | None = None
    ) -> None:
        producer = Producer(self._settings(acks=acks, bootstrap_servers=bootstrap or self._bootstrap))
        for number in range(count):
            producer.produce(topic, b"value %d" % number, b"key %d" % number, partition)
        if producer.flush(SECONDS_MAX):
            raise TimeoutError(f"records must be acknowledged within {SECONDS_MAX} s")

    def run_transactions(self, transactional_id: str, topic: str, partitions: int) -> None:
        """Commit a transaction on all partitions, and abort the next."""
        producer = Producer(self._settings(transactional_id=transactional_id))
        producer.init_transactions(SECONDS_MAX)
        for finish in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for partition in range(partitions):
                producer.produce(topic, transactional_id.encode(), b"key", partition)
            producer.flush(SECONDS_MAX)
            finish(SECONDS_MAX)

    @staticmethod
    def reassign(
        controller_port: int,
        topic: str,
        partition: int,
        replicas: Sequence[int] | None,
        host: str = "127.0.0.1",
    ) -> None:
        """Start a reassignment; None cancels the pending one."""
        target: Any = None if replicas is None else tuple(replicas)
        message = reassignment.AlterPartitionReassignmentsRequest(
            topics=(
                reassignment.ReassignableTopic(
                    name=topic,  # type: ignore[arg-type]
                    partitions=(
                        reassignment.ReassignablePartition(
                            partition_index=partition,  # type: ignore[arg-type]
                            replicas=target,
                        ),
                    ),
                ),
            )
        )
        with RawConnection(f"{host}:{controller_port}") as connection:
            response = connection.exchange(message)
        errors = [response.error_code, *(p.error_code for t in response.responses for p in t.partitions)]
        if any(int(error) for error in errors):
            raise AssertionError(f"reassignment must succeed, got {response}")

    @staticmethod
    def set_config(port: int, kind: int, name: str, key: str, value: str, host: str = "127.0.0.1") -> None:
        """``kind`` is ``TOPIC_CONFIG`` or ``BROKER_CONFIG``; the default of all brokers has an empty name."""
        config: Any = configs.AlterableConfig(
            name=key,
            config_operation=SET,  # type: ignore[arg-type]
            value=value,
        )
        resource: Any = configs.AlterConfigsResource(
            resource_type=kind,  # type: ignore[arg-type]
            resource_name=name,
            configs=(config,),
        )
        message = configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        with RawConnection(f"{host}:{port}") as connection:
            response = connection.exchange(message)
        if any(int(resource.error_code) for resource in response.responses):
            raise AssertionError(f"config change must succeed, got {response}")

    @staticmethod
    def _finish(futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(SECONDS_MAX)
