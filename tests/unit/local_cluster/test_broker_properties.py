"""Settings of the brokers of a local cluster."""

from __future__ import annotations

import pytest

from odradek.config import profiles, sources
from odradek.local_cluster.broker_properties import (
    broker_properties,
    check_settings,
    format_properties,
    min_in_sync,
    tick_ms,
)
from odradek.local_cluster.cluster_spec import ClusterSpec
from odradek.local_cluster.errors import ClusterError


def spec(brokers: int = 3, **settings: str) -> ClusterSpec:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return ClusterSpec(brokers, 9092, 21810, ("a", "b"), dotted)


def test_broker_has_its_own_id_port_rack_and_directory() -> None:
    properties = broker_properties(spec(), 2, "/c/broker-2/data")
    assert properties["broker.id"] == "2"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert properties["broker.rack"] == "b"
    assert properties["log.dirs"] == "/c/broker-2/data"
    assert properties["zookeeper.connect"] == "127.0.0.1:21810"


@pytest.mark.parametrize(("brokers", "factor", "minimum"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_replication_by_number_of_brokers(brokers: int, factor: int, minimum: int) -> None:
    values = profiles.values(profiles.local_cluster(brokers))
    assert values["default.replication.factor"] == str(factor)
    assert values["offsets.topic.replication.factor"] == str(factor)
    assert values["transaction.state.log.replication.factor"] == str(factor)
    assert values["min.insync.replicas"] == values["transaction.state.log.min.isr"] == str(minimum)
    assert min_in_sync(spec(brokers)) == minimum


def test_settings_override_the_profile_and_its_synonyms() -> None:
    properties = broker_properties(spec(min_insync_replicas="1", log_retention_hours="2"), 1, "data")
    assert properties["min.insync.replicas"] == "1"
    assert properties["log.retention.hours"] == "2"
    assert min_in_sync(spec(min_insync_replicas="1")) == 1


@pytest.mark.parametrize(
    ("session_ms", "tick"), [("6000", 1000), ("18000", 3000), ("60000", 3000), ("90", 100)]
)
def test_tick_time_fits_the_session_timeout(session_ms: str, tick: int) -> None:
    assert tick_ms(spec(zookeeper_session_timeout_ms=session_ms)) == tick


def test_file_is_read_back_as_written() -> None:
    properties = {"a": " with spaces ", "path": "C:\\new\tdir\nnext", "empty": "", "k": "a=b:c#d"}
    assert sources.parse_properties(format_properties(properties)) == properties


def test_invalid_setting_is_refused_before_the_start() -> None:
    with pytest.raises(ClusterError, match=r"log\.retention\.hours must be an integer of 32 bits, got x"):
        check_settings(spec(log_retention_hours="x"))


def test_unknown_setting_is_a_warning() -> None:
    (warning,) = check_settings(spec(log_retention_hour="1"))
    assert "did you mean log.retention.hours?" in warning
    assert check_settings(spec()) == []
