"""Three kinds of clients consume, transform and produce, and are killed at every step; so is the broker.

A step is a request of a transaction; the victim, the client or the broker, is killed before it is sent, in
flight, before its response and after it (``tests/support/proxy.py``), and restarted. Some requests are sent
twice. After the steps a second instance with the same transactional id is started beside a live one, which
must be fenced. Each input below the committed offset is there exactly once.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tests.faults.broker_partitions import append, batch_of, create
from tests.faults.fault_report import FaultReport
from tests.faults.transactions.app import FAILED, FENCED, INPUTS, STUCK
from tests.faults.transactions.checker import SIDES, check_history
from tests.faults.transactions.ledger import NOT_THERE_YET, Killable, await_coordinators
from tests.faults.transactions.reader import Reader
from tests.support.broker import Broker, free_port
from tests.support.kio_requests import kio_requests
from tests.support.proxy import Moment, Point, Proxy
from tests.support.raw_connection import RawConnection

CLIENTS = ("confluent", "kafka_python", "aiokafka")
APIS = {
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    0: "Produce",
    25: "AddOffsetsToTxn",
    28: "TxnOffsetCommit",
    26: "EndTxn",
}
FIRST = 22
"""The request sent only at the start of an instance."""
DOUBLED = frozenset(APIS) - {FIRST}
"""A second InitProducerId would fence the first."""
VICTIMS = ("client", "broker")
PARTITIONS = 2
INPUT_COUNT, INPUTS_AT_ONCE = 40_000, 1_000
PACE_SECONDS = 0.02
REACHED_SECONDS_MAX = 150.0
STOP_SECONDS_MAX = 120.0
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "transaction.state.log.num.partitions": "5"}

FOR_EVER: dict[str, str | None] = {"retention.ms": "-1"}
"""Inputs have old timestamps: a broker that runs for 30 s would delete them by retention."""

UNSTABLE = 88
"""Error code of an offset with a pending transaction."""

offset_fetch = kio_requests("offset_fetch", 7)


class Step(NamedTuple):
    """Victim, request and moment of a kill."""

    client: str
    api_key: int
    moment: Moment
    victim: str

    def __str__(self) -> str:
        return f"{self.victim} killed, {APIS[self.api_key]} of {self.client} {self.moment.value}"


def all_steps() -> list[Step]:
    return [Step(*parts) for parts in product(CLIENTS, APIS, Moment, VICTIMS)]


def some_steps(seed: int) -> list[Step]:
    """Return every request with every victim once; clients and moments in turn."""
    rng = random.Random(seed)
    drawn = list(product(APIS, VICTIMS))
    rng.shuffle(drawn)
    moments, start = list(Moment), rng.randrange(12)
    return [
        Step(CLIENTS[(start + number) % 3], api_key, moments[(start + number) % 4], victim)
        for number, (api_key, victim) in enumerate(drawn)
    ]


class App:
    """The instances of one client, one after another."""

    def __init__(self, client: str, number: int, bootstrap: str, directory: Path) -> None:
        self.client = client
        self.number = number
        self._output = directory / f"{client}.txt"
        script = Path(__file__).with_name("app.py")
        self._command = [sys.executable, str(script), client, bootstrap, str(number), str(PACE_SECONDS)]
        self.process = self._begin()

    def _begin(self) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def previous(self) -> subprocess.Popen[bytes]:
        """Start another instance; return the previous one, which may be alive."""
        before, self.process = self.process, self._begin()
        return before

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def output(self) -> str:
        return self._output.read_text(errors="replace")[-600:]


class StepRunner:
    """A broker behind a proxy, and the three apps."""

    def __init__(self, directory: Path, broker: Killable, proxy: Proxy, report: FaultReport) -> None:
        self._broker = broker
        self._proxy = proxy
        self._report = report
        self.apps = {
            client: App(client, number, proxy.bootstrap, directory) for number, client in enumerate(CLIENTS)
        }

    def play(self, step: Step) -> None:
        """Wait for the step, kill, and restart."""
        app = self.apps[step.client]
        kill = app.kill if step.victim == "client" else self._broker.kill
        trap = self._proxy.arm(Point(f"app-{step.client}", step.api_key, step.moment), kill)
        if step.api_key == FIRST:
            app.kill()
        if not self._wait(lambda: trap.has_sprung):
            self._proxy.disarm(trap)
            self._report.violate(f"{step}: never reached: {app.output()}")
        elif step.victim == "broker":
            self._broker.start()
        self._report.faults += 1
        self._report.outcomes[f"{step.victim} killed {step.moment.value}"] += 1

    def double(self, client: str) -> None:
        """Start a twin beside a live instance: the older one must exit as fenced."""
        app = self.apps[client]
        self._goes_on(client)  # An instance that has not initialised its producer yet would fence its twin.
        before = app.previous()
        if not self._wait(lambda: before.poll() is not None):
            before.kill()
            before.wait()
            self._report.violate(f"{client}: two instances lived side by side")
        self._report.faults += 1
        self._report.check(before.returncode == FENCED, f"{client}: not fenced by its twin: {app.output()}")
        self._report.outcomes[f"{client}: the older of two was fenced"] += 1

    def go_on(self) -> None:
        """Check that every app makes progress after the last fault."""
        for client in self.apps:
            self._goes_on(client)

    def stop(self) -> None:
        """Stop all apps between two transactions; restart and stop those that fail meanwhile."""
        for client, app in self.apps.items():
            deadline, pause_seconds = time.monotonic() + STOP_SECONDS_MAX, 1.0
            app.process.terminate()
            while app.process.poll() != 0 and time.monotonic() < deadline:
                if app.process.poll() is not None:
                    app.previous()
                    pause_seconds *= 2  # One that has just started may not have its signal handler yet.
                    time.sleep(pause_seconds)
                    app.process.terminate()
                time.sleep(0.05)
            if app.process.poll() != 0:
                app.kill()
                self._report.violate(f"{client} did not end in order: {app.output()}")

    def _goes_on(self, client: str) -> None:
        """Wait until an app has committed more inputs."""
        address = self._broker.bootstrap
        offset = _committed(address, client)
        if not self._wait(lambda: _committed(address, client) > offset):
            self._report.violate(f"{client} did not go on: {self.apps[client].output()}")

    def _wait(self, is_so: Callable[[], bool]) -> bool:
        """Wait, restarting apps that exit; return False after a timeout."""
        deadline = time.monotonic() + REACHED_SECONDS_MAX
        while not is_so():
            if time.monotonic() > deadline:
                return False
            for app in self.apps.values():
                if (status := app.process.poll()) is not None:
                    if status not in (FENCED, FAILED, STUCK, -9):
                        self._report.violate(f"{app.client} ended with {status}: {app.output()}")
                    self._report.outcomes[f"{app.client} began again after {status}"] += 1
                    app.previous()
            time.sleep(0.02)
        return True


def play(directory: Path, steps: list[Step], twins: int, seed: int) -> FaultReport:
    """Run the steps on a new broker."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    broker = Broker(directory / "broker", settings)
    proxy = Proxy(port, broker.port, DOUBLED, seed)
    proxy.start()
    broker.start()
    try:
        report = play_on(directory, broker, proxy, steps, twins, seed)
        broker.stop()
    finally:
        proxy.stop()
        if broker.is_running:
            broker.kill_if_running()
    return report


