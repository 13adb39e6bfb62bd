"""``odradek reassign``, with the files of kafka-reassign-partitions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from odradek.cli.errors import FAILED, CommandFailed, command, print_error, usage_error
from odradek.cli.input_file import read_input_file
from odradek.cli.output import show, show_json, show_line
from odradek.cli.reassign import cluster_reads
from odradek.cli.reassign.assignment_json import (
    Reassignment,
    format_reassignment,
    parse_reassignment,
    parse_topics_to_move,
)
from odradek.cli.reassign.execute import ExecuteOptions, execute_reassignment
from odradek.cli.reassign.plan import plan_moves, propose, select_brokers
from odradek.cli.reassign.reassignment_driver import move_log_dirs
from odradek.cli.reassign.rows import MOVES, move_rows, state_rows
from odradek.cli.reassign.states import State
from odradek.cli.reassign.throttles import remove_throttles
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.model.ids import TopicPartition

app = typer.Typer(help="Move partitions to other brokers and log directories.", no_args_is_help=True)

TIMEOUT_MS: Final = 10_000
CANCELLED: Final = ["partition", "result", "replicas"]

ReassignmentFile = Annotated[
    Path,
    typer.Option(
        "--reassignment-json-file",
        metavar="FILE",
        help='Target replicas as in {"version": 1, "partitions": [{"topic": "a", "partition": 0, '
        '"replicas": [1, 2], "log_dirs": ["any", "any"]}]}.',
    ),
]
PreserveThrottles = Annotated[
    bool, typer.Option("--preserve-throttles", help="Do not remove throttles of brokers and topics.")
]
Timeout = Annotated[
    int,
    typer.Option(
        "--timeout",
        metavar="MS",
        min=0,
        help="Time for moves to log directories to start, in milliseconds.",
    ),
]


@app.command()
@command
def generate(
    broker_list: Annotated[
        str, typer.Option("--broker-list", metavar="1,2,3", help="Brokers to assign replicas to.")
    ],
    topics: Annotated[str | None, typer.Option("--topics", metavar="A,B", help="Topics to move.")] = None,
    topics_to_move_json_file: Annotated[
        Path | None,
        typer.Option(
            "--topics-to-move-json-file",
            metavar="FILE",
            help='Topics to move as in {"version": 1, "topics": [{"topic": "a"}]}.',
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Move all topics, also internal ones.")
    ] = False,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", metavar="N", min=1, help="New number of replicas (default: no change)."
        ),
    ] = None,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="Ignore the racks of brokers.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the proposal to this file."),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Propose replicas that spread topics evenly over brokers and racks. Changes nothing.

    Without --output, prints the current assignment, for rollback, and the proposal as JSON.

    Example: odradek reassign generate --topics letters --broker-list 1,2,3 --output move.json
    """
    if sum([topics is not None, topics_to_move_json_file is not None, all_topics]) != 1:
        usage_error("exactly one of --topics, --topics-to-move-json-file and --all-topics is required")
    names = _topic_names(topics, topics_to_move_json_file)
    brokers = _broker_ids(broker_list)
    with Target(bootstrap, extra).only_admin() as admin:
        current, proposed = _propose(admin, names, brokers, not disable_rack_aware, replication_factor)
    if output is not None:
        _write(output, format_reassignment(proposed))
    _show_proposal(current, proposed, output, json)


def _topic_names(topics: str | None, file: Path | None) -> list[str] | None:
    """Return the topics that the options name; None for all."""
    if file is not None:
        return parse_topics_to_move(read_input_file(file), str(file))
    if topics is None:
        return None
    names = topics.split(",")
    if not all(names) or len(set(names)) < len(names):
        usage_error(f"--topics must be distinct names with commas between, got {topics!r}")
    return names


def _broker_ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        usage_error(f"--broker-list must be broker ids with commas between, got {text!r}")
    return list(map(int, parts))


def _propose(
    admin: Admin,
    topics: list[str] | None,
    broker_ids: list[int],
    is_rack_aware: bool,
    replication_factor: int | None,
) -> tuple[dict[TopicPartition, tuple[int, ...]], dict[TopicPartition, tuple[int, ...]]]:
    from odradek.client.environment import system_environment

    brokers = select_brokers(broker_ids, cluster_reads.read_racks(admin), is_rack_aware=is_rack_aware)
    names = list(admin.list_topics(include_internal=True)) if topics is None else topics
    if not names:
        raise CommandFailed("the cluster must have a topic, got none")
    partitions = cluster_reads.read_partitions(admin, names)
    current = cluster_reads.origins(partitions, admin.list_partition_reassignments())
    return current, propose(current, brokers, system_environment().entropy.below, replication_factor)


def _show_proposal(
    current: Mapping[TopicPartition, tuple[int, ...]],
    proposed: Mapping[TopicPartition, tuple[int, ...]],
    output: Path | None,
    as_json: bool,
) -> None:
    import json

    before, after = format_reassignment(current), format_reassignment(proposed)
    if as_json:
        show_json({"current": json.loads(before), "proposed": json.loads(after)})
        return
    show(move_rows(plan_moves(current, proposed)), MOVES[:-1], as_json=False)
    if output is None:
        show_line(f"\nCurrent partition replica assignment\n{before}")
        show_line(f"\nProposed partition reassignment configuration\n{after}")
    else:
        show_line(f"proposal in {output}; apply it with")
        show_line(f"  odradek reassign execute --reassignment-json-file {output}")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error}") from error


