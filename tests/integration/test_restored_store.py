"""A store put back from a copy that is older than the data: no producer id is given out a second time."""

from __future__ import annotations

import shutil
import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.broker import IS_FOREIGN, Broker
from tests.support.kio_requests import (
    create_topic,
    kio_requests,
    produce_request,
    produced_partition,
    stored_batches,
    wait_until_led,
)
from tests.support.raw_connection import RawConnection
from tests.support.record_batches import HandMadeBatch, batch_headers, record

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="the store is ours")

STORE = "odradek-store.sqlite"
TOPIC = "orders"
NOT_YET = {14, 15, 16}
"""The coordinator loads, is being made, or is not known yet."""
WAIT_SECONDS = 20.0


def _producer_id(connection: RawConnection, transactional_id: str | None = None) -> int:
    """A producer id, for a transactional id once it has a coordinator."""
    if transactional_id is not None:
        _await_coordinator(connection, transactional_id)
    request = kio_requests("init_producer_id", 4).InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout=timedelta(seconds=60)
    )
    deadline = time.monotonic() + WAIT_SECONDS
    given = connection.exchange(request)
    while given.error_code in NOT_YET and time.monotonic() < deadline:
        time.sleep(0.05)
        given = connection.exchange(request)
    assert given.error_code == 0
    return int(given.producer_id)


def _await_coordinator(connection: RawConnection, transactional_id: str) -> None:
    request = kio_requests("find_coordinator", 3).FindCoordinatorRequest(key=transactional_id, key_type=1)
    deadline = time.monotonic() + WAIT_SECONDS
    while connection.exchange(request).error_code in NOT_YET:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _append(connection: RawConnection, producer_id: int, value: bytes) -> int:
    batch = HandMadeBatch(
        records=[record(0, value)], producer_id=producer_id, producer_epoch=0, base_sequence=0
    )
    entry = produced_partition(connection.exchange(produce_request(TOPIC, batch.build())))
    assert entry.error_code == 0
    return int(entry.base_offset)


def _restart_on(broker: Broker, copy: Path) -> None:
    """Stop the broker, put the copy in the store's place, and start it again."""
    broker.stop()
    shutil.copy(copy, broker.directory / "data" / STORE)
    broker.start()
    wait_until_led(broker.bootstrap, TOPIC)


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Broker, Path]:
    """A running broker, with a topic and a transactional id, and a copy of its store from before."""
    broker = Broker(tmp_path / "home").start()
    with RawConnection(broker.bootstrap) as connection:
        create_topic(connection, TOPIC)
        _producer_id(connection, "first")
    broker.stop()
    copy = tmp_path / "copy.sqlite"
    shutil.copy(broker.directory / "data" / STORE, copy)
    broker.start()
    wait_until_led(broker.bootstrap, TOPIC)
    return broker, copy


def test_records_of_new_producers_are_not_taken_for_those_of_old_ones(copied: tuple[Broker, Path]) -> None:
    broker, copy = copied
    with RawConnection(broker.bootstrap) as connection:
        old = _producer_id(connection)
        _append(connection, old, b"old")
    _restart_on(broker, copy)
    with RawConnection(broker.bootstrap) as connection:
        new = _producer_id(connection)
        assert new > old
        assert _append(connection, new, b"new") == 1
    assert len(batch_headers(stored_batches(broker.bootstrap, TOPIC))) == 2
    assert "producer_ids_raised" in broker.output()
    broker.stop()


def test_ids_that_only_the_transaction_log_knows_are_not_given_out_again(copied: tuple[Broker, Path]) -> None:
    broker, copy = copied
    with RawConnection(broker.bootstrap) as connection:
        transactional = _producer_id(connection, "second")
    _restart_on(broker, copy)
    with RawConnection(broker.bootstrap) as connection:
        assert _producer_id(connection) > transactional
    assert "producer_ids_raised" in broker.output()
    broker.stop()


def test_a_store_that_is_as_new_as_the_data_is_left_alone(copied: tuple[Broker, Path]) -> None:
    broker, _ = copied
    with RawConnection(broker.bootstrap) as connection:
        _append(connection, _producer_id(connection), b"first")
    broker.stop()
    broker.start()
    wait_until_led(broker.bootstrap, TOPIC)
    with RawConnection(broker.bootstrap) as connection:
        assert _append(connection, _producer_id(connection), b"second") == 1
    assert "producer_ids_raised" not in broker.output()
    broker.stop()
