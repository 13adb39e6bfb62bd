"""Log directories described and altered by an admin client; only kafka-python supports these APIs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.compat.clients.interface import Message, read_all
from tests.compat.clients.kafka_python import KafkaPython
from tests.support.broker import IS_FOREIGN
from tests.support.fixtures import StartBroker

LOG_DIR_NOT_FOUND = 57
SECONDS_MAX = 20


@pytest.mark.skipif(IS_FOREIGN, reason="the directories are ours to choose")
def test_every_log_dir_is_described(start_broker: StartBroker, topic: str, tmp_path: Path) -> None:
    broker = start_broker({"log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
    client = KafkaPython(broker.bootstrap)
    try:
        client.create_topic(topic, 4)
        client.produce(topic, [Message(b"x" * 1000, partition=number) for number in range(4)])
        result = client.describe_log_dirs()
    finally:
        client.close()
    assert list(result) == [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert all(len(sizes) == 2 for sizes in result.values())
    both = {replica: size for sizes in result.values() for replica, size in sizes.items()}
    assert set(both) == {(topic, number) for number in range(4)}
    assert all(size > 1000 for size in both.values())


@pytest.mark.skipif(IS_FOREIGN, reason="the directories are ours to choose")
def test_partition_moves_between_log_dirs_while_written_and_read(
    start_broker: StartBroker, topic: str, tmp_path: Path
) -> None:
    directories = [f"{tmp_path}/a", f"{tmp_path}/b"]
    broker = start_broker({"log.dirs": ",".join(directories)})
    client = KafkaPython(broker.bootstrap)
    try:
        client.create_topic(topic, 1)
        values = [b"%d" % number + bytes(10_000) for number in range(500)]
        client.produce(topic, [Message(value) for value in values[:400]])
        (source,) = [path for path, result in client.describe_log_dirs().items() if (topic, 0) in result]
        target = directories[1 - directories.index(source)]
        assert client.alter_replica_log_dirs(topic, {0: f"{tmp_path}/nowhere"}) == {0: LOG_DIR_NOT_FOUND}
        assert client.alter_replica_log_dirs(topic, {0: target}) == {0: 0}
        client.produce(topic, [Message(value) for value in values[400:]])
        deadline = time.monotonic() + SECONDS_MAX
        while (topic, 0) in client.describe_log_dirs()[source] and time.monotonic() < deadline:
            time.sleep(0.05)
        result = client.describe_log_dirs()
        assert [(topic, 0) in result[path] for path in (source, target)] == [False, True]
        assert [item.value for item in read_all(client, topic, len(values))] == values
    finally:
        client.close()
