"""Log directories that disappear under a running process, on real files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.broker import IS_FOREIGN
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import create_topics_request, produce_request, produced_partition
from tests.support.raw_connection import RawConnection
from tests.support.record_batches import HandMadeBatch, record

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="output and exit status are specific to odradek")

STORAGE_ERROR = 56


def _produce(connection: RawConnection, topic: str, partition: int) -> int:
    batch = HandMadeBatch(records=[record(0, b"x" * 900)]).build()
    code: int = produced_partition(
        connection.exchange(produce_request(topic, batch, partition=partition))
    ).error_code
    return code


def _produce_until_error(connection: RawConnection, topic: str, partition: int) -> int:
    """Produce until an error; a deleted directory is detected at the next roll."""
    for _ in range(50):
        code = _produce(connection, topic, partition)
        if code:
            return code
    return 0


def test_process_exits_when_the_last_log_directory_fails(
    start_broker: StartBroker, topic: str, tmp_path: Path
) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    broker = start_broker({"log.dirs": ",".join(map(str, paths))})
    with RawConnection(broker.bootstrap) as connection:
        created = connection.exchange(create_topics_request(topic, 2, {"segment.bytes": "2000"}))
        assert created.topics[0].error_code == 0
        partitions = [int(next(path.glob(f"{topic}-*")).name.rpartition("-")[2]) for path in paths]
        assert sorted(partitions) == [0, 1]

        shutil.rmtree(paths[1] / f"{topic}-{partitions[1]}")
        assert _produce_until_error(connection, topic, partitions[1]) == STORAGE_ERROR
        assert _produce(connection, topic, partitions[1]) == STORAGE_ERROR
        assert _produce(connection, topic, partitions[0]) == 0
        assert broker.is_running

        shutil.rmtree(paths[0] / f"{topic}-{partitions[0]}")
        assert _produce_until_error(connection, topic, partitions[0]) == STORAGE_ERROR
    status, output = broker.wait_for_failed_exit()
    assert status == 1
    assert f"odradek: all of log.dirs have failed: cannot open {paths[1]}/" in output


def test_unusable_log_directory_is_reported_at_startup(
    start_broker: StartBroker, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "b").write_text("not a directory")
    broker = start_broker({"log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
    with RawConnection(broker.bootstrap) as connection:
        connection.exchange(create_topics_request(topic, 2))
        assert _produce(connection, topic, 1) == 0
    broker.stop()
    assert f"warning: {tmp_path}/b cannot be used as a data directory" in broker.output()
    assert len(list((tmp_path / "a").glob(f"{topic}-*"))) == 2
