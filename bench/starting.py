"""How long a broker takes from exec to its first acknowledged record.

The probe connects every few ms and asks until a Produce is answered without an error.
"""

from __future__ import annotations

import time

from bench.harness import Sample
from bench.loads.exchange import ask, connect, error_codes
from bench.loads.frames import Exchange, batch, metadata, produce
from bench.meter import MB, Meter
from bench.peers.broker import Broker, BrokerFailed

PROBE_SECONDS = 0.005
START_SECONDS_MAX = 120.0
MISFORTUNES = (ConnectionError, TimeoutError)


def start(broker: Broker, topic: str, partition: int = 0) -> Sample:
    """Launch it and write one record; the seconds that took. The broker is left running."""
    exchange = produce(topic, {partition: batch([b"first"], [b"first"])})
    meter = Meter(None)
    meter.start()
    broker.launch()
    _first_ack(broker, topic, exchange, time.monotonic() + START_SECONDS_MAX)
    passed = meter.stop()
    usage = broker.usage()
    cost = {
        "others_share": max(0.0, passed.others_cpu_seconds - usage.cpu_seconds) / passed.seconds,
        "cpu_seconds": usage.cpu_seconds,
        "rss_peak_mb": usage.rss_peak_bytes / MB,
    }
    return Sample(passed.seconds, cost)


def _first_ack(broker: Broker, topic: str, exchange: Exchange, deadline: float) -> None:
    while time.monotonic() < deadline:
        try:
            with connect(broker.port) as connection:
                while time.monotonic() < deadline:
                    if error_codes(exchange, ask(connection, exchange.frame)) == [0]:
                        return
                    ask(connection, metadata(topic))
                    time.sleep(PROBE_SECONDS)
        except MISFORTUNES:
            broker.must_live()
            time.sleep(PROBE_SECONDS)
    raise BrokerFailed(f"{broker.name} acknowledged nothing in {START_SECONDS_MAX:.0f} s")
