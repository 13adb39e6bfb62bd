"""Connection creation rates: cases of Kafka's ``ConnectionQuotasTest``, with two samples of one second."""

from __future__ import annotations

import pytest

from odradek.broker.quotas.client_sensors import INACTIVE_MS_MAX
from odradek.broker.quotas.connection_rates import ConnectionRates
from odradek.broker.quotas.quota_entities import DEFAULT
from odradek.config.broker import BY_NAME
from odradek.config.definition import parse_settings

IP, OTHER_IP = "10.0.0.1", "10.0.0.2"
EXTERNAL, ADMIN, REPLICATION = "EXTERNAL", "ADMIN", "REPLICATION"


def make_rates(**rates: int) -> ConnectionRates:
    """Return rates of the broker and, by lower-case name, of listeners."""
    raw_values = {"quota.window.num": "2"}
    for name, rate in rates.items():
        prefix = "" if name == "broker" else f"listener.name.{name}."
        raw_values[f"{prefix}max.connection.creation.rate"] = str(rate)
    return ConnectionRates(parse_settings(BY_NAME, raw_values))


def accept_many(rates: ConnectionRates, listener: str, count: int, interval_ms: int) -> int:
    """Accept connections one after the other, each after its delay; return when the last was served."""
    now_ms = 0
    for number in range(count):
        now_ms = max(now_ms, number * interval_ms)
        now_ms += rates.record(listener, IP, now_ms, is_protected=False).accept_ms
    return now_ms


def test_nothing_is_delayed_without_a_rate() -> None:
    rates = make_rates()
    assert {rates.record(EXTERNAL, IP, 0, is_protected=False) for _ in range(10_000)} == {(0, 0)}


def test_nothing_is_delayed_below_the_rate_of_the_broker() -> None:
    rates = make_rates(broker=125)
    for number in range(600):  # 120 per second over three listeners
        for listener in (EXTERNAL, ADMIN, REPLICATION):
            assert rates.record(listener, IP, number * 25, is_protected=False).accept_ms == 0


@pytest.mark.parametrize("limits", [{"broker": 90}, {"external": 90}, {"broker": 90, "external": 500}])
def test_connections_above_the_rate_are_served_at_the_rate(limits: dict[str, int]) -> None:
    end_ms = accept_many(make_rates(**limits), EXTERNAL, 900, interval_ms=0)
    assert end_ms == pytest.approx(10_000, rel=0.15)


def test_rate_of_a_listener_does_not_delay_others() -> None:
    rates = make_rates(external=1)
    assert [rates.record(EXTERNAL, IP, 0, is_protected=False).accept_ms for _ in range(3)] == [0, 1000, 1000]
    assert {rates.record(ADMIN, IP, 0, is_protected=False).accept_ms for _ in range(100)} == {0}


def test_listener_of_brokers_does_not_count_for_the_broker() -> None:
    rates = make_rates(broker=5, replication=1000)
    assert {rates.record(REPLICATION, IP, 0, is_protected=True).accept_ms for _ in range(100)} == {0}
    assert [rates.record(EXTERNAL, IP, 0, is_protected=False).accept_ms for _ in range(6)][4:] == [0, 200]


def test_rate_of_zero_delays_each_connection_by_a_sample() -> None:
    assert make_rates(broker=0).record(EXTERNAL, IP, 0, is_protected=False).accept_ms == 1000


def test_changed_rate_applies_at_once() -> None:
    rates = make_rates()
    rates.update(parse_settings(BY_NAME, {"quota.window.num": "2", "max.connection.creation.rate": "1"}))
    delays = [rates.record(EXTERNAL, IP, 0, is_protected=False).accept_ms for _ in range(2)]
    assert delays == [0, 1000]
    rates.update(parse_settings(BY_NAME, {}))
    assert rates.record(EXTERNAL, IP, 0, is_protected=False).accept_ms == 0


def test_connection_above_the_rate_of_its_address_counts_nowhere() -> None:
    rates = make_rates(broker=3)
    rates.set_ip_rate(IP, 2)
    assert [rates.record(EXTERNAL, IP, 0, is_protected=False).ip_ms for _ in range(2)] == [0, 0]
    for _ in range(50):
        assert rates.record(EXTERNAL, IP, 0, is_protected=False).ip_ms == 500
    assert rates.record(EXTERNAL, OTHER_IP, 0, is_protected=False) == (0, 0)
    assert rates.record(EXTERNAL, OTHER_IP, 0, is_protected=False).accept_ms > 0


def test_address_has_its_own_rate_before_the_default() -> None:
    rates = make_rates()
    rates.set_ip_rate(DEFAULT, 1)
    rates.set_ip_rate(IP, 5)
    assert (rates.ip_rate(IP), rates.ip_rate(OTHER_IP)) == (5, 1)
    assert rates.record(EXTERNAL, OTHER_IP, 0, is_protected=False).ip_ms == 0
    assert rates.record(EXTERNAL, f"::ffff:{OTHER_IP}", 0, is_protected=False).ip_ms == 1000
    rates.set_ip_rate(DEFAULT, None)
    assert rates.record(EXTERNAL, OTHER_IP, 0, is_protected=False).ip_ms == 0
    rates.replace_ip_rates({})
    assert {rates.record(EXTERNAL, IP, 0, is_protected=False).ip_ms for _ in range(100)} == {0}


def test_measurements_of_addresses_expire() -> None:
    rates = make_rates()
    rates.set_ip_rate(DEFAULT, 10)
    for number in range(100):
        rates.record(EXTERNAL, f"10.0.1.{number}", 0, is_protected=False)
    rates.expire_sensors(INACTIVE_MS_MAX)
    assert len(rates._ip_rates) == 100
    rates.expire_sensors(INACTIVE_MS_MAX + 1)
    assert len(rates._ip_rates) == 0
