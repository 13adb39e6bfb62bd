"""Data directories as an admin client describes them. Of our clients only kafka-python can ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.shape import Message
from tests.support.broker import IS_FOREIGN
from tests.support.fixtures import StartBroker


@pytest.mark.skipif(IS_FOREIGN, reason="the directories are ours to choose")
def test_every_directory_is_described(start_broker: StartBroker, topic: str, tmp_path: Path) -> None:
    broker = start_broker({"log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
    client = KafkaPython(broker.bootstrap)
    try:
        client.create_topic(topic, 4)
        client.produce(topic, [Message(b"x" * 1000, partition=number) for number in range(4)])
        found = client.describe_log_dirs()
    finally:
        client.close()
    assert list(found) == [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert all(len(sizes) == 2 for sizes in found.values())
    both = {replica: size for sizes in found.values() for replica, size in sizes.items()}
    assert set(both) == {(topic, number) for number in range(4)}
    assert all(size > 1000 for size in both.values())
