"""Times without acknowledgements: after the kill of a leader, during a clean stop and a rolling restart."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.cluster_faults.harness.fault_cluster import BROKERS, TICK_MS, WAIT_SECONDS_MAX, FaultCluster
from tests.cluster_faults.harness.senders import OdradekProbe, Probe
from tests.mixed.harness.znodes import NO_BROKER
from tests.support.interbroker.clients import Clients

WATCH_SECONDS = 0.002


class Kill(NamedTuple):
    """Seconds of one kill of a leader."""

    until_expiry: float
    """From the kill until ZooKeeper removed the registration: not ours to shorten."""
    until_election: float
    """From there until ZooKeeper has the next leader."""
    after_expiry: float
    """From the expiry until a record was acknowledged again."""
    unavailable: float
    """From the kill until a record was acknowledged again."""
    was_controller: bool


class Figures:
    """Measures with a probe, on a topic of its own, while nothing else is sent."""

    def __init__(
        self, cluster: FaultCluster, topic: str, make_probe: Callable[[str, str], Probe] = OdradekProbe
    ) -> None:
        self._cluster = cluster
        self._make_probe = make_probe
        self._topic = topic
        self._clients = Clients(cluster.bootstrap)
        self._clients.create_topic(topic, [list(BROKERS)])
        cluster.wait_until_in_sync()

    def measure_kills(self, count: int) -> list[Kill]:
        """Kill the leader and start it again, so many times."""
        kills = []
        with self._make_probe(self._cluster.bootstrap, self._topic) as probe:
            probe.wait_for_acknowledged(0.0)
            for _ in range(count):
                kills.append(self._measure_kill(probe))
                self._cluster.restore()
                probe.wait_for_acknowledged(time.monotonic(), count=100)
        assert not probe.errors, probe.errors
        return kills

    def _measure_kill(self, probe: Probe) -> Kill:
        cluster = self._cluster
        leader, controller = cluster.leader(self._topic), cluster.controller()
        killed = time.monotonic()
        cluster.kill(leader)
        expired = wait_for_moment(lambda: cluster.znodes.broker_epoch(leader) is None)
        elected = wait_for_moment(lambda: cluster.leader(self._topic) not in (leader, NO_BROKER))
        acknowledged = self._wait_for_acknowledgement(probe, expired)
        return Kill(
            expired - killed,
            elected - expired,
            acknowledged - expired,
            acknowledged - killed,
            leader == controller,
        )

    @staticmethod
    def _wait_for_acknowledgement(probe: Probe, moment: float) -> float:
        while (acknowledged := probe.first_acknowledgement_after(moment)) is None:
            time.sleep(WATCH_SECONDS)
        return acknowledged

    def measure_stop(self) -> float:
        """Stop the leader by SIGTERM; return the longest stall in seconds, and start it again."""
        with self._make_probe(self._cluster.bootstrap, self._topic) as probe:
            began = probe.wait_for_acknowledged(0.0)
            leader = self._cluster.leader(self._topic)
            self._cluster.stop(leader)
            ended = probe.wait_for_acknowledged(time.monotonic(), count=100)
        assert not probe.errors, probe.errors
        self._cluster.restore()
        return probe.longest_stall(began, ended)

    def measure_rolling_restart(self) -> float:
        """Restart all brokers in turn; return the longest stall in seconds."""
        with self._make_probe(self._cluster.bootstrap, self._topic) as probe:
            began = probe.wait_for_acknowledged(0.0)
            for broker in BROKERS:
                self._cluster.stop(broker)
                self._cluster.start(broker)
                self._cluster.wait_until_in_sync()
            ended = probe.wait_for_acknowledged(time.monotonic(), count=100)
        assert not probe.errors, probe.errors
        return probe.longest_stall(began, ended)

    def describe(self, kills: Sequence[Kill], stops: Sequence[float], rolls: Sequence[float]) -> str:
        """Return all figures as text."""
        timeouts = sorted({session.timeout_ms for session in self._cluster.links.sessions.values()})
        negotiated = " or ".join(map(str, timeouts))
        lines = [
            self._make_probe.__name__,
            f"ZooKeeper tickTime {TICK_MS} ms, negotiated session timeout {negotiated} ms",
        ]
        for name, chosen in (
            ("leader killed", kills),
            ("  not controller", [kill for kill in kills if not kill.was_controller]),
            ("  also controller", [kill for kill in kills if kill.was_controller]),
        ):
            if chosen:
                lines.append(f"{name}, {len(chosen)} times:")
                for field in ("until_expiry", "until_election", "after_expiry", "unavailable"):
                    seconds = [getattr(kill, field) for kill in chosen]
                    lines.append(f"    {field.replace('_', ' '):14} {_summary(seconds)}")
        lines.append(f"leader stopped by SIGTERM, {len(stops)} times: longest stall {_ms(max(stops))}")
        lines.append(f"rolling restart, {len(rolls)} times: longest stall {_ms(max(rolls))}")
        return "\n".join(lines)


def wait_for_moment(holds: Callable[[], bool]) -> float:
    """Return the moment at which a condition began to hold."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(WATCH_SECONDS)
    return time.monotonic()


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that so many percent of the values do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def _summary(seconds: Sequence[float]) -> str:
    return f"p50 {_ms(percentile(seconds, 50))}, p99 {_ms(percentile(seconds, 99))}, max {_ms(max(seconds))}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"
