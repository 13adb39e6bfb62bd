"""The supervisor of a pipeline: takes the lease, starts the driver and starts it again when it fails.

Exit codes: 0 done or stopped by SIGTERM, 1 failed, 130 interrupted. What happens is told by ``listener.py``.
"""

from __future__ import annotations

import json as json_text
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from odradek.cli.errors import FAILED, INTERRUPTED
from odradek.client.environment import system_environment
from odradek.pipelines.checkpoint import lease as leases
from odradek.pipelines.checkpoint.checkpoint import Checkpoint
from odradek.pipelines.checkpoint.plan_guard import PLAN_FILE, check_plan, planning_of
from odradek.pipelines.checkpoint.start_offsets import settle
from odradek.pipelines.monitoring.run_monitor import STATUS, RunMonitor, watching
from odradek.pipelines.monitoring.run_status import RunState
from odradek.pipelines.monitoring.status import read_standing
from odradek.pipelines.query.marker_retention import check_retention
from odradek.pipelines.query.topic_checks import check_topics
from odradek.pipelines.run.driver_process import DriverProcess
from odradek.pipelines.run.restarts import Restarts
from odradek.pipelines.run.session import log_file, process_environment
from odradek.pipelines.spec.model import Spec
from odradek.ports.clock import Clock

LOOPBACK: Final = "127.0.0.1"
STOP_S: Final = 20.0
"""A driver that was told to stop has so long before it is killed."""


class OutputOptions(NamedTuple):
    """To whom a run is told, and how."""

    once: bool
    json: bool
    metrics_port: int | None
    metrics_host: str


def run(
    spec: Spec,
    *,
    once: bool,
    master: str | None = None,
    json: bool = False,
    metrics_port: int | None = None,
    metrics_host: str = LOOPBACK,
) -> int:
    """Run a pipeline until it is done, fails for good or is stopped; gives the exit code.

    Raises what keeps it from starting at all: LeaseTaken, PlanChanged, JavaNotFound, ClientError and their
    like.
    """
    arguments = ["--once"] if once else []
    told = OutputOptions(once, json, metrics_port, metrics_host)
    return _supervised(spec, arguments, master, told)


def replay(
    spec: Spec,
    *,
    replay_id: str,
    master: str | None = None,
    json: bool = False,
    metrics_port: int | None = None,
    metrics_host: str = LOOPBACK,
) -> int:
    """Write the window that is pinned under this id again; gives the exit code."""
    arguments = ["--replay", replay_id]
    told = OutputOptions(True, json, metrics_port, metrics_host)
    return _supervised(spec, arguments, master, told)


def _supervised(spec: Spec, arguments: list[str], master: str | None, told: OutputOptions) -> int:
    environment = process_environment(spec, master, os.environ)
    clock = system_environment().clock
    checkpoint = Checkpoint(spec.checkpoint)
    given = [str(spec.file), *arguments, *(["--master", master] if master else [])]
    with ExitStack() as opened:
        opened.enter_context(leases.local_lock(spec))
        check_before(spec, checkpoint, clock)
        check_topics(spec, checkpoint.state())
        # The status file is about the pipeline's own runs, and a replay is none.
        record = None if "--replay" in arguments else checkpoint
        before = None if record is None else read_standing(checkpoint.read_sidecar(STATUS))
        listener = opened.enter_context(watching(spec, clock, record=record, before=before, **told._asdict()))
        lease = None
        if spec.lease_brokers is not None:
            lease = opened.enter_context(leases.joining(spec, listener.say))
        supervisor = Supervisor(spec, given, environment, listener, lease)
        with supervisor.hearing_signals():
            return supervisor.run()


def check_before(spec: Spec, checkpoint: Checkpoint, clock: Clock) -> None:
    """See that the checkpoint can go on with this file."""
    state = checkpoint.state()
    check_plan(spec, checkpoint.read_sidecar_json(PLAN_FILE), state)
    check_retention(spec, state, clock.wall_ms())


