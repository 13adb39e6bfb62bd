"""The supervisor on virtual time, with processes in memory and files in a temporary directory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from odradek.client.values import PartitionInfo
from odradek.local_cluster.cluster_directory import LOG_BYTES_MAX, ClusterDirectory
from odradek.local_cluster.cluster_spec import ClusterSpec
from odradek.local_cluster.cluster_state import ClusterState
from odradek.local_cluster.environment import Environment
from odradek.local_cluster.errors import ClusterError
from odradek.local_cluster.status.cluster_view import ClusterView
from odradek.local_cluster.supervisor import READY_MS, START_MS, STOP_MS, Supervisor
from odradek.local_cluster.up_plan import UpOptions
from odradek.ports.processes import ProcessIdentity, ProcessSignal, ProcessState
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.processes import MemoryProcesses

TERMINATE, KILL = ProcessSignal.TERMINATE, ProcessSignal.KILL
PAUSE, RESUME = ProcessSignal.PAUSE, ProcessSignal.RESUME


class Machine:
    """A machine in memory. Members listen as soon as they run, unless they are in ``silent``."""

    def __init__(self, path: Path) -> None:
        self.directory = ClusterDirectory(path)
        self.processes = MemoryProcesses()
        self.silent: set[str] = set()
        self.failing: set[str] = set()
        self.busy_ports: set[int] = set()
        self.java_error: str | None = None
        self.controller: int | None = 1
        self.partitions: tuple[PartitionInfo, ...] = ()
        self.former_sessions: Callable[[], set[int]] = set
        self.lines: list[str] = []
        self.processes.on_run = self._on_run
        self.clock: VirtualClock | None = None

    @property
    def state(self) -> ClusterState:
        return self.directory.require()

    def supervisor(self) -> Supervisor:
        self.clock = VirtualClock(asyncio.get_running_loop())
        environment = Environment(
            self.processes,
            self.clock,
            lambda: 21810,
            lambda port: port not in self.busy_ports and not self.is_listening(port),
            self.is_listening,
            lambda port, data: self.is_listening(port),
            lambda port: self.former_sessions(),
            self._zookeeper_command,
            lambda data, port, tick_ms: f"{data} {port} {tick_ms}\n",
            ["serve"],
            self.observe,
        )
        return Supervisor(self.directory, environment, self.lines.append)

    def is_listening(self, port: int) -> bool:
        state = self.directory.load()
        return state is not None and any(
            state.spec.port_of(member) == port
            and identity in self.processes.running_commands
            and member not in self.silent
            for member, identity in state.processes.items()
        )

    async def observe(self, spec: ClusterSpec, brokers: Collection[int]) -> ClusterView | None:
        if not brokers:
            return None
        registered = frozenset(number for number in brokers if f"broker-{number}" not in self.silent)
        return ClusterView("id", self.controller, registered, self.partitions, frozenset(), {})

    def running(self) -> list[str]:
        return [
            member
            for member, identity in self.state.processes.items()
            if self.processes.state(identity) is not ProcessState.GONE
        ]

    def signals_by_member(self) -> list[tuple[str, ProcessSignal]]:
        names = {identity: member for member, identity in self.state.processes.items()}
        return [(names[identity], signal) for identity, signal in self.processes.signals]

    def _zookeeper_command(self) -> list[str]:
        if self.java_error is not None:
            raise ClusterError(self.java_error)
        return ["java"]

    def _on_run(self, identity: ProcessIdentity) -> None:
        (member,) = [name for name, stored in self.state.processes.items() if stored == identity]
        if member in self.failing:
            self.directory.log(member).write_text("starting\nodradek: log.dirs is full\n\n")
            self.processes.end(identity)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "c")


def run(machine: Machine, *steps: Callable[[Supervisor], Awaitable[Any]]) -> list[Any]:
    """Run each step with a supervisor of its own, as a command of its own would."""

    async def main() -> list[Any]:
        return [await step(machine.supervisor()) for step in steps]

    return run_virtually(main)


def up(**options: Any) -> Callable[[Supervisor], Awaitable[Any]]:
    return lambda supervisor: supervisor.up(UpOptions(**options))


def test_up_starts_zookeeper_then_brokers(machine: Machine) -> None:
    (started,) = run(machine, up(brokers=2, racks=("a", "b")))
    assert started == ["zookeeper", "broker-1", "broker-2"]
    commands = list(machine.processes.commands.values())
    assert [command[0] for command in commands] == ["java", "serve", "serve"]
    properties = (machine.directory.member("broker-2") / "server.properties").read_text()
    assert "broker.id=2\nbroker.rack=b\nlisteners=PLAINTEXT://127.0.0.1:9093\n" in properties
    config = (machine.directory.member("zookeeper") / "zoo.cfg").read_text()
    assert config == f"{machine.directory.data('zookeeper')} 21810 1000\n"
    assert machine.lines == [
        "ZooKeeper   127.0.0.1:21810   pid 100",
        "broker 1    127.0.0.1:9092    pid 101",
        "broker 2    127.0.0.1:9093    pid 102",
    ]


def test_brokers_wait_for_zookeeper(machine: Machine) -> None:
    machine.silent = {"zookeeper"}
    with pytest.raises(ClusterError, match=f"ZooKeeper did not start within {START_MS // 1000} s: no output"):
        run(machine, up())
    assert len(machine.processes.commands) == 1
    assert machine.running() == []


def test_up_on_a_running_cluster_starts_nothing(machine: Machine) -> None:
    _, started = run(machine, up(), up())
    assert started == []
    assert len(machine.processes.commands) == 4


def test_up_starts_what_is_missing_and_resumes_what_is_paused(machine: Machine) -> None:
    results = run(
        machine,
        up(),
        lambda supervisor: supervisor.kill("2"),
        lambda supervisor: supervisor.pause("3"),
        up(),
    )
    assert results[1:] == [True, True, ["broker-3", "broker-2"]]
    assert machine.running() == ["zookeeper", "broker-1", "broker-2", "broker-3"]


def test_running_cluster_grows(machine: Machine) -> None:
    _, started = run(machine, up(brokers=1), up(brokers=3))
    assert started == ["broker-2", "broker-3"]
    assert machine.state.spec.brokers == 3
    assert "warning: running brokers keep the settings of a cluster of 1 until they restart" in machine.lines


def test_same_settings_need_no_restart(machine: Machine) -> None:
    run(machine, up(brokers=3), up(brokers=4))
    assert not any(line.startswith("warning") for line in machine.lines)


def test_broker_without_replicas_is_stopped_and_removed(machine: Machine) -> None:
    machine.partitions = (PartitionInfo("a", 0, 1, (1, 3), (1, 3)),)
    run(machine, up())
    with pytest.raises(ClusterError, match="broker 3 has 1 replicas"):
        run(machine, up(brokers=2))
    machine.partitions = (PartitionInfo("a", 0, 1, (1, 2), (1, 2)),)
    assert run(machine, up(brokers=2)) == [["broker-3"]]
    assert machine.running() == ["zookeeper", "broker-1", "broker-2"]
    assert len(machine.processes.running_commands) == 3
    assert run(machine, up(brokers=3)) == [["broker-3"]]


def test_member_that_fails_to_start_is_reported_and_the_others_stop(machine: Machine) -> None:
    machine.failing = {"broker-2"}
    problem = "broker 2 ended at its start: log.dirs is full; see .*c/broker-2/broker.log"
    with pytest.raises(ClusterError, match=problem):
        run(machine, up())
    assert machine.running() == []
    machine.failing = set()
    (started,) = run(machine, up())
    assert len(started) == 4


def test_member_that_fails_leaves_those_that_ran_before(machine: Machine) -> None:
    run(machine, up(brokers=1))
    machine.failing = {"broker-2"}
    with pytest.raises(ClusterError, match="broker 2 ended"):
        run(machine, up(brokers=2))
    assert machine.running() == ["zookeeper", "broker-1"]


def test_refused_start_writes_nothing(machine: Machine) -> None:
    machine.java_error = "no Java"
    with pytest.raises(ClusterError, match="no Java"):
        run(machine, up())
    machine.java_error, machine.busy_ports = None, {9093}
    with pytest.raises(ClusterError, match="port 9093"):
        run(machine, up())
    with pytest.raises(ClusterError, match=r"log.retention.hours must be"):
        run(machine, up(settings={"log.retention.hours": "x"}))
    assert not machine.directory.root.exists()


def test_cluster_that_does_not_become_ready_keeps_running(machine: Machine) -> None:
    machine.controller = None
    with pytest.raises(
        ClusterError, match=f"not ready after {READY_MS // 1000} s: no controller; see .*status"
    ):
        run(machine, up())
    assert len(machine.running()) == 4


def test_down_stops_the_controller_after_the_others_and_zookeeper_last(machine: Machine) -> None:
    machine.controller = 2
    _, stopped = run(machine, up(), lambda supervisor: supervisor.down())
    assert sorted(stopped) == ["broker-1", "broker-2", "broker-3", "zookeeper"]
    assert machine.signals_by_member() == [
        (member, TERMINATE) for member in ("broker-1", "broker-3", "broker-2", "zookeeper")
    ]
    assert machine.running() == []
    assert run(machine, lambda supervisor: supervisor.down()) == [[]]


def test_down_resumes_paused_brokers_so_that_they_can_stop(machine: Machine) -> None:
    run(machine, up(), lambda supervisor: supervisor.pause("2"), lambda supervisor: supervisor.down())
    assert [signal for member, signal in machine.signals_by_member() if member == "broker-2"] == [
        PAUSE,
        TERMINATE,
        RESUME,
    ]
    assert machine.running() == []


def test_broker_that_does_not_stop_is_killed(machine: Machine) -> None:
    run(machine, up())
    machine.processes.on_terminate = lambda identity: identity != machine.state.processes["broker-3"]
    run(machine, lambda supervisor: supervisor.down())
    assert f"broker 3 did not stop within {STOP_MS // 1000} s; killed" in machine.lines
    assert ("broker-3", KILL) in machine.signals_by_member()
    assert machine.running() == []


def test_broker_is_stopped_and_started(machine: Machine) -> None:
    results = run(
        machine,
        up(),
        lambda supervisor: supervisor.stop("2"),
        lambda supervisor: supervisor.stop("2"),
        lambda supervisor: supervisor.start("2"),
        lambda supervisor: supervisor.start("2"),
    )
    assert results[1:] == [True, False, True, False]
    assert len(machine.running()) == 4


def test_broker_does_not_start_without_zookeeper(machine: Machine) -> None:
    run(machine, up(), *(_kill(name) for name in ("zookeeper", "1")))
    with pytest.raises(ClusterError, match=r"ZooKeeper is not running.*`odradek cluster up -d "):
        run(machine, lambda supervisor: supervisor.start("1"))
    assert run(machine, lambda supervisor: supervisor.start("zookeeper")) == [True]


def _kill(name: str) -> Callable[[Supervisor], Awaitable[bool]]:
    return lambda supervisor: supervisor.kill(name)


def test_broker_starts_once_the_session_of_its_killed_process_has_expired(machine: Machine) -> None:
    starts: list[bool] = []

    async def start(supervisor: Supervisor) -> None:
        assert machine.clock is not None
        clock, end_ms = machine.clock, machine.clock.monotonic_ms() + 4000
        machine.former_sessions = lambda: {2} if clock.monotonic_ms() < end_ms else set()
        machine.processes.on_run = lambda identity: starts.append(clock.monotonic_ms() >= end_ms)
        await supervisor.start("2")

    run(machine, up(), _kill("2"), start)
    assert starts == [True]
    assert "broker 2: waiting for the session of its last process to expire" in machine.lines


def test_broker_that_does_not_register_is_reported(machine: Machine) -> None:
    run(machine, up(), _kill("2"))

    async def start_unregistered(supervisor: Supervisor) -> bool:
        machine.controller = None
        observe = machine.observe

        async def without_second(spec: ClusterSpec, brokers: Collection[int]) -> ClusterView | None:
            view = await observe(spec, brokers)
            return None if view is None else view._replace(registered=view.registered - {2})

        supervisor._environment = supervisor._environment._replace(observe=without_second)
        return await supervisor.start("2")

    with pytest.raises(
        ClusterError, match=r"broker 2 is running, but not registered .*`odradek cluster logs 2"
    ):
        run(machine, start_unregistered)


def test_killed_broker_is_gone_and_pausing_it_is_an_error(machine: Machine) -> None:
    results = run(machine, up(), _kill("2"), _kill("2"))
    assert results[1:] == [True, False]
    problem = "broker 2 is not running; start it with `odradek cluster start 2"
    with pytest.raises(ClusterError, match=problem):
        run(machine, lambda supervisor: supervisor.pause("2"))
    with pytest.raises(ClusterError, match=problem):
        run(machine, lambda supervisor: supervisor.resume("2"))


def test_process_with_the_id_of_a_member_is_left_alone(machine: Machine) -> None:
    run(machine, up())
    second = machine.state.processes["broker-2"]
    machine.processes.end(second)
    stranger = machine.processes.hold(["sleep"], "", "").identity
    assert stranger.process_id == second.process_id
    run(machine, _kill("2"), lambda supervisor: supervisor.down())
    assert machine.processes.state(stranger) is ProcessState.RUNNING


def test_orphans_of_a_supervisor_that_was_killed_are_stopped(machine: Machine) -> None:
    class Crash(BaseException):
        pass

    def crash(identity: ProcessIdentity) -> None:
        if len(machine.processes.commands) == 3:
            raise Crash

    machine.processes.on_run = crash
    with pytest.raises(Crash):
        run(machine, up())
    assert machine.running() == ["zookeeper", "broker-1", "broker-2"]
    machine.processes.on_run = lambda identity: None
    run(machine, lambda supervisor: supervisor.down())
    assert machine.running() == []
    assert all(
        machine.processes.state(identity) is ProcessState.GONE for identity in machine.processes.commands
    )


def test_identity_is_stored_before_the_command_runs(machine: Machine) -> None:
    stored: list[bool] = []
    machine.processes.on_run = lambda identity: stored.append(identity in machine.state.processes.values())
    run(machine, up())
    assert stored == [True] * 4


def test_commands_wait_for_each_other_then_give_up(machine: Machine) -> None:
    run(machine, up(brokers=1))
    with machine.directory.try_lock() as is_locked:
        assert is_locked
        with pytest.raises(ClusterError, match="another `odradek cluster` command is changing"):
            run(machine, _kill("1"))
    assert run(machine, _kill("1")) == [True]


@pytest.mark.parametrize("name", ["down", "status"])
def test_commands_need_a_cluster_and_leave_the_directory_alone(machine: Machine, name: str) -> None:
    machine.directory.root.mkdir()
    with pytest.raises(ClusterError, match=r"no cluster in .*; start one with `odradek cluster up -d "):
        run(machine, lambda supervisor: getattr(supervisor, name)())
    assert list(machine.directory.root.iterdir()) == []


def test_status_of_running_and_killed_members(machine: Machine) -> None:
    results = run(machine, up(), _kill("3"), lambda supervisor: supervisor.status())
    status = results[-1]
    assert [broker.state for broker in status.brokers] == ["running", "running", "stopped"]
    assert status.brokers[0].process_id == machine.state.processes["broker-1"].process_id
    assert status.controller == 1
    assert not run(machine, lambda supervisor: _is_stopped(supervisor))[0]
    run(machine, lambda supervisor: supervisor.down())
    assert run(machine, lambda supervisor: _is_stopped(supervisor))[0]


async def _is_stopped(supervisor: Supervisor) -> bool:
    return supervisor.is_stopped()


def test_wait_ends_when_all_brokers_are_registered(machine: Machine) -> None:
    run(machine, up(), lambda supervisor: supervisor.wait_until_in_sync(10), _kill("2"))
    with pytest.raises(ClusterError, match="not in sync after 10 s: not registered: broker 2; see `odradek"):
        run(machine, lambda supervisor: supervisor.wait_until_in_sync(10))


def test_large_log_is_put_aside_at_the_next_start(machine: Machine) -> None:
    run(machine, up(brokers=1), _kill("1"))
    log = machine.directory.log("broker-1")
    log.write_bytes(b"x" * (LOG_BYTES_MAX + 1))
    run(machine, lambda supervisor: supervisor.start("1"))
    assert log.with_suffix(".log.1").stat().st_size == LOG_BYTES_MAX + 1
    assert not log.exists()


def test_damaged_file_is_reported(machine: Machine) -> None:
    run(machine, up(brokers=1))
    (machine.directory.root / "cluster.json").write_text("{")
    with pytest.raises(ClusterError, match=r"cluster.json cannot be read: "):
        run(machine, lambda supervisor: supervisor.status())
