"""``odradek cluster up``: starts a cluster, shows its status, and stops it on a signal."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from odradek.cli.errors import INTERRUPTED
from odradek.cli.output import show_line
from odradek.cli.target import DEFAULT as DEFAULT_BOOTSTRAP
from odradek.local_cluster.cluster_spec import cluster_command
from odradek.local_cluster.status.live_status import show_live_status
from odradek.local_cluster.status.status_report import ClusterStatus
from odradek.local_cluster.supervisor import Supervisor
from odradek.local_cluster.up_plan import UpOptions
from odradek.ports.clock import Clock

STOP_NOTE: Final = "Ctrl-C stops the cluster"


async def run_up(
    supervisor: Supervisor,
    options: UpOptions,
    clock: Clock,
    directory: Path,
    *,
    detach: bool,
    is_silent: bool,
) -> int:
    """Start a cluster; without ``detach`` show its status until a signal, then stop it."""
    stopping = _stop_event()
    changed = await _unless(stopping, supervisor.up(options))
    if stopping.is_set():
        await _stop(supervisor)
        return INTERRUPTED
    if not is_silent:
        _announce(await supervisor.status(), directory, is_new=bool(changed), detach=detach)
    if detach or not changed:
        return 0
    await _unless(
        stopping,
        show_live_status(supervisor.status, supervisor.is_stopped, clock.sleep_ms, STOP_NOTE),
    )
    if stopping.is_set():
        await _stop(supervisor)
    else:
        show_line("the cluster was stopped by another command")
    return 0


async def _stop(supervisor: Supervisor) -> None:
    show_line("stopping ...", flush=True)
    if not supervisor.is_stopped():
        await supervisor.down()


def _stop_event() -> asyncio.Event:
    """Return an event that is set by the first SIGINT, SIGTERM or SIGHUP."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # nohup ignores SIGHUP; keep that.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stopping.set)
    return stopping


async def _unless(stopping: asyncio.Event, work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of ``work``, or cancel it when ``stopping`` is set."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait([task])
    return None


def _announce(status: ClusterStatus, directory: Path, *, is_new: bool, detach: bool) -> None:
    """Print how to use a cluster that is ready."""
    if not is_new:
        show_line(f"the cluster in {directory} is already running ({status.running} brokers)")
    first = status.brokers[0].address
    bootstrap_option = "" if first == DEFAULT_BOOTSTRAP else f" -b {first}"
    for line in (
        f"ready: {status.running} brokers, controller {status.controller}" if is_new else "",
        f"bootstrap servers {status.bootstrap}",
        f"data in {directory.absolute()}",
        "try:",
        f"  echo hello | odradek produce greetings{bootstrap_option}",
        _try("status", directory),
        _try(f"kill {status.brokers[-1].broker}", directory),
        _try("down", directory) if detach or not is_new else STOP_NOTE,
    ):
        if line:
            show_line(line)
    sys.stdout.flush()


def _try(arguments: str, directory: Path) -> str:
    return f"  {cluster_command(arguments, str(directory)).strip('`')}"