class Supervisor:
    """Drivers one after the other, until one ends well, fails for good, or the run is stopped."""

    def __init__(
        self,
        spec: Spec,
        arguments: list[str],
        environment: dict[str, str],
        listener: RunMonitor,
        lease: leases.GroupLease | None,
    ) -> None:
        self._spec = spec
        self._arguments = arguments
        self._environment = environment
        self._listener = listener
        self._lease = lease
        self._restarts = Restarts(spec.restart)
        self._driver: DriverProcess | None = None
        self._signal: int | None = None
        self._is_stopping = threading.Event()
        self._lost_lease = False
        if lease is not None:
            lease.on_lost = self._lease_lost

    def run(self) -> int:
        """The exit code."""
        while True:
            code, failure = self._one_driver()
            if self._is_stopping.is_set():
                self._listener.close(RunState.STOPPED)
                return INTERRUPTED if self._signal == signal.SIGINT else 0
            if code == 0:
                self._listener.close(RunState.DONE)
                return 0
            wait_ms = self._wait_ms(failure)
            self._listener.driver_ended(code, None if wait_ms is None else wait_ms / 1000)
            if wait_ms is None:
                self._listener.close(RunState.FAILED)
                return FAILED
            self._is_stopping.wait(wait_ms / 1000)

    def _wait_ms(self, failure: dict[str, object] | None) -> int | None:
        """How long until the next start; None if there is none."""
        if failure is not None and not failure.get("retry"):
            return None
        return self._restarts.wait_ms(made_progress=self._listener.batches_since_start > 0)

    def _one_driver(self) -> tuple[int, dict[str, object] | None]:
        """One driver from start to end: its exit code, and the failure it told."""
        if self._is_stopping.is_set():
            return 1, None
        self._lost_lease = False
        driver = self._driver = DriverProcess(self._arguments, self._environment)
        failure: dict[str, object] | None = None
        try:
            self._listener.driver_started(driver.pid)
            if self._is_stopping.is_set():
                self._stop_driver()
            self._own()
            driver.order("go")
            for line in driver.reports():
                if self._listener.hear(line) == "failed":
                    failure = json_text.loads(line)
        except BaseException:
            driver.kill()
            raise
        finally:
            code = driver.finish()
            self._driver = None
        if code != 0 and failure is None and not self._is_stopping.is_set():
            self._listener.failed(self._unexplained(code))
        return code, failure

    def _own(self) -> None:
        """Wait for the lease; from here on the checkpoint is ours, and planned by what the file says now."""
        if self._lease is not None:
            self._lease.wait()
        checkpoint = Checkpoint(self._spec.checkpoint)
        settle(checkpoint)
        checkpoint.write_sidecar(PLAN_FILE, json_text.dumps(planning_of(self._spec), indent=1))

    def _unexplained(self, code: int) -> str:
        if self._lost_lease:
            return "the driver was ended because the lease was lost; it is started again once it is regained"
        words = f"the driver was ended by signal {-code}" if code < 0 else f"the driver ended with {code}"
        return f"{words} and did not say why; see {log_file(self._spec, self._environment)}"

    def _lease_lost(self) -> None:
        """Somebody else may run the pipeline from now on: the driver ends at once, in the lease's thread."""
        self._listener.say("the lease is lost: the brokers have not heard of this runner in time")
        self._lost_lease = True
        driver = self._driver
        if driver is not None:
            driver.kill()

    @contextmanager
    def hearing_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM stop the run; a second one does so without waiting for the batch."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        if self._is_stopping.is_set():
            if self._driver is not None:
                self._driver.kill()
            return
        self._signal = number
        self._is_stopping.set()
        self._stop_driver()

    def _stop_driver(self) -> None:
        """Ask the driver to end after its batch; one that does not is killed."""
        driver = self._driver
        if driver is None:
            return
        driver.order("stop")
        last = threading.Timer(STOP_S, driver.kill)
        last.daemon = True
        last.start()
