"""``odradek reassign execute``: show the plan, ask, save the rollback, throttle, send, wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from odradek.cli.errors import CommandFailed, print_error
from odradek.cli.output import as_size, show, show_json, show_line
from odradek.cli.reassign import cluster_reads
from odradek.cli.reassign.assignment_json import Reassignment, format_reassignment
from odradek.cli.reassign.plan import Move, check_live, plan_moves
from odradek.cli.reassign.reassignment_driver import (
    ProgressLine,
    move_log_dirs,
    start_reassignments,
    wait_for_completion,
)
from odradek.cli.reassign.rows import MOVES, move_rows, state_rows, summary_line
from odradek.cli.reassign.states import State, counted, is_any
from odradek.cli.reassign.throttled_replicas import broker_throttles, copies_to_throttle, topic_throttles
from odradek.cli.reassign.throttles import remove_throttles, set_throttles

if TYPE_CHECKING:
    from odradek.cli.reassign.cluster_reads import Ongoing
    from odradek.client.blocking.admin import Admin

ROLLBACK_FILES_MAX: Final = 100
_NAMES_MAX: Final = 3


class ExecuteOptions(NamedTuple):
    """Options of ``execute``; rates in bytes per second, None for no throttle."""

    file: Path
    is_additional: bool
    throttle: int | None
    log_dirs_throttle: int | None
    timeout_s: float
    waits: bool
    is_confirmed: bool
    as_json: bool


class Plan(NamedTuple):
    """A reassignment that can be sent: its moves, the reassignments in progress, and the live brokers."""

    moves: list[Move]
    ongoing: Ongoing
    live: set[int]


def execute_reassignment(admin: Admin, reassignment: Reassignment, options: ExecuteOptions) -> bool:
    """Execute a file; return False if it waited in vain."""
    plan = _plan(admin, reassignment, options)
    if not options.as_json:
        _show_plan(plan.moves)
    if not _changes_anything(plan, reassignment):
        _show_nothing_to_do(options)
        return True
    if not options.is_confirmed:
        _confirm(plan.moves)
    rollback = save_rollback(options.file, plan.moves)
    _start(admin, reassignment, options, plan)
    if options.waits:
        return _wait(admin, reassignment, options, rollback)
    if options.as_json:
        show_json({"partitions": _started_rows(plan.moves), "rollback_file": str(rollback)})
    else:
        show_line(f"started; to roll back, execute {rollback}")
        show_line("show the progress, and remove throttles at the end, with")
        show_line(f"  odradek reassign verify --reassignment-json-file {options.file}")
    return True


def _plan(admin: Admin, reassignment: Reassignment, options: ExecuteOptions) -> Plan:
    ongoing = admin.list_partition_reassignments()
    if ongoing and not options.is_additional:
        names = [str(partition) for partition in sorted(ongoing)[:_NAMES_MAX]]
        more = [f"and {len(ongoing) - _NAMES_MAX} more"] if len(ongoing) > _NAMES_MAX else []
        raise CommandFailed(
            f"a reassignment is in progress ({', '.join(names + more)}); wait until it is done, or use "
            "--additional"
        )
    partitions = cluster_reads.read_partitions(admin, {key.topic for key in reassignment.targets})
    current = cluster_reads.origins(partitions, ongoing)
    concerned = {key: partitions[key] for key in reassignment.targets if key in partitions}
    moves = plan_moves(current, reassignment.targets, cluster_reads.read_sizes(admin, concerned))
    live = set(cluster_reads.read_racks(admin))
    for move in moves:
        check_live(move.added, live, f"new replicas of {move.partition}")
    return Plan(moves, ongoing, live)


def _changes_anything(plan: Plan, reassignment: Reassignment) -> bool:
    """Return whether replicas or log directories change; a running reassignment may get another throttle."""
    return bool(reassignment.log_dirs) or any(
        move.before != move.after or move.partition in plan.ongoing for move in plan.moves
    )


def _show_plan(moves: list[Move]) -> None:
    show(move_rows(moves), MOVES, as_json=False)
    show_line(summary_line(moves))


def _show_nothing_to_do(options: ExecuteOptions) -> None:
    if options.as_json:
        show_json({"partitions": [], "rollback_file": None})
    else:
        print_error("nothing to do: all partitions have these replicas")


def _confirm(moves: list[Move]) -> None:
    try:
        is_confirmed = typer.confirm(f"Reassign {counted(len(moves), 'partition')}?", err=True)
    except typer.Abort:
        is_confirmed = False
    if not is_confirmed:
        raise CommandFailed("not confirmed: nothing was changed; scripts use --yes")


def save_rollback(file: Path, moves: list[Move]) -> Path:
    """Write the replicas of before to a new file beside ``file``; return its name.

    An earlier rollback file stays: after a second execution it is the only one with the first replicas.
    """
    text = format_reassignment({move.partition: move.before for move in moves})
    for path in _rollback_files(file):
        try:
            with path.open("x", encoding="utf-8") as opened:
                opened.write(text + "\n")
        except FileExistsError:
            continue
        except OSError as error:
            raise CommandFailed(f"{path} cannot be written: {error}") from error
        return path
    raise CommandFailed(
        f"rollback files of {file} must be at most {ROLLBACK_FILES_MAX}, got more; remove old ones"
    )


def _rollback_files(file: Path) -> Iterator[Path]:
    yield file.with_name(f"{file.stem}.rollback.json")
    for number in range(2, ROLLBACK_FILES_MAX + 1):
        yield file.with_name(f"{file.stem}.rollback-{number}.json")


def _start(admin: Admin, reassignment: Reassignment, options: ExecuteOptions, plan: Plan) -> None:
    from odradek import PartialFailure
    from odradek.client.environment import block_thread

    _set_throttles(admin, reassignment, options, plan)
    try:
        start_reassignments(admin, reassignment.targets)
    except PartialFailure:
        # Nothing has started: the throttles of this call would stay without a reassignment to verify.
        if not plan.ongoing:
            _remove_throttles(admin, reassignment, plan.live)
        raise
    move_log_dirs(admin, reassignment.log_dirs, options.timeout_s, block_thread)


def _set_throttles(admin: Admin, reassignment: Reassignment, options: ExecuteOptions, plan: Plan) -> None:
    if options.throttle is None and options.log_dirs_throttle is None:
        return
    current = {move.partition: move.before for move in plan.moves}
    copies = copies_to_throttle(reassignment.targets, current, plan.ongoing)
    log_dir_brokers = {broker for directories in reassignment.log_dirs.values() for broker in directories}
    brokers = broker_throttles(copies.values(), options.throttle, log_dir_brokers, options.log_dirs_throttle)
    # A broker's settings can only be changed while it runs.
    live = {broker: settings for broker, settings in brokers.items() if broker in plan.live}
    set_throttles(admin, {} if options.throttle is None else topic_throttles(copies), live)
    for rate, kind in ((options.throttle, "brokers"), (options.log_dirs_throttle, "log directories")):
        if rate is not None and not options.as_json:
            show_line(f"throttle between {kind}: {as_size(rate)}/s")


def _remove_throttles(admin: Admin, reassignment: Reassignment, brokers: set[int]) -> list[str]:
    return remove_throttles(admin, {partition.topic for partition in reassignment.targets}, brokers)


def _wait(admin: Admin, reassignment: Reassignment, options: ExecuteOptions, rollback: Path) -> bool:
    from odradek.client.environment import block_thread

    progress = ProgressLine()
    try:
        states = wait_for_completion(admin, reassignment, block_thread, progress.show)
    except KeyboardInterrupt:
        progress.close()
        print_error(
            "interrupted: the reassignment goes on; show it with `odradek reassign verify`, stop it with "
            "`odradek reassign cancel`"
        )
        raise
    progress.close()
    removed: list[str] = []
    is_throttled = options.throttle is not None or options.log_dirs_throttle is not None
    if is_throttled and not states.ongoing:
        removed = _remove_throttles(admin, reassignment, set(cluster_reads.read_racks(admin)))
    is_complete = not is_any(State.DIFFERS, [*states.partitions, *states.log_dirs])
    rows = state_rows(states.partitions, states.log_dirs)
    if options.as_json:
        show_json({"partitions": rows, "rollback_file": str(rollback), "throttles_removed": removed})
    elif is_complete:
        show_line(f"completed; to roll back, execute {rollback}")
    else:
        show(rows, ["partition", "state", "replicas", "target"], as_json=False)
    return is_complete


def _started_rows(moves: list[Move]) -> list[Mapping[str, Any]]:
    return [{key: value for key, value in row.items() if key != "to_copy"} for row in move_rows(moves)]
