"""The status of a local cluster as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from odradek.cli.output import as_size
from odradek.local_cluster.cluster_spec import cluster_command
from odradek.local_cluster.status.status_report import STATE_NAMES, ClusterStatus, PartitionStatus

PROBLEMS_SHOWN: Final = 10
_BROKERS: Final = (
    *("BROKER", "ADDRESS", "RACK", "PID", "STATE", "LEADERS", "REPLICAS", "IN SYNC", "LAG", "MEMORY"),
)
_BROKER_NUMBERS: Final = {"PID", "LEADERS", "REPLICAS", "IN SYNC", "LAG", "MEMORY"}
_PROBLEMS: Final = ("PARTITION", "LEADER", "REPLICAS", "ISR", "LAG", "")
_PROBLEM_NUMBERS: Final = {"LAG"}


def status_lines(status: ClusterStatus) -> list[str]:
    """Return all lines, without colours."""
    lines = [
        *_head(status),
        "",
        *_columns(_BROKERS, _BROKER_NUMBERS, _broker_rows(status)),
        "",
        *_summary(status),
    ]
    if status.problems:
        shown = status.problems[:PROBLEMS_SHOWN]
        lines += ["", *_columns(_PROBLEMS, _PROBLEM_NUMBERS, map(_problem_row, shown))]
        if more := len(status.problems) - len(shown):
            lines.append(f"... and {more} more; see {cluster_command('status --json', status.directory)}")
    return lines


def summary_line(status: ClusterStatus) -> str:
    """Return the status in one line, for logs; it changes only if something happens to the cluster."""
    leaders = "/".join("-" if broker.leaders is None else str(broker.leaders) for broker in status.brokers)
    controller = "none" if status.controller is None else f"broker {status.controller}"
    down = [
        f"broker {broker.broker} {broker.state}" for broker in status.brokers if broker.state != "running"
    ]
    if STATE_NAMES[status.zookeeper.state] != "running":
        down.insert(0, f"ZooKeeper {STATE_NAMES[status.zookeeper.state]}")
    parts = [
        f"{status.running} of {len(status.brokers)} brokers running",
        f"controller {controller}",
        f"leaders {leaders}",
        f"{len(status.problems)} under-replicated",
        f"{status.offline_count} offline",
        *down,
    ]
    return ", ".join(parts if status.is_observed else [parts[0], "no broker responds", *down])


def _head(status: ClusterStatus) -> list[str]:
    zookeeper = status.zookeeper
    controller = "none" if status.controller is None else f"broker {status.controller}"
    details = [status.zookeeper_address, STATE_NAMES[zookeeper.state]]
    if zookeeper.process_id is not None:
        details += [f"pid {zookeeper.process_id}", as_size(zookeeper.memory_bytes) or "-"]
    return [
        f"cluster     {status.cluster_id or 'unknown'} in {status.directory}",
        f"bootstrap   {status.bootstrap}",
        f"zookeeper   {', '.join(details)}",
        f"controller  {controller if status.is_observed else 'unknown'}",
    ]


def _broker_rows(status: ClusterStatus) -> Iterator[list[str]]:
    for broker in status.brokers:
        yield [
            f"{broker.broker}{' *' if broker.is_controller else ''}",
            broker.address,
            broker.rack or "-",
            _cell(broker.process_id),
            broker.state,
            _cell(broker.leaders),
            _cell(broker.replicas),
            _cell(broker.in_sync),
            _cell(broker.lag_records),
            as_size(broker.memory_bytes) or "-",
        ]


def _summary(status: ClusterStatus) -> list[str]:
    if not status.is_observed:
        if any(broker.state != "stopped" for broker in status.brokers):
            return [f"no broker responds; see {cluster_command('logs', status.directory)}"]
        return [f"all brokers are stopped; start them with {cluster_command('up', status.directory)}"]
    internal = f" (and {status.internal_topics} internal)" if status.internal_topics else ""
    totals = f"{_count(status.topics, 'topic')}{internal}, {_count(status.partitions, 'partition')}"
    notes = [
        f"broker {broker.broker} is {broker.state}, but registered until its ZooKeeper session expires"
        for broker in status.brokers
        if broker.is_registered and broker.state in ("stopped", "paused")
    ]
    if not status.problems:
        in_sync = ", all replicas in sync" if status.partitions and not notes else ""
        return [totals + in_sync, *notes]
    return [
        *notes,
        f"{totals}: {len(status.problems)} under-replicated, {status.below_min_isr_count} below min ISR, "
        f"{status.offline_count} offline",
    ]


def _problem_row(problem: PartitionStatus) -> list[str]:
    refusal = "refuses acks=all" if problem.is_below_min_isr else ""
    return [
        f"{problem.topic}-{problem.partition}",
        _cell(problem.leader),
        ",".join(map(str, problem.replicas)),
        ",".join(map(str, problem.in_sync)) or "-",
        _cell(problem.lag_records),
        "offline" if problem.leader is None else refusal,
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _cell(value: int | None) -> str:
    return "-" if value is None else str(value)


def _columns(heading: Sequence[str], numbers: set[str], rows: Iterator[list[str]]) -> Iterator[str]:
    """Yield lines with aligned columns, numbers to the right."""
    lines = [list(heading), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.rjust(width) if name in numbers else cell.ljust(width)
            for name, cell, width in zip(heading, line, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()
