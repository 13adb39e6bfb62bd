"""The duration of a broker's failover, as the controller logs it."""

import logging

import pytest
from tests.unit.controller.controller_fixture import registration

from odradek.controller.actions import SendLeaderAndIsr
from odradek.controller.broker_failure_timer import BrokerFailureTimer
from odradek.store.broker_registration import register_broker


class Clock:
    def __init__(self):
        self.now_ms = 1_000

    def monotonic_ms(self):
        return self.now_ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timer(clock):
    return BrokerFailureTimer(clock.monotonic_ms)


def request(broker_id):
    return SendLeaderAndIsr(broker_id, 1, {}, {})


def handled(caplog):
    return [
        record.fields
        for record in caplog.records
        if getattr(record, "event", "") == "controller.broker_failure_handled"
    ]


def test_duration_ends_with_the_last_response(timer, clock, caplog):
    caplog.set_level(logging.INFO, "odradek.controller")
    first, second, last = request(1), request(2), request(1)
    timer.begin({3}, 40, noticed_ms=900)
    timer.on_sent(first)
    timer.on_sent(second)
    timer.on_answered(first)  # before the last request is decided
    timer.on_sent(last)
    timer.on_decided()
    clock.now_ms = 1_100
    timer.on_answered(second)
    assert handled(caplog) == []
    clock.now_ms = 1_250
    timer.on_answered(last)
    expected = {"brokers": [3], "partitions": 40, "election_ms": 200, "milliseconds": 350}
    assert handled(caplog) == [expected]
    timer.on_answered(request(1))
    timer.on_decided()
    assert len(handled(caplog)) == 1


def test_requests_of_other_events_do_not_count(timer, clock, caplog):
    caplog.set_level(logging.INFO, "odradek.controller")
    timer.on_sent(request(1))
    timer.on_decided()
    assert handled(caplog) == []
    timer.begin({3}, 0, noticed_ms=None)
    timer.on_decided()
    timer.on_sent(request(1))
    assert [fields["milliseconds"] for fields in handled(caplog)] == [0]


def test_controller_logs_the_failover_of_a_broker(run_scenario, caplog):
    caplog.set_level(logging.INFO, "odradek.controller")

    async def scenario(fixture):
        other = fixture.ensemble.connect()
        await register_broker(other, 2, registration(9093))
        await fixture.start()
        await other.close()
        await fixture.run_loop()
        await fixture.controller.settle()
        assert [fields["brokers"] for fields in handled(caplog)] == [[2]]

    run_scenario(scenario)