def play_on(
    directory: Path, broker: Killable, proxy: Proxy, steps: list[Step], twins: int, seed: int
) -> FaultReport:
    """Run the steps on any broker that advertises the proxy."""
    report = FaultReport("clients and broker killed at the steps of transactions", seed)
    reader = Reader(broker.bootstrap, PARTITIONS)
    _prepare(broker.bootstrap, report)
    reader.start()
    runner = StepRunner(directory, broker, proxy, report)
    try:
        for step in steps:
            runner.play(step)
        for number in range(twins):
            runner.double(CLIENTS[number % len(CLIENTS)])
        runner.go_on()
        runner.stop()
    finally:
        for app in runner.apps.values():
            app.kill()
    ends = {app.number: _committed(broker.bootstrap, app.client) for app in runner.apps.values()}
    reader.finish()
    report.violations += [*reader.wrong, *check_history(reader.sides(), ends, {})]
    report.outcomes["requests that came twice"] = proxy.doubled
    _count(report, reader, ends)
    return report


def _count(report: FaultReport, reader: Reader, ends: dict[int, int]) -> None:
    report.acknowledged = sum(ends.values())
    for number, client in enumerate(CLIENTS):
        report.outcomes[f"{client}: inputs taken"] = ends[number]
    attempts = {entry.attempt for side in reader.sides() for part in side for entry in part}
    report.outcomes["transactions committed"] = len(attempts)
    report.outcomes["batches of aborted transactions not shown"] = reader.aborted_batches


def _prepare(address: str, report: FaultReport) -> None:
    """Create the topics and write the inputs."""
    with RawConnection(address) as connection:
        for side in SIDES:
            report.check(create(connection, side, PARTITIONS) == 0, f"{side} was not created")
        for client in CLIENTS:
            code = create(connection, f"{INPUTS}-{client}", configs=FOR_EVER)
            report.check(code == 0, "inputs were not created")
            for batch in _inputs():
                while (entry := append(connection, f"{INPUTS}-{client}", 0, batch)).error_code in (3, 5, 6):
                    time.sleep(0.02)
                report.check(entry.error_code == 0, f"an input was refused: {entry.error_code}")
        await_coordinators(connection, report)


def _inputs() -> Iterator[bytes]:
    for first in range(0, INPUT_COUNT, INPUTS_AT_ONCE):
        yield batch_of(*(b"%d" % number for number in range(first, first + INPUTS_AT_ONCE)))


def _committed(address: str, client: str) -> int:
    topic = offset_fetch.OffsetFetchRequestTopic(name=f"{INPUTS}-{client}", partition_indexes=(0,))
    request = offset_fetch.OffsetFetchRequest(
        group_id=f"group-{client}", topics=(topic,), require_stable=True
    )
    deadline = time.monotonic() + REACHED_SECONDS_MAX
    with RawConnection(address) as connection:
        while time.monotonic() < deadline:
            response = connection.exchange(request)
            code = response.error_code or response.topics[0].partitions[0].error_code
            if code not in (*NOT_THERE_YET, UNSTABLE):
                return max(int(response.topics[0].partitions[0].committed_offset), 0)
            time.sleep(0.05)
    raise AssertionError(f"OffsetFetch of {client} failed with {code}")
