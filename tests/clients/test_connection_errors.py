"""Unreachable clusters and missing partitions: the cause is reported within seconds."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.clients.client_apis import Clients
from tests.support.broker import free_port

from odradek import ClientError, TopicPartition, UnknownTopic

UNRESOLVABLE = "h" * 64 + ":9092"
"""Fails without a name server: its only label is too long."""
PROGRAM = str(Path(sys.executable).with_name("odradek"))
SOON_S = 5.0
"""Far below any of the timeouts, and far above what a busy machine needs."""


def send(clients: Clients, bootstrap: str) -> None:
    clients.producer(bootstrap_servers=bootstrap).send("letters", b"v").result(SOON_S)


def read_partition(clients: Clients, bootstrap: str) -> None:
    consumer = clients.consumer(bootstrap_servers=bootstrap)
    consumer.assign([TopicPartition("letters", 0)])
    consumer.poll(60)


def read_in_group(clients: Clients, bootstrap: str) -> None:
    consumer = clients.consumer(bootstrap_servers=bootstrap, group_id="readers")
    consumer.subscribe(["letters"])
    consumer.poll(60)


def find_position(clients: Clients, bootstrap: str) -> None:
    consumer = clients.consumer(bootstrap_servers=bootstrap)
    consumer.assign([TopicPartition("letters", 0)])
    consumer.position(TopicPartition("letters", 0))


def list_topics_by_consumer(clients: Clients, bootstrap: str) -> None:
    clients.consumer(bootstrap_servers=bootstrap).list_topics()


def list_topics_by_admin(clients: Clients, bootstrap: str) -> None:
    clients.admin(bootstrap_servers=bootstrap).list_topics()


def describe_groups_by_admin(clients: Clients, bootstrap: str) -> None:
    clients.admin(bootstrap_servers=bootstrap).describe_groups(["readers"])


def begin_transaction(clients: Clients, bootstrap: str) -> None:
    clients.producer(bootstrap_servers=bootstrap, transactional_id="teller").init_transactions()


OPERATIONS = [
    send,
    read_partition,
    read_in_group,
    find_position,
    list_topics_by_consumer,
    list_topics_by_admin,
    describe_groups_by_admin,
]
OPERATIONS.append(begin_transaction)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_unresolvable_host_fails_at_once(clients: Clients, operation: Callable[[Clients, str], None]) -> None:
    started = time.monotonic()
    with pytest.raises(ClientError, match=r"no host in bootstrap.servers resolves: h+:9092") as caught:
        operation(clients, UNRESOLVABLE)
    assert time.monotonic() - started < SOON_S
    assert not caught.value.retriable


def test_refused_connection_is_logged_and_reported(
    clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{free_port()}"
    producer = clients.producer(bootstrap_servers=address, max_block_ms=1000)
    with (
        caplog.at_level(logging.WARNING, "odradek"),
        pytest.raises(ClientError, match=f"connection failed: Connection refused .broker {address}"),
    ):
        producer.send("letters", b"v").result(SOON_S)
    assert re.search(f"connection_failed broker={address} .*Connection refused", caplog.text)


@pytest.mark.parametrize("arguments", [["topics", "list"], ["produce", "a"], ["consume", "a"]], ids=" ".join)
def test_commands_report_unresolvable_host(arguments: list[str]) -> None:
    started = time.monotonic()
    done = subprocess.run(
        [PROGRAM, *arguments, "-b", UNRESOLVABLE], input=b"", capture_output=True, timeout=60, check=False
    )
    assert time.monotonic() - started < SOON_S
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert re.match(r"odradek: no host in bootstrap.servers resolves: h+:9092", line)


def test_command_prints_refused_connection_at_once() -> None:
    address = f"127.0.0.1:{free_port()}"
    command = subprocess.Popen(
        [PROGRAM, "topics", "list", "-b", address],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert command.stderr is not None
    first = command.stderr.readline()
    assert first == f"odradek: {address}: Connection refused; retrying for 4 s\n"
    assert command.poll() is None, "it waits for a broker that is starting"
    rest = command.stderr.read()
    assert command.wait(30) == 1
    assert rest.startswith(f"odradek: no response from {address}: Connection refused.")
    command.stderr.close()


def test_missing_partition_fails_at_once(clients: Clients, bootstrap: str, topic: str) -> None:
    clients.producer(bootstrap_servers=bootstrap).send(topic, b"v").result(30)
    missing = TopicPartition(topic, 9)
    consumer = clients.consumer(bootstrap_servers=bootstrap)
    consumer.assign([missing])
    operations: list[Callable[[], Any]] = [
        lambda: clients.producer(bootstrap_servers=bootstrap).send(topic, b"v", partition=9).result(30),
        lambda: consumer.end_offsets([missing]),
        lambda: consumer.position(missing),
    ]
    for operation in operations:
        started = time.monotonic()
        with pytest.raises(UnknownTopic, match=rf"topic {topic} has \d+ partitions?, got partition 9"):
            operation()
        assert time.monotonic() - started < SOON_S


def test_poll_of_missing_partition_logs_warning(
    clients: Clients, bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    clients.producer(bootstrap_servers=bootstrap).send(topic, b"v").result(30)
    consumer = clients.consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 9)])
    with caplog.at_level(logging.WARNING, "odradek"):
        until = time.monotonic() + 20
        while "unknown_partition" not in caplog.text and time.monotonic() < until:
            consumer.poll(0.1)
    assert re.search(rf"consumer.unknown_partition topic={topic} partition=9 partitions=\d", caplog.text)
