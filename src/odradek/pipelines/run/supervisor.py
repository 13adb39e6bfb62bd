"""The supervisor of a pipeline: takes the lease, starts the driver, and restarts it after failures.

Exit codes: 0 done or stopped by SIGTERM, 1 failed, 130 interrupted. ``run_monitor.py`` reports the run.
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
from odradek.pipelines.checkpoint.plan_guard import PLAN_FILE, check_plan, plan_settings
from odradek.pipelines.checkpoint.start_offsets import recover_reset
from odradek.pipelines.monitoring.run_monitor import STATUS, RunMonitor, monitor_run
from odradek.pipelines.monitoring.run_status import RunState
from odradek.pipelines.monitoring.status import parse_run_status
from odradek.pipelines.query.marker_retention import check_retention
from odradek.pipelines.query.topic_checks import check_topics
from odradek.pipelines.run.driver_process import DriverProcess
from odradek.pipelines.run.failures import Restarts
from odradek.pipelines.run.session import log_file, process_environment
from odradek.pipelines.spec.model import Spec
from odradek.ports.clock import Clock

LOOPBACK: Final = "127.0.0.1"
STOP_S: Final = 20.0
"""Time after which a driver that was asked to stop is killed."""


class OutputOptions(NamedTuple):
    """Output of a run."""

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
    """Run a pipeline until it is done, fails permanently or is stopped; return the exit code.

    Raise errors that prevent the start: LeaseTaken, PlanChanged, JavaNotFound, ClientError and others.
    """
    arguments = ["--once"] if once else []
    output = OutputOptions(once, json, metrics_port, metrics_host)
    return _supervise(spec, arguments, master, output)


def replay(
    spec: Spec,
    *,
    replay_id: str,
    master: str | None = None,
    json: bool = False,
    metrics_port: int | None = None,
    metrics_host: str = LOOPBACK,
) -> int:
    """Write the window stored under this id again; return the exit code."""
    arguments = ["--replay", replay_id]
    output = OutputOptions(True, json, metrics_port, metrics_host)
    return _supervise(spec, arguments, master, output)


def _supervise(spec: Spec, arguments: list[str], master: str | None, output: OutputOptions) -> int:
    environment = process_environment(spec, master, os.environ)
    clock = system_environment().clock
    checkpoint = Checkpoint(spec.checkpoint)
    driver_arguments = [str(spec.file), *arguments, *(["--master", master] if master else [])]
    with ExitStack() as opened:
        opened.enter_context(leases.local_lock(spec))
        check_before(spec, checkpoint, clock)
        check_topics(spec, checkpoint.state())
        # The status file is about the pipeline's runs, not about replays.
        store = None if "--replay" in arguments else checkpoint
        before = None if store is None else parse_run_status(checkpoint.read_sidecar(STATUS))
        monitor = opened.enter_context(
            monitor_run(spec, clock, store=store, before=before, **output._asdict())
        )
        lease = None
        if spec.lease_brokers is not None:
            lease = opened.enter_context(leases.joining(spec, monitor.message))
        supervisor = Supervisor(spec, driver_arguments, environment, monitor, lease)
        with supervisor.handle_signals():
            return supervisor.run()


def check_before(spec: Spec, checkpoint: Checkpoint, clock: Clock) -> None:
    """Check that the checkpoint can continue with this pipeline file."""
    state = checkpoint.state()
    check_plan(spec, checkpoint.read_sidecar_json(PLAN_FILE), state)
    check_retention(spec, state, clock.wall_ms())


class Supervisor:
    """Runs drivers one after the other, until one succeeds, fails permanently, or the run is stopped."""

    def __init__(
        self,
        spec: Spec,
        arguments: list[str],
        environment: dict[str, str],
        monitor: RunMonitor,
        lease: leases.GroupLease | None,
    ) -> None:
        self._spec = spec
        self._arguments = arguments
        self._environment = environment
        self._monitor = monitor
        self._lease = lease
        self._restarts = Restarts(spec.restart)
        self._driver: DriverProcess | None = None
        self._signal: int | None = None
        self._is_stopping = threading.Event()
        self._lost_lease = False
        if lease is not None:
            lease.on_lost = self._lease_lost

    def run(self) -> int:
        """Run to the end; return the exit code."""
        while True:
            code, failure = self._run_driver()
            if self._is_stopping.is_set():
                self._monitor.close(RunState.STOPPED)
                return INTERRUPTED if self._signal == signal.SIGINT else 0
            if code == 0:
                self._monitor.close(RunState.DONE)
                return 0
            wait_ms = self._wait_ms(failure)
            self._monitor.driver_ended(code, None if wait_ms is None else wait_ms / 1000)
            if wait_ms is None:
                self._monitor.close(RunState.FAILED)
                return FAILED
            self._is_stopping.wait(wait_ms / 1000)

    def _wait_ms(self, failure: dict[str, object] | None) -> int | None:
        """Return the time until the restart; None if there is none."""
        if failure is not None and not failure.get("retry"):
            return None
        return self._restarts.wait_ms(made_progress=self._monitor.batches_since_start > 0)

    def _run_driver(self) -> tuple[int, dict[str, object] | None]:
        """Run one driver; return its exit code, and the failure it reported."""
        if self._is_stopping.is_set():
            return 1, None
        self._lost_lease = False
        driver = self._driver = DriverProcess(self._arguments, self._environment)
        failure: dict[str, object] | None = None
        try:
            self._monitor.driver_started(driver.pid)
            if self._is_stopping.is_set():
                self._stop_driver()
            self._acquire()
            driver.send("go")
            for line in driver.reports():
                if self._monitor.handle_line(line) == "failed":
                    failure = json_text.loads(line)
        except BaseException:
            driver.kill()
            raise
        finally:
            code = driver.finish()
            self._driver = None
        if code != 0 and failure is None and not self._is_stopping.is_set():
            self._monitor.failed(self._describe_exit(code))
        return code, failure

    def _acquire(self) -> None:
        """Wait for the lease; then the checkpoint is ours, and planned with the current pipeline file."""
        if self._lease is not None:
            self._lease.wait()
        checkpoint = Checkpoint(self._spec.checkpoint)
        recover_reset(checkpoint)
        checkpoint.write_sidecar(PLAN_FILE, json_text.dumps(plan_settings(self._spec), indent=1))

    def _describe_exit(self, code: int) -> str:
        if self._lost_lease:
            return "the driver was killed because the lease was lost; it is restarted once it is regained"
        exit_status = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        return f"the driver {exit_status} without a message; see {log_file(self._spec, self._environment)}"

    def _lease_lost(self) -> None:
        """Kill the driver at once, in the lease's thread: another runner may start from now on."""
        self._monitor.message(
            "the lease is lost: heartbeats of this runner did not reach the brokers in time"
        )
        self._lost_lease = True
        driver = self._driver
        if driver is not None:
            driver.kill()

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM stop the run; a second signal does not wait for the batch."""
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
        """Ask the driver to stop after its batch; kill it if it does not."""
        driver = self._driver
        if driver is None:
            return
        driver.send("stop")
        kill_timer = threading.Timer(STOP_S, driver.kill)
        kill_timer.daemon = True
        kill_timer.start()
