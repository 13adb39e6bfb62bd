"""A broker that runs out of file descriptors, and has some again."""

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

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="the process is ours")

STORAGE_ERROR = 56
PARTITIONS = 3
WAIT_SECONDS = 20.0


@contextmanager
def _no_descriptors_left(pid: int) -> Iterator[None]:
    """Let a process open no file more, whichever numbers are free."""
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


def test_a_topic_made_without_descriptors_is_served_once_there_are_some(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker({})
    with RawConnection(broker.bootstrap) as connection:
        # Handlers are loaded with their first request, and that takes descriptors too.
        connection.exchange(create_topics_request(f"{topic}-before"))
        assert _produce(connection, f"{topic}-before", 0) == 0
        with _no_descriptors_left(broker.pid):
            connection.exchange(create_topics_request(topic, PARTITIONS))
            assert {_produce(connection, topic, number) for number in range(PARTITIONS)} == {STORAGE_ERROR}
        deadline = time.monotonic() + WAIT_SECONDS
        codes = {STORAGE_ERROR}
        while codes != {0} and time.monotonic() < deadline:
            time.sleep(0.2)
            codes = {_produce(connection, topic, number) for number in range(PARTITIONS)}
    assert codes == {0}, broker.output()
