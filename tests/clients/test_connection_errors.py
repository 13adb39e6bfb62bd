"""A cluster that cannot be reached, or a partition that is not there: the cause is named within seconds."""

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

NOWHERE = "h" * 64 + ":9092"
"""A name that no name server needs to be asked about: its only label is too long."""
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


def list_all_by_consumer(clients: Clients, bootstrap: str) -> None:
    clients.consumer(bootstrap_servers=bootstrap).list_topics()


def list_all(clients: Clients, bootstrap: str) -> None:
    clients.admin(bootstrap_servers=bootstrap).list_topics()


def describe(clients: Clients, bootstrap: str) -> None:
    clients.admin(bootstrap_servers=bootstrap).describe_groups(["readers"])


def begin_transaction(clients: Clients, bootstrap: str) -> None:
    clients.producer(bootstrap_servers=bootstrap, transactional_id="teller").init_transactions()


USES = [send, read_partition, read_in_group, find_position, list_all_by_consumer, list_all, describe]
USES.append(begin_transaction)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_a_host_that_does_not_exist_is_named_at_once(
    clients: Clients, use: Callable[[Clients, str], None]
) -> None:
    begun = time.monotonic()
    with pytest.raises(ClientError, match=r"no host in bootstrap.servers resolves: h+:9092") as caught:
        use(clients, NOWHERE)
    assert time.monotonic() - begun < SOON_S
    assert not caught.value.retriable


def test_a_refused_connection_is_logged_at_once_and_named_by_the_error(
    clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{free_port()}"
    producer = clients.producer(bootstrap_servers=address, max_block_ms=1000)
    with (
        caplog.at_level(logging.WARNING, "odradek"),
        pytest.raises(ClientError, match=f"Connection failed: Connection refused .broker {address}"),
    ):
        producer.send("letters", b"v").result(SOON_S)
    assert re.search(f"connection_failed broker={address} .*Connection refused", caplog.text)


@pytest.mark.parametrize("arguments", [["topics", "list"], ["produce", "a"], ["consume", "a"]], ids=" ".join)
def test_commands_name_a_host_that_does_not_exist(arguments: list[str]) -> None:
    begun = time.monotonic()
    done = subprocess.run(
        [PROGRAM, *arguments, "-b", NOWHERE], input=b"", capture_output=True, timeout=60, check=False
    )
    assert time.monotonic() - begun < SOON_S
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert re.match(r"odradek: no host in bootstrap.servers resolves: h+:9092", line)


def test_a_command_says_at_once_that_a_connection_is_refused() -> None:
    address = f"127.0.0.1:{free_port()}"
    command = subprocess.Popen(
        [PROGRAM, "topics", "list", "-b", address],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert command.stderr is not None
    first = command.stderr.readline()
    assert first == f"odradek: {address}: Connection refused; trying again for 4 s\n"
    assert command.poll() is None, "it waits for a broker that is just starting"
    rest = command.stderr.read()
    assert command.wait(30) == 1
    assert rest.startswith(f"odradek: no broker answers at {address}: Connection refused.")
    command.stderr.close()


def test_a_partition_that_is_not_there_is_refused_at_once(
    clients: Clients, bootstrap: str, topic: str
) -> None:
    clients.producer(bootstrap_servers=bootstrap).send(topic, b"v").result(30)
    missing = TopicPartition(topic, 9)
    consumer = clients.consumer(bootstrap_servers=bootstrap)
    consumer.assign([missing])
    uses: list[Callable[[], Any]] = [
        lambda: clients.producer(bootstrap_servers=bootstrap).send(topic, b"v", partition=9).result(30),
        lambda: consumer.end_offsets([missing]),
        lambda: consumer.position(missing),
    ]
    for use in uses:
        begun = time.monotonic()
        with pytest.raises(UnknownTopic, match=rf"topic {topic} has \d+ partitions?, got partition 9"):
            use()
        assert time.monotonic() - begun < SOON_S


def test_a_poll_of_a_partition_that_is_not_there_warns(
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