@app.command()
@command
def execute(
    reassignment_json_file: ReassignmentFile,
    additional: Annotated[
        bool,
        typer.Option(
            "--additional",
            help="Execute while other reassignments run, or change the throttle of a running one.",
        ),
    ] = False,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle", metavar="BYTES", min=1, help="Copy at most this many bytes per second and broker."
        ),
    ] = None,
    log_dirs_throttle: Annotated[
        int | None,
        typer.Option(
            "--replica-alter-log-dirs-throttle",
            metavar="BYTES",
            min=1,
            help="Move at most this many bytes per second and broker between log directories.",
        ),
    ] = None,
    timeout: Timeout = TIMEOUT_MS,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show the progress until all is done, then remove throttles.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Show a reassignment, ask, and start it. It continues when the command ends.

    Writes the current assignment to a file beside FILE (move.rollback.json): execute it to undo the
    reassignment. With --wait, exits with 1 if partitions do not reach their targets; Ctrl-C ends the command,
    not the reassignment.

    Example: odradek reassign execute --reassignment-json-file move.json --throttle 50000000 --wait
    """
    reassignment = _read_reassignment(reassignment_json_file)
    options = ExecuteOptions(
        reassignment_json_file, additional, throttle, log_dirs_throttle, timeout / 1000, wait, yes, json
    )
    with Target(bootstrap, extra).only_admin() as admin:
        is_complete = execute_reassignment(admin, reassignment, options)
    if not is_complete:
        raise typer.Exit(FAILED)


def _read_reassignment(file: Path) -> Reassignment:
    return parse_reassignment(read_input_file(file), str(file))


@app.command()
@command
def verify(
    reassignment_json_file: ReassignmentFile,
    preserve_throttles: PreserveThrottles = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Compare partitions with a reassignment; remove throttles when no reassignment runs.

    completed: the partition has its target replicas. in progress: it is being moved. differs: it has other
    replicas and is not being moved, or does not exist. Exits with 1 unless all are completed.

    Example: odradek reassign verify --reassignment-json-file move.json
    """
    reassignment = _read_reassignment(reassignment_json_file)
    removed: list[str] = []
    with Target(bootstrap, extra).only_admin() as admin:
        states = cluster_reads.read_states(admin, reassignment)
        is_moving = any(entry.log_dirs.future is not None for entry in states.log_dirs)
        is_idle = not states.ongoing and not is_moving
        if is_idle and not preserve_throttles:
            removed = _remove_throttles(admin, reassignment)
    rows = state_rows(states.partitions, states.log_dirs)
    if json:
        show_json({"partitions": rows, "throttles_removed": removed})
    else:
        show(rows, ["partition", "state", "replicas", "target"], as_json=False)
        _show_removed(removed)
    if any(row["state"] != State.COMPLETED for row in rows):
        raise typer.Exit(FAILED)


def _remove_throttles(admin: Admin, reassignment: Reassignment) -> list[str]:
    topics = {partition.topic for partition in reassignment.targets}
    return remove_throttles(admin, topics, cluster_reads.read_racks(admin))


def _show_removed(removed: list[str]) -> None:
    if removed:
        show_line(f"throttles removed: {', '.join(removed)}")


@app.command()
@command
def cancel(
    reassignment_json_file: ReassignmentFile,
    preserve_throttles: PreserveThrottles = False,
    timeout: Timeout = TIMEOUT_MS,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Cancel a running reassignment: its partitions return to their replicas of before. Removes throttles.

    Partitions that have already moved stay: execute the rollback file to move them back. Throttles stay while
    other reassignments run.

    Example: odradek reassign cancel --reassignment-json-file move.json
    """
    reassignment = _read_reassignment(reassignment_json_file)
    removed: list[str] = []
    with Target(bootstrap, extra).only_admin() as admin:
        states = cluster_reads.read_states(admin, reassignment)
        cancelled = _cancel(admin, reassignment, states, timeout / 1000)
        others = states.ongoing.keys() - reassignment.targets.keys()
        if not preserve_throttles and not others:
            removed = _remove_throttles(admin, reassignment)
    rows: list[dict[str, Any]] = [
        {
            "partition": str(partition),
            "result": "cancelled" if partition in cancelled else "not in progress",
            "replicas": list(cancelled.get(partition, ())),
        }
        for partition in sorted(reassignment.targets)
    ]
    if json:
        show_json({"partitions": rows, "throttles_removed": removed})
        return
    show(rows, CANCELLED, as_json=False)
    _show_removed(removed)
    if others and not preserve_throttles:
        print_error(f"throttles stay: {len(others)} other reassignments are in progress")


def _cancel(
    admin: Admin,
    reassignment: Reassignment,
    states: cluster_reads.ReassignmentStates,
    timeout_s: float,
) -> dict[TopicPartition, tuple[int, ...]]:
    """Cancel reassignments and moves between log directories; return the replicas of before by partition."""
    from odradek import ErrorCode, PartialFailure
    from odradek.client.environment import block_thread

    running = {
        partition: ongoing.origin
        for partition, ongoing in states.ongoing.items()
        if partition in reassignment.targets
    }
    if running:
        try:
            admin.alter_partition_reassignments(dict.fromkeys(running))
        except PartialFailure as failure:
            completed = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            if any(error.code is not completed for error in failure.errors.values()):
                raise
            # They were completed in between.
            running = {partition: running[partition] for partition in failure.results}
    back: dict[TopicPartition, dict[int, str]] = {}
    for entry in states.log_dirs:
        if entry.log_dirs.future is not None and entry.log_dirs.current is not None:
            back.setdefault(entry.partition, {})[entry.broker] = entry.log_dirs.current
    move_log_dirs(admin, back, timeout_s, block_thread)
    return running
