"""A broker at its file descriptor limit, and after the limit is raised."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.support.broker import IS_FOREIGN, Broker
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import create_topics_request, produce_request, produced_partition
from tests.support.raw_connection import ConnectionEnded, RawConnection
from tests.support.record_batches import HandMadeBatch, record

from odradek.broker.handlers import HANDLERS
from odradek.model.protocol_enums import ACKS_LEADER
from odradek.wire.apis import API_BY_KEY
from odradek.wire.headers import RequestHeader, encode_request_header
from odradek.wire.message_codecs import encoder
from odradek.wire.messages.produce import ProduceRequest

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="specific to the odradek process")

STORAGE_ERROR = 56
PARTITIONS = 3
WAIT_SECONDS = 20.0
VERBOSE = {"odradek.log.level": "debug"}


@contextmanager
def _fd_limit_reached(pid: int) -> Iterator[None]:
    """Prevent a process from opening files, whichever descriptors are free."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def _wait_for_imports(broker: Broker) -> None:
    """Wait until the broker has imported what it does not need to start."""
    deadline = time.monotonic() + WAIT_SECONDS
    while "broker.modules_imported" not in broker.output():
        assert time.monotonic() < deadline, broker.output()
        time.sleep(0.1)


def _produce(connection: RawConnection, topic: str, partition: int) -> int:
    batch = HandMadeBatch(records=[record(0)]).build()
    code: int = produced_partition(
        connection.exchange(produce_request(topic, batch, partition=partition))
    ).error_code
    return code


def test_topic_created_at_the_fd_limit_comes_online_later(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker(VERBOSE)
    with RawConnection(broker.bootstrap) as connection:
        _wait_for_imports(broker)
        with _fd_limit_reached(broker.pid):
            connection.exchange(create_topics_request(topic, PARTITIONS))
            assert {_produce(connection, topic, number) for number in range(PARTITIONS)} == {STORAGE_ERROR}
        deadline = time.monotonic() + WAIT_SECONDS
        codes = {STORAGE_ERROR}
        while codes != {0} and time.monotonic() < deadline:
            time.sleep(0.2)
            codes = {_produce(connection, topic, number) for number in range(PARTITIONS)}
    assert codes == {0}, broker.output()


def test_first_request_of_each_api_is_served_at_the_fd_limit(start_broker: StartBroker) -> None:
    broker = start_broker(VERBOSE)
    unanswered = []
    with RawConnection(broker.bootstrap) as connection:
        _wait_for_imports(broker)
        with _fd_limit_reached(broker.pid):
            for handler in HANDLERS:
                connection.send_frame(_empty_request(handler.api_key, handler.versions.stop - 1))
                try:
                    connection.receive_frame()
                except ConnectionEnded:
                    unanswered.append(API_BY_KEY[handler.api_key].name)
                    break
    assert not unanswered, broker.output()


def _empty_request(api_key: int, version: int) -> bytes:
    """Return a request in which every field has its default, with a response."""
    api = API_BY_KEY[api_key]
    message = api.request()
    if isinstance(message, ProduceRequest):
        message.acks = ACKS_LEADER
    header = encode_request_header(RequestHeader(api_key, version, 0, None))
    return header + encoder(api.request, version)(message)
