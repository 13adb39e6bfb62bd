"""From one broker to three and back, with real processes and a real ZooKeeper: nothing is lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import IS_FOREIGN, Broker
from tests.support.kio_requests import kio_requests
from tests.support.local_cluster import LocalCluster, run_command
from tests.support.raw_connection import RawConnection

from odradek import Consumer, Producer

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="the store is specific to odradek")

WAIT_SECONDS = 30.0
COMMITTED = [f"committed-{number}" for number in range(10)]
PLAIN = [f"letter-{number}" for number in range(30)]
COMPACTED = [f"k{number % 3}\tv{number}" for number in range(12)]


class Tools:
    """Commands and clients against some brokers."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *arguments: str, stdin: str = "") -> str:
        return run_command(["-b", self.bootstrap, *arguments], stdin=stdin)

    def read(self, topic: str, *options: str) -> list[str]:
        printed = self.run("consume", topic, "--from-beginning", "--until-end", *options)
        return sorted(printed.splitlines())

    def topic_ids(self) -> dict[str, str]:
        described = json.loads(self.run("topics", "describe", "--internal", "--json"))
        return {topic["topic"]: topic["topic_id"] for topic in described}

    def leader_epochs(self, topic: str) -> list[int]:
        (described,) = json.loads(self.run("topics", "describe", topic, "--json"))
        return [partition["leader_epoch"] for partition in described["partitions"]]

    def offsets(self) -> list[tuple[Any, ...]]:
        rows = json.loads(self.run("groups", "describe", "readers", "--json"))
        return sorted((row["topic"], row["partition"], row["current_offset"]) for row in rows)

    def setting(self, *arguments: str) -> str:
        (row,) = json.loads(self.run("configs", "describe", *arguments, "--json"))
        return str(row["value"])

    def producer_id(self) -> int:
        """Return a new producer id of the first broker."""
        request = kio_requests("init_producer_id", 4).InitProducerIdRequest(
            transactional_id=None, transaction_timeout=timedelta(seconds=60)
        )
        deadline = time.monotonic() + WAIT_SECONDS
        with RawConnection(self.bootstrap.partition(",")[0]) as connection:
            response = connection.exchange(request)
            while response.error_code and time.monotonic() < deadline:
                time.sleep(0.05)
                response = connection.exchange(request)
        assert response.error_code == 0
        return int(response.producer_id)

    def write_transaction(self, values: list[str], *, is_aborted: bool = False) -> None:
        with Producer(bootstrap_servers=self.bootstrap, transactional_id="writer") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            sent = [producer.send("ledger", value.encode()) for value in values]
            for delivery in sent:
                delivery.result(WAIT_SECONDS)
            if is_aborted:
                producer.abort_transaction()
            else:
                producer.commit_transaction()

    def commit_offsets(self) -> None:
        with Consumer(
            bootstrap_servers=self.bootstrap, group_id="readers", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["letters"])
            count, deadline = 0, time.monotonic() + WAIT_SECONDS
            while count < len(PLAIN) and time.monotonic() < deadline:
                count += len(consumer.poll(1.0))
            consumer.commit()

    def fill(self) -> None:
        self.run("topics", "create", "letters", "--partitions", "3")
        self.run("topics", "create", "diary", "--partitions", "1", "--config", "cleanup.policy=compact")
        self.run("topics", "create", "ledger", "--partitions", "1")
        self.run("produce", "letters", stdin="\n".join(PLAIN) + "\n")
        self.run("produce", "diary", "--key-separator", "\t", stdin="\n".join(COMPACTED) + "\n")
        self.write_transaction(COMMITTED)
        self.write_transaction(["aborted"], is_aborted=True)
        self.commit_offsets()
        self.run("configs", "set", "--topic", "letters", "retention.ms=123456789")
        self.run("configs", "set", "--all-brokers", "log.cleaner.threads=2")


class Contents:
    """Everything that must be the same on both sides."""

    def __init__(self, tools: Tools) -> None:
        self.topic_ids = tools.topic_ids()
        self.offsets = tools.offsets()
        self.letters = tools.read("letters")
        self.diary = tools.read("diary", "--print-key")
        self.ledger = tools.read("ledger", "--isolation", "read_committed")
        self.retention = tools.setting("retention.ms", "--topic", "letters")
        self.threads = tools.setting("log.cleaner.threads", "--all-brokers")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "cluster")
    yield cluster
    cluster.run("down", status=None)


@pytest.fixture
def brokers() -> Iterator[list[Broker]]:
    """Brokers of a test, killed at its end if they are still running."""
    started: list[Broker] = []
    yield started
    for broker in started:
        if broker.is_running:
            broker.kill_if_running()


def test_one_broker_becomes_three_and_one_again(
    tmp_path: Path, cluster: LocalCluster, brokers: list[Broker]
) -> None:
    broker = Broker(tmp_path / "home")
    brokers.append(broker)
    broker.start()
    single = Tools(broker.bootstrap)
    single.fill()
    before, epochs = Contents(single), single.leader_epochs("letters")
    assert (before.letters, before.ledger) == (sorted(PLAIN), COMMITTED)
    producer_id = single.producer_id()
    data = tmp_path / "home" / "data"
    adopt = ("adopt", "--data-dir", str(data), "--port", str(cluster.port))
    assert "in use by another broker" in cluster.run(*adopt, status=1)
    broker.stop()

    assert "would adopt" in cluster.run(*adopt, "--dry-run")
    assert "data moved" in cluster.run(*adopt)
    assert not data.exists()
    assert "no broker" not in cluster.run("up", "--detach")
    three = Tools(f"127.0.0.1:{cluster.port}")
    assert [member["state"] for member in cluster.status()["brokers"]] == ["running"] * 3
    assert vars(Contents(three)) == vars(before)
    # A new epoch starts unless this broker was the only one that was registered when it became controller.
    assert all(new >= old for new, old in zip(three.leader_epochs("letters"), epochs, strict=True))
    new_producer_id = three.producer_id()
    assert new_producer_id > producer_id
    three.write_transaction(["after"])
    three.run("topics", "create", "wide", "--partitions", "2")
    (wide,) = json.loads(three.run("topics", "describe", "wide", "--json"))
    assert all(len(partition["replicas"]) == 3 for partition in wide["partitions"])
    cluster.run("down")

    released = tmp_path / "second" / "data"
    released.parent.mkdir()
    release = ("release", "--data-dir", str(released))
    assert "wide-0, wide-1" in cluster.run(*release, status=1)
    cluster.run("up", "--detach")
    three.run("topics", "delete", "wide")
    deadline = time.monotonic() + WAIT_SECONDS
    while "wide" in three.topic_ids() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "in use by another broker" in cluster.run(*release, status=1)
    cluster.run("down")
    assert "--set broker.id=1" in cluster.run(*release)

    again = Broker(tmp_path / "second", {"broker.id": "1"})
    brokers.append(again)
    again.start()
    last = Tools(again.bootstrap)
    after = Contents(last)
    assert after.ledger == [*sorted(["after", *COMMITTED])]
    assert (after.letters, after.diary, after.offsets) == (before.letters, before.diary, before.offsets)
    assert after.topic_ids == before.topic_ids
    assert last.producer_id() > new_producer_id
    again.stop()


def test_broker_with_an_embedded_store_does_not_start_with_zookeeper(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "home").start()
    broker.stop()
    broker.settings["zookeeper.connect"] = "127.0.0.1:1"
    status, output = broker.run_to_exit()
    assert status == 1
    (line,) = [line for line in output.splitlines() if line.startswith("odradek: ")]
    assert "`odradek cluster adopt`" in line
