"""A store restored from a backup older than the data: producer ids are not reused."""

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

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="the store is specific to odradek")

STORE = "odradek-store.sqlite"
TOPIC = "orders"
NOT_YET = {14, 15, 16}
"""The coordinator is loading, being created, or unknown."""
WAIT_SECONDS = 20.0


def _producer_id(connection: RawConnection, transactional_id: str | None = None) -> int:
    """Return a producer id; for a transactional id once it has a coordinator."""
    if transactional_id is not None:
        _await_coordinator(connection, transactional_id)
    request = kio_requests("init_producer_id", 4).InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout=timedelta(seconds=60)
    )
    deadline = time.monotonic() + WAIT_SECONDS
    response = connection.exchange(request)
    while response.error_code in NOT_YET and time.monotonic() < deadline:
        time.sleep(0.05)
        response = connection.exchange(request)
    assert response.error_code == 0
    return int(response.producer_id)


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


def _restart_on(broker: Broker, backup: Path) -> None:
    """Restart the broker with the store restored from the copy."""
    broker.stop()
    shutil.copy(backup, broker.directory / "data" / STORE)
    broker.start()
    wait_until_led(broker.bootstrap, TOPIC)


@pytest.fixture
def broker_and_backup(tmp_path: Path) -> tuple[Broker, Path]:
    """A running broker with a topic and a transactional id, and an older copy of its store."""
    broker = Broker(tmp_path / "home").start()
    with RawConnection(broker.bootstrap) as connection:
        create_topic(connection, TOPIC)
        _producer_id(connection, "first")
    broker.stop()
    backup = tmp_path / "copy.sqlite"
    shutil.copy(broker.directory / "data" / STORE, backup)
    broker.start()
    wait_until_led(broker.bootstrap, TOPIC)
    return broker, backup


def test_new_producer_ids_do_not_collide_with_ids_in_the_logs(broker_and_backup: tuple[Broker, Path]) -> None:
    broker, backup = broker_and_backup
    with RawConnection(broker.bootstrap) as connection:
        old = _producer_id(connection)
        _append(connection, old, b"old")
    _restart_on(broker, backup)
    with RawConnection(broker.bootstrap) as connection:
        new = _producer_id(connection)
        assert new > old
        assert _append(connection, new, b"new") == 1
    assert len(batch_headers(stored_batches(broker.bootstrap, TOPIC))) == 2
    assert "producer_ids_raised" in broker.output()
    broker.stop()


def test_new_producer_ids_do_not_collide_with_ids_in_the_transaction_log(
    broker_and_backup: tuple[Broker, Path],
) -> None:
    broker, backup = broker_and_backup
    with RawConnection(broker.bootstrap) as connection:
        transactional = _producer_id(connection, "second")
    _restart_on(broker, backup)
    with RawConnection(broker.bootstrap) as connection:
        assert _producer_id(connection) > transactional
    assert "producer_ids_raised" in broker.output()
    broker.stop()


def test_up_to_date_store_is_not_changed(broker_and_backup: tuple[Broker, Path]) -> None:
    broker, _ = broker_and_backup
    with RawConnection(broker.bootstrap) as connection:
        _append(connection, _producer_id(connection), b"first")
    broker.stop()
    broker.start()
    wait_until_led(broker.bootstrap, TOPIC)
    with RawConnection(broker.bootstrap) as connection:
        assert _append(connection, _producer_id(connection), b"second") == 1
    assert "producer_ids_raised" not in broker.output()
    broker.stop()
