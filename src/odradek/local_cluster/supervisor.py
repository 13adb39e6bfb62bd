"""Starts and stops the members of a local cluster.

The identity of a process is stored before its command runs. So whatever ends a supervisor, and whenever, the
next command finds every process that runs. A supervisor keeps nothing in memory between two calls: several
may work on a cluster, one at a time by the lock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from typing import Final, NamedTuple

from odradek.local_cluster.broker_properties import (
    broker_properties,
    check_settings,
    differ_for_running,
    format_properties,
    min_in_sync,
    tick_ms,
)
from odradek.local_cluster.cluster_directory import ClusterDirectory
from odradek.local_cluster.cluster_spec import (
    ZOOKEEPER,
    ClusterSpec,
    broker_number,
    cluster_command,
    find_member,
    label,
)
from odradek.local_cluster.cluster_state import ClusterState
from odradek.local_cluster.environment import Environment
from odradek.local_cluster.errors import ClusterError
from odradek.local_cluster.member_order import start_batches, stop_batches
from odradek.local_cluster.status.cluster_view import (
    ClusterView,
    out_of_sync_reason,
    replica_counts,
    unready_reason,
)
from odradek.local_cluster.status.status_report import ClusterStatus, MemberProcess, make_status
from odradek.local_cluster.up_plan import ExistingCluster, UpOptions, check_ports, plan_up
from odradek.ports.processes import ProcessSignal, ProcessState

POLL_MS: Final = 100
LOCK_MS: Final = 10_000
START_MS: Final = 60_000
READY_MS: Final = 60_000
STOP_MS: Final = 30_000
GONE_MS: Final = 10_000
"""Time for a killed process to end."""

Report = Callable[[str], None]
"""Takes a line of progress."""
ReasonOf = Callable[[ClusterSpec, ClusterView | None, int], str | None]
"""Returns why a cluster is not as expected yet, from the view of a broker and ``min.insync.replicas``."""


class _UpPlan(NamedTuple):
    """The cluster to store, and members to start, to resume, and to stop because they are removed."""

    state: ClusterState
    missing: list[str]
    paused: list[str]
    removed: list[str]
    warnings: list[str]


class Supervisor:
    """Commands on the cluster of a directory."""

    def __init__(self, directory: ClusterDirectory, environment: Environment, report: Report) -> None:
        self._directory = directory
        self._environment = environment
        self._processes = environment.processes
        self._report = report

    async def up(self, options: UpOptions) -> list[str]:
        """Start the members that are missing, resume paused ones, stop removed brokers; return their names.

        Returns once every partition accepts acks=all. If a member does not start, those started by this call
        are stopped again.
        """
        await self._plan(options)
        self._directory.create()
        async with self._lock():
            plan = await self._plan(options)
            for warning in plan.warnings:
                self._report(f"warning: {warning}")
            await self._stop_all([plan.removed] if plan.removed else [])
            self._directory.save(plan.state)
            for member in plan.paused:
                self._signal(plan.state, member, ProcessSignal.RESUME)
                self._report(f"{label(member)} resumed")
            await self._start_all(plan.missing)
        changed = [*plan.paused, *plan.missing]
        if changed:
            await self._wait_until_ready(plan.state.spec)
        return [*changed, *plan.removed]

    async def _plan(self, options: UpOptions) -> _UpPlan:
        """Return what to start; raise ClusterError, before anything is written, if it cannot start."""
        self._directory.check()
        previous = self._directory.load()
        existing = None if previous is None else await self._existing(previous, options)
        choose_port = self._environment.choose_port
        spec = plan_up(existing, options, str(self._directory.path), choose_port)
        warnings = check_settings(spec)
        running = [] if existing is None else list(existing.running)
        missing = [member for member in spec.members if member not in running]
        if ZOOKEEPER in missing:
            self._environment.zookeeper_command()
        check_ports(spec, missing, self._environment.is_port_free)
        kept = [member for member in running if member in spec.members and member != ZOOKEEPER]
        if previous is not None and kept and differ_for_running(previous.spec, spec):
            count = previous.spec.brokers
            warnings.append(f"running brokers keep the settings of a cluster of {count} until they restart")
        processes = {} if previous is None else previous.processes
        known = {member: identity for member, identity in processes.items() if member in spec.members}
        state = ClusterState(spec, known)
        removed = [member for member in running if member not in spec.members]
        return _UpPlan(state, missing, self._in_state(state, ProcessState.PAUSED), removed, warnings)

    async def _existing(self, state: ClusterState, options: UpOptions) -> ExistingCluster:
        running = self._running(state)
        if options.brokers is None or options.brokers >= state.spec.brokers:
            return ExistingCluster(state.spec, running)
        view = await self._view(state)
        return ExistingCluster(state.spec, running, None if view is None else replica_counts(view))

    async def down(self) -> list[str]:
        """Stop all members: brokers by controlled shutdown, then ZooKeeper; return their names."""
        async with self._locked_state() as state:
            running = self._running(state)
            view = await self._view(state)
            await self._stop_all(stop_batches(running, None if view is None else view.controller))
        return running

    async def start(self, name: str) -> bool:
        """Start a member; return False if it runs already."""
        async with self._locked_state() as state:
            member = find_member(state.spec, name)
            if member in self._running(state):
                return False
            if member != ZOOKEEPER and ZOOKEEPER not in self._running(state):
                raise ClusterError(
                    "ZooKeeper is not running, and a broker cannot start without it; start what is missing "
                    f"with {self._command('up')}"
                )
            check_ports(state.spec, [member], self._environment.is_port_free)
            await self._start_all([member])
        if member != ZOOKEEPER:
            await self._wait_until_registered(state, broker_number(member))
        return True

    async def stop(self, name: str) -> bool:
        """Stop a member, a broker by controlled shutdown; return False if it is not running."""
        async with self._locked_state() as state:
            member = find_member(state.spec, name)
            if member not in self._running(state):
                return False
            await self._stop_all([[member]])
        return True

    async def kill(self, name: str) -> bool:
        """Kill a member; return False if it is not running."""
        async with self._locked_state() as state:
            member = find_member(state.spec, name)
            is_sent = self._signal(state, member, ProcessSignal.KILL)
            await self._wait(lambda: member not in self._running(state), GONE_MS)
        return is_sent

    async def pause(self, name: str) -> bool:
        """Pause a member; return False if it is paused already."""
        return await self._change(name, ProcessSignal.PAUSE, ProcessState.PAUSED)

    async def resume(self, name: str) -> bool:
        """Resume a paused member; return False if it is not paused."""
        return await self._change(name, ProcessSignal.RESUME, ProcessState.RUNNING)

    async def wait_until_in_sync(self, timeout_s: int) -> None:
        """Wait until all brokers are registered and all replicas in sync."""
        spec = self._directory.require().spec
        if reason := await self._wait_for_view(out_of_sync_reason, spec, timeout_s * 1000):
            raise ClusterError(f"not in sync after {timeout_s} s: {reason}; see {self._command('status')}")

    async def status(self) -> ClusterStatus:
        """Return the status of the cluster."""
        state = self._directory.require()
        view = await self._view(state)
        processes = {member: self._member_process(state, member) for member in state.spec.members}
        return make_status(str(self._directory.path), state.spec, processes, view, min_in_sync(state.spec))

    def is_stopped(self) -> bool:
        """Return whether no member is running."""
        state = self._directory.load()
        return state is None or not self._running(state)

    async def _change(self, name: str, signal: ProcessSignal, target: ProcessState) -> bool:
        async with self._locked_state() as state:
            member = find_member(state.spec, name)
            if member not in self._running(state):
                hint = f"start it with {self._command(f'start {_argument(member)}')}"
                raise ClusterError(f"{label(member)} is not running; {hint}")
            if self._state(state, member) is target:
                return False
            self._signal(state, member, signal)
            await self._wait(lambda: self._state(state, member) is target, GONE_MS)
        return True

    async def _start_all(self, missing: list[str]) -> None:
        started: list[str] = []
        try:
            for batch in start_batches(missing):
                await self._wait_for_former_sessions(batch)
                positions = {}
                for member in batch:
                    started.append(member)
                    positions[member] = self._launch(member)
                for member, position in positions.items():
                    await self._wait_until_started(member, position)
        except ClusterError:
            await self._stop_all(stop_batches(started, None))
            raise

    async def _wait_for_former_sessions(self, members: list[str]) -> None:
        """Wait until no killed process of these members is registered: their brokers would exit."""
        port = self._directory.require().spec.zookeeper_port
        numbers = {broker_number(member) for member in members if member != ZOOKEEPER}

        def registered() -> set[int]:
            return numbers.intersection(self._environment.registered_brokers(port))

        for number in sorted(registered() if numbers else ()):
            self._report(f"broker {number}: waiting for the session of its last process to expire")
        await self._wait(lambda: not numbers or not registered(), START_MS)

    def _launch(self, member: str) -> int:
        """Start the process of a member; return the position in its log where its output begins."""
        state = self._directory.require()
        self._directory.member(member).mkdir(exist_ok=True)
        command = self._zookeeper(state.spec) if member == ZOOKEEPER else self._broker(state.spec, member)
        position = self._directory.prepare_log(member)
        held = self._processes.hold(command, str(self._directory.root), str(self._directory.log(member)))
        # A crash before this line ends the held process; after it, the next command finds the process.
        self._directory.save(state.with_process(member, held.identity))
        held.run()
        return position

    def _zookeeper(self, spec: ClusterSpec) -> list[str]:
        config = self._directory.member(ZOOKEEPER) / "zoo.cfg"
        data = self._directory.data(ZOOKEEPER)
        text = self._environment.zookeeper_config(data, spec.zookeeper_port, tick_ms(spec))
        config.write_text(text, encoding="utf-8")
        return [*self._environment.zookeeper_command(), str(config)]

    def _broker(self, spec: ClusterSpec, member: str) -> list[str]:
        config = self._directory.member(member) / "server.properties"
        properties = broker_properties(spec, broker_number(member), str(self._directory.data(member)))
        config.write_text(format_properties(properties), encoding="utf-8")
        return [*self._environment.broker_command, "--config", str(config)]

    async def _wait_until_started(self, member: str, position: int) -> None:
        state = self._directory.require()
        port = state.spec.port_of(member)

        def has_ended() -> bool:
            return self._state(state, member) is ProcessState.GONE

        def is_serving() -> bool:
            if member == ZOOKEEPER:
                return self._environment.is_zookeeper_serving(port, self._directory.data(ZOOKEEPER))
            return self._environment.is_listening(port)

        await self._wait(lambda: has_ended() or is_serving(), START_MS)
        if has_ended() or not is_serving():
            verb = "ended at its start" if has_ended() else f"did not start within {START_MS // 1000} s"
            raise ClusterError(
                f"{label(member)} {verb}: {self._directory.error_in_log(member, position)}; see "
                f"{self._directory.path / member / self._directory.log(member).name}"
            )
        process_id = state.processes[member].process_id
        self._report(f"{label(member):<10}  {state.spec.member_address(member):<16}  pid {process_id}")

    async def _wait_until_ready(self, spec: ClusterSpec) -> None:
        if reason := await self._wait_for_view(unready_reason, spec, READY_MS):
            raise ClusterError(
                f"the cluster is running, but not ready after {READY_MS // 1000} s: {reason}; see "
                f"{self._command('status')} and {self._command('logs')}"
            )

    async def _wait_for_view(self, reason_of: ReasonOf, spec: ClusterSpec, timeout_ms: int) -> str | None:
        """Wait until there is no reason left to wait, or for a time; return the last reason."""
        clock = self._environment.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        while reason := reason_of(spec, await self._view(self._directory.require()), min_in_sync(spec)):
            if clock.monotonic_ms() >= deadline_ms:
                return reason
            await clock.sleep_ms(POLL_MS)
        return None

    async def _wait_until_registered(self, state: ClusterState, number: int) -> None:
        def reason_of(spec: ClusterSpec, view: ClusterView | None, min_in_sync: int) -> str | None:
            return None if view is not None and number in view.registered else "not registered"

        if await self._wait_for_view(reason_of, state.spec, READY_MS):
            raise ClusterError(
                f"broker {number} is running, but not registered after {READY_MS // 1000} s; see "
                f"{self._command(f'logs {number}')}"
            )

    async def _stop_all(self, batches: list[list[str]]) -> None:
        for batch in batches:
            state = self._directory.require()
            for member in batch:
                self._signal(state, member, ProcessSignal.TERMINATE)
                # A paused process is terminated once it is resumed.
                self._signal(state, member, ProcessSignal.RESUME)
            await self._wait(lambda: not self._alive(state, batch), STOP_MS)  # noqa: B023
            for member in self._alive(state, batch):
                self._signal(state, member, ProcessSignal.KILL)
                self._report(f"{label(member)} did not stop within {STOP_MS // 1000} s; killed")
            await self._wait(lambda: not self._alive(state, batch), GONE_MS)  # noqa: B023
            for member in batch:
                self._report(f"{label(member)} stopped")

    def _command(self, arguments: str) -> str:
        return cluster_command(arguments, str(self._directory.path))

    async def _wait(self, holds: Callable[[], bool], timeout_ms: int) -> None:
        """Wait until something holds, or for a time."""
        clock = self._environment.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        while not holds() and clock.monotonic_ms() < deadline_ms:
            await clock.sleep_ms(POLL_MS)

    @asynccontextmanager
    async def _lock(self) -> AsyncIterator[None]:
        """Hold the lock of the cluster; wait for another command to release it."""
        deadline_ms = self._environment.clock.monotonic_ms() + LOCK_MS
        with ExitStack() as stack:
            while not stack.enter_context(self._directory.try_lock()):
                stack.close()
                if self._environment.clock.monotonic_ms() >= deadline_ms:
                    raise ClusterError(
                        f"another `odradek cluster` command is changing {self._directory.path}; wait for it"
                    )
                await self._environment.clock.sleep_ms(POLL_MS)
            yield

    @asynccontextmanager
    async def _locked_state(self) -> AsyncIterator[ClusterState]:
        """Hold the lock of a cluster that exists."""
        self._directory.require()
        async with self._lock():
            yield self._directory.require()

    async def _view(self, state: ClusterState) -> ClusterView | None:
        running = self._in_state(state, ProcessState.RUNNING)
        numbers = [broker_number(member) for member in running if member != ZOOKEEPER]
        return await self._environment.observe(state.spec, numbers)

    def _member_process(self, state: ClusterState, member: str) -> MemberProcess:
        process_state = self._state(state, member)
        if process_state is ProcessState.GONE:
            return MemberProcess(process_state)
        identity = state.processes[member]
        return MemberProcess(process_state, identity.process_id, self._processes.memory_bytes(identity))

    def _state(self, state: ClusterState, member: str) -> ProcessState:
        identity = state.processes.get(member)
        return ProcessState.GONE if identity is None else self._processes.state(identity)

    def _running(self, state: ClusterState) -> list[str]:
        """Return the members that have a process, paused or not."""
        return self._alive(state, state.processes)

    def _alive(self, state: ClusterState, members: Iterable[str]) -> list[str]:
        return [member for member in members if self._state(state, member) is not ProcessState.GONE]

    def _in_state(self, state: ClusterState, target: ProcessState) -> list[str]:
        return [member for member in state.processes if self._state(state, member) is target]

    def _signal(self, state: ClusterState, member: str, signal: ProcessSignal) -> bool:
        identity = state.processes.get(member)
        return identity is not None and self._processes.send(identity, signal)


def _argument(member: str) -> str:
    return member if member == ZOOKEEPER else str(broker_number(member))
