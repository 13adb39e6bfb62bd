"""``odradek cluster``: a local ZooKeeper and brokers, each in a process of its own.

The composition root of local clusters: it passes real processes, ports and time to the supervisor.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from odradek.cli.errors import CommandFailed, command, usage_error
from odradek.cli.output import show_json, show_line
from odradek.cli.target import Json, parse_pairs
from odradek.local_cluster.cluster_spec import DEFAULT_DIRECTORY

if TYPE_CHECKING:
    from odradek.local_cluster.environment import Environment
    from odradek.local_cluster.supervisor import Supervisor

app = typer.Typer(
    help="Run a cluster on this machine: a local ZooKeeper and brokers, each in a process of its own.",
    no_args_is_help=True,
)
WATCH_NOTE: Final = "Ctrl-C ends this view; the cluster keeps running"

Directory = Annotated[
    Path, typer.Option("--directory", "-d", metavar="DIR", help="Directory of the cluster.")
]
Member = Annotated[str, typer.Argument(metavar="BROKER", help="Number of a broker, or zookeeper.")]

Brokers = Annotated[
    int | None,
    typer.Option("--brokers", "-n", metavar="NUMBER", help="Number of brokers (default: as before, or 3)."),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", metavar="PORT", help="Port of broker 1; the others follow (default: as before, or 9092)."
    ),
]
ZooKeeperPort = Annotated[
    int | None,
    typer.Option(
        "--zookeeper-port", metavar="PORT", help="Port of ZooKeeper (default: as before, or a free port)."
    ),
]
Racks = Annotated[
    str | None, typer.Option("--racks", metavar="A,B,...", help="Racks, assigned to the brokers in turn.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Setting of all brokers. May be repeated."),
]


@app.command()
@command
def up(
    brokers: Brokers = None,
    port: Port = None,
    zookeeper_port: ZooKeeperPort = None,
    racks: Racks = None,
    set_: Set = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Exit once the cluster is ready; `odradek cluster down` stops it."),
    ] = False,
    directory: Directory = Path(DEFAULT_DIRECTORY),
    json: Json = False,
) -> None:
    """Start a cluster, show its status, and stop it on Ctrl-C.

    Starts what is missing if a part of the cluster is running, and adds brokers if --brokers is more than
    before. The cluster is ready when it accepts acks=all on every partition.

    Examples:

      odradek cluster up --brokers 3

      odradek cluster up --detach --racks a,b,c --set log.retention.hours=24
    """
    from odradek.local_cluster.foreground import run_up
    from odradek.local_cluster.up_plan import UpOptions

    if json and not detach:
        usage_error("--json requires --detach")
    options = UpOptions(
        brokers,
        port,
        zookeeper_port,
        None if racks is None else tuple(racks.split(",")),
        parse_pairs(set_ or (), "--set"),
    )
    supervisor = make_supervisor(directory, is_silent=json)
    status = _run(run_up(supervisor, options, _clock(), directory, detach=detach, is_silent=json))
    if status:
        raise typer.Exit(status)
    if json:
        _show_status_json(supervisor)


@app.command()
@command
def down(directory: Directory = Path(DEFAULT_DIRECTORY), json: Json = False) -> None:
    """Stop a cluster: brokers by controlled shutdown, then ZooKeeper. Its data is kept."""
    stopped = _run(make_supervisor(directory, is_silent=json).down())
    if json:
        show_json({"stopped": stopped})
    elif not stopped:
        show_line(f"the cluster in {directory} is not running")


@app.command()
@command
def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update every second until Ctrl-C.")] = False,
    directory: Directory = Path(DEFAULT_DIRECTORY),
    json: Json = False,
) -> None:
    """Show brokers, their processes and roles, and partitions that lack replicas or a leader.

    LAG is the number of records that a broker's followers are behind their leaders. A * marks the
    controller.
    """
    from odradek.local_cluster.status.live_status import show_live_status, styled_lines
    from odradek.local_cluster.status.status_text import status_lines

    if watch and json:
        usage_error("--watch cannot be combined with --json")
    supervisor = make_supervisor(directory)
    if watch:
        _run(show_live_status(supervisor.status, supervisor.is_stopped, _clock().sleep_ms, WATCH_NOTE))
    elif json:
        _show_status_json(supervisor)
    else:
        lines = status_lines(_run(supervisor.status()))
        if sys.stdout.isatty():
            from rich.console import Console

            Console().print(styled_lines(lines), end="")
        else:
            show_line("\n".join(lines))


@app.command()
@command
def wait(
    timeout: Annotated[int, typer.Option("--timeout", metavar="SECONDS", min=0, help="Time to wait.")] = 60,
    directory: Directory = Path(DEFAULT_DIRECTORY),
    json: Json = False,
) -> None:
    """Wait until all brokers are registered and all replicas are in sync.

    Exits with 1 if they are not in time. Use it between the restarts of two brokers.

    Example: odradek cluster stop 1 && odradek cluster start 1 && odradek cluster wait
    """
    _run(make_supervisor(directory).wait_until_in_sync(timeout))
    if json:
        show_json({"in_sync": True})
    else:
        show_line("all replicas are in sync")


@app.command()
@command
def start(member: Member, directory: Directory = Path(DEFAULT_DIRECTORY), json: Json = False) -> None:
    """Start a broker that was stopped or killed."""
    supervisor = make_supervisor(directory, is_silent=json)
    _show_change(supervisor.start, member, "started", "is already running", json=json, is_reported=True)


@app.command()
@command
def stop(member: Member, directory: Directory = Path(DEFAULT_DIRECTORY), json: Json = False) -> None:
    """Stop a broker by controlled shutdown: it hands over its leaderships first."""
    supervisor = make_supervisor(directory, is_silent=json)
    _show_change(supervisor.stop, member, "stopped", "is not running", json=json, is_reported=True)


@app.command()
@command
def kill(member: Member, directory: Directory = Path(DEFAULT_DIRECTORY), json: Json = False) -> None:
    """Kill a broker with SIGKILL, as in a crash."""
    _show_change(make_supervisor(directory).kill, member, "killed", "is not running", json=json)


@app.command()
@command
def pause(member: Member, directory: Directory = Path(DEFAULT_DIRECTORY), json: Json = False) -> None:
    """Pause a broker with SIGSTOP, as in a long collection of garbage; its session expires after 6 s."""
    _show_change(make_supervisor(directory).pause, member, "paused", "is already paused", json=json)


@app.command()
@command
def resume(member: Member, directory: Directory = Path(DEFAULT_DIRECTORY), json: Json = False) -> None:
    """Resume a paused broker."""
    _show_change(make_supervisor(directory).resume, member, "resumed", "is not paused", json=json)


@app.command()
@command
def logs(
    member: Annotated[
        str | None, typer.Argument(metavar="BROKER", help="Number of a broker, or zookeeper (default: all).")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print what is appended until Ctrl-C.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Lines of each log.")] = 20,
    directory: Directory = Path(DEFAULT_DIRECTORY),
    json: Json = False,
) -> None:
    """Print the logs of brokers and ZooKeeper."""
    from odradek.local_cluster.cluster_directory import ClusterDirectory
    from odradek.local_cluster.cluster_spec import find_member
    from odradek.local_cluster.log_tail import LogTail, follow_logs, print_logs

    files = ClusterDirectory(directory)
    spec = files.require().spec
    members = spec.members if member is None else (find_member(spec, member),)
    if json:
        if follow:
            usage_error("--follow cannot be combined with --json")
        show_json({name: LogTail(files.log(name)).last_lines(lines) for name in members})
        return
    width = max(map(len, members))
    tails = [(f"{name:<{width}} | " if member is None else "", LogTail(files.log(name))) for name in members]
    show = functools.partial(show_line, flush=True)
    print_logs(tails, lines, show)
    if follow:
        _run(follow_logs(tails, show, _clock().sleep_ms))


def _show_change(
    change: Callable[[str], Coroutine[Any, Any, bool]],
    member: str,
    done: str,
    already: str,
    *,
    json: bool,
    is_reported: bool = False,
) -> None:
    """Change a member and print the result, unless the supervisor has reported it."""
    is_changed = _run(change(member))
    name = "ZooKeeper" if member.lower() == "zookeeper" else f"broker {member.removeprefix('broker-')}"
    if json:
        show_json({"member": member, "changed": is_changed})
    elif not is_changed:
        show_line(f"{name} {already}")
    elif not is_reported:
        show_line(f"{name} {done}")


def _show_status_json(supervisor: Supervisor) -> None:
    from odradek.local_cluster.status.status_report import as_json

    show_json(as_json(_run(supervisor.status())))


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def _clock() -> Any:
    from odradek.system.clock import SystemClock

    return SystemClock()


def make_supervisor(directory: Path, *, is_silent: bool = False) -> Supervisor:
    """Return the supervisor of a directory, on this machine."""
    from odradek.local_cluster.cluster_directory import ClusterDirectory
    from odradek.local_cluster.supervisor import Supervisor

    def report(line: str) -> None:
        if not is_silent:
            show_line(line, flush=True)

    return Supervisor(ClusterDirectory(directory), _environment(), report)


def _environment() -> Environment:
    from odradek.local_cluster.environment import Environment
    from odradek.local_cluster.status.cluster_view import observe
    from odradek.system.local_zookeeper import free_port, is_serving, registered_brokers, server_config
    from odradek.system.loopback_ports import is_listening, is_port_free
    from odradek.system.processes import RealProcesses

    # Settings of brokers come from --set alone, so that every shell starts the same broker.
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ODRADEK_") or name == "ODRADEK_PURE"
    }
    return Environment(
        RealProcesses(variables),
        _clock(),
        free_port,
        is_port_free,
        is_listening,
        is_serving,
        registered_brokers,
        _zookeeper_command,
        lambda data, port, tick_ms: server_config(data, port, tick_ms, {}),
        [sys.executable, "-m", "odradek", "serve"],
        observe,
    )


def _zookeeper_command() -> list[str]:
    """Return the command of ZooKeeper; fail if Java or PySpark is missing."""
    from odradek.system.java import JavaNotFound
    from odradek.system.local_zookeeper import ServerFailed, server_command

    try:
        return server_command(os.environ, heap_mib=128, is_durable=True)
    except (JavaNotFound, ServerFailed) as error:
        raise CommandFailed(str(error)) from error
