"""A broker at its file descriptor limit, and after the limit is raised."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.support.broker import IS_FOREIGN
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import create_topics_request, produce_request, produced_partition
from tests.support.raw_connection import RawConnection
from tests.support.record_batches import HandMadeBatch, record

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="specific to the odradek process")

STORAGE_ERROR = 56
PARTITIONS = 3
WAIT_SECONDS = 20.0


@contextmanager
def _fd_limit_reached(pid: int) -> Iterator[None]:
    """Prevent a process from opening files, whichever descriptors are free."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def _produce(connection: RawConnection, topic: str, partition: int) -> int:
    batch = HandMadeBatch(records=[record(0)]).build()
    code: int = produced_partition(
        connection.exchange(produce_request(topic, batch, partition=partition))
    ).error_code
    return code


def test_topic_created_at_the_fd_limit_comes_online_later(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker({})
    with RawConnection(broker.bootstrap) as connection:
        # Handlers are imported with their first request, which needs descriptors too.
        connection.exchange(create_topics_request(f"{topic}-before"))
        assert _produce(connection, f"{topic}-before", 0) == 0
        with _fd_limit_reached(broker.pid):
            connection.exchange(create_topics_request(topic, PARTITIONS))
            assert {_produce(connection, topic, number) for number in range(PARTITIONS)} == {STORAGE_ERROR}
        deadline = time.monotonic() + WAIT_SECONDS
        codes = {STORAGE_ERROR}
        while codes != {0} and time.monotonic() < deadline:
            time.sleep(0.2)
            codes = {_produce(connection, topic, number) for number in range(PARTITIONS)}
    assert codes == {0}, broker.output()
