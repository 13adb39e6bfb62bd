"""The commands of ``odradek pipeline``.

Commands import what they need when they run: help imports neither Spark nor a client.
"""

from __future__ import annotations

import json as json_text
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from odradek.cli.errors import FAILED, print_error
from odradek.cli.groups.reset_offsets import show_offset_changes
from odradek.cli.output import show, show_json
from odradek.cli.target import Bootstrap, Json, Target
from odradek.pipelines.commands.errors import pipeline_command

if TYPE_CHECKING:
    from odradek.pipelines.commands.replay import Replay
    from odradek.pipelines.run.checks import Check
    from odradek.pipelines.spec.reader import Spec

app = typer.Typer(
    help="Run pipelines on Spark, show their status, reset and replay them.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="Pipeline file (TOML).")]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master (default: local[*]).")
]
Execute = Annotated[bool, typer.Option("--execute", help="Apply the change (default: show it only).")]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="Port for Prometheus metrics; overrides the file."),
]
MetricsHost = Annotated[
    str, typer.Option("--metrics-host", metavar="HOST", help="Address for Prometheus metrics.")
]
NEW: Final = ["kind", "meaning"]
REPLAYED: Final = ["topic", "partition", "from_offset", "to_offset", "rows"]
LAG: Final = ["group", "topic", "partition", "committed", "end", "lag_rows", "lag_s"]


@app.command()
@pipeline_command
def run(
    file: File,
    once: Annotated[
        bool | None,
        typer.Option(
            "--once/--continuous",
            help="Exit after all records that existed at the start, or run until Ctrl-C (default: once if "
            'the file has trigger = "available-now").',
        ),
    ] = None,
    master: Master = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Run a pipeline, with restarts after failures, until it is done or interrupted (Ctrl-C or SIGTERM).

    On a terminal, one line shows the latest batch: its rows, rows per second, duration, and the lag in rows
    and seconds. Otherwise each batch is a line.

    Examples:

      odradek pipeline run orders.toml

      odradek pipeline run orders.toml --once --master "local[2]"

      odradek pipeline run orders.toml --continuous --metrics-port 9404
    """
    from odradek.pipelines.run import supervisor

    spec = _spec(file)
    only_once = spec.once_by_default if once is None else once
    status = supervisor.run(
        spec, once=only_once, master=master, json=json, metrics_port=metrics_port, metrics_host=metrics_host
    )
    raise typer.Exit(status)


@app.command()
@pipeline_command
def check(
    file: File,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan/--no-plan",
            help="Let Spark parse schema and SQL and plan the query (takes some seconds).",
        ),
    ] = True,
    master: Master = None,
    json: Json = False,
) -> None:
    """Check whether a pipeline can run: file, Java, packages, brokers, topics, schema, SQL, sink, checkpoint.

    Changes nothing. Exits with 1 if a check fails.
    """
    from odradek.pipelines.commands.check import collect_checks
    from odradek.pipelines.run.checks import Check, failed_count
    from odradek.pipelines.run.plan_check import can_plan, plan_checks
    from odradek.pipelines.spec.reader import SpecError, read_spec

    try:
        spec = read_spec(file)
    except SpecError as error:
        show_checks([Check("file", False, line) for line in error.problems], json)
        raise typer.Exit(FAILED) from None
    checks = list(collect_checks(spec, os.environ))
    if not json:
        show_checks(checks, json)
    planned: list[Check] = []
    if plan and can_plan(spec, checks):
        note("starting Spark to plan the query (skip with --no-plan) …")
        planned = plan_checks(spec, master)
    elif plan:
        note("the query is not planned: correct the failed checks first")
    show_checks([*checks, *planned] if json else planned, json)
    raise typer.Exit(FAILED if failed_count([*checks, *planned]) else 0)


@app.command()
@pipeline_command
def preview(
    file: File,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, max=1000, help="Maximum number of rows.")] = 10,
    master: Master = None,
    json: Json = False,
) -> None:
    """Show rows of the transform over the newest 1,000 records. Writes nothing.

    Example: odradek pipeline preview orders.toml
    """
    from odradek.pipelines.monitoring.progress import counted
    from odradek.pipelines.run.preview import request_preview

    spec = _spec(file)
    note("starting Spark …")
    result = request_preview(spec, rows, master)
    show(result.rows, result.shown_columns, as_json=json)
    read = "the table" if result.records_count is None else counted(result.records_count, "record")
    note(f"{counted(len(result.rows), 'row')} of {read}; nothing was written")


@app.command()
@pipeline_command
def status(file: File, json: Json = False) -> None:
    """Show the state of a pipeline, its last batch, lag, restarts and last failure, running or not."""
    from odradek.client.environment import system_environment
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint
    from odradek.pipelines.checkpoint.lease import holder
    from odradek.pipelines.monitoring.status import as_json, read_status, status_lines

    spec = _spec(file)
    current = read_status(spec, Checkpoint(spec.checkpoint), holder, system_environment().clock)
    if json:
        show_json(as_json(current))
        return
    show_pairs(status_lines(current))


@app.command()
@pipeline_command
def lag(file: File, json: Json = False) -> None:
    """Show the lag of a pipeline by partition, in rows and in seconds.

    Rows are those of `odradek groups describe` for the pipeline's group. Seconds are the age of the oldest
    unread record, by its timestamp.
    """
    from odradek.client.environment import system_environment
    from odradek.pipelines.monitoring.lag import as_rows, read_lag

    spec = _spec(file)
    rows = as_rows(spec.observe.group, read_lag(spec, system_environment().clock))
    show(rows, LAG, as_json=json)


@app.command()
@pipeline_command
def reset(
    file: File,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="WHERE",
            help='earliest, latest, a time (2026-01-31T12:00:00, UTC), or offsets ({"topic": {"0": 12}}; '
            "other partitions do not move).",
        ),
    ],
    execute: Execute = False,
    json: Json = False,
) -> None:
    """Reset the offsets of a stopped pipeline; without --execute only show the changes.

    The checkpoint is moved aside, not deleted; the next run starts a new one at these offsets. Rows that the
    sink already has are written again.

    Example: odradek pipeline reset orders.toml --to 2026-01-31T12:00:00 --execute
    """
    from odradek.client.environment import system_environment
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint
    from odradek.pipelines.checkpoint.lease import hold, holder
    from odradek.pipelines.commands import reset as resetting

    reset_target = resetting.parse_target(to)
    spec = _spec(file)
    checkpoint = Checkpoint(spec.checkpoint)
    if not execute:
        show_offset_changes(changes := resetting.plan(spec, reset_target, checkpoint), json)
        warn(resetting.reset_warning(spec, changes))
        if (running := holder(spec)) is not None:
            print_error(f"{spec.name} is running ({running}): stop it before --execute")
        print_error("nothing was changed: use --execute to apply")
        return
    # While this command holds the lease, the pipeline cannot be started between plan and move.
    with hold(spec, print_error):
        changes = resetting.plan(spec, reset_target, checkpoint)
        show_offset_changes(changes, json)
        warn(resetting.reset_warning(spec, changes))
        aside = resetting.execute(spec, changes, checkpoint, system_environment().clock.wall_ms())
    if aside is not None:
        print_error(f"the old checkpoint was moved to {aside}")


@app.command()
@pipeline_command
def replay(
    file: File,
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Start, inclusive: 2026-01-31T12:00:00 (UTC).")
    ],
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="End, exclusive.")],
    execute: Execute = False,
    master: Master = None,
    json: Json = False,
) -> None:
    """Write the rows of a time window again to the same sink; without --execute only count them.

    With an exactly-once sink a repeated replay of the same window adds nothing. The pipeline must not run
    meanwhile; afterwards it continues where it stopped.

    Example: odradek pipeline replay orders.toml --from 2026-01-31 --to 2026-02-01 --execute
    """
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint
    from odradek.pipelines.commands import replay as replaying

    window = replaying.read_window(from_, to)
    spec = _spec(file)
    checkpoint = Checkpoint(spec.checkpoint)
    replay_plan, is_known = replaying.plan(spec, window, checkpoint)
    if not (json and execute):
        show_replay(replay_plan, json)
    if is_known:
        print_error(f"this window was replayed before, as {replay_plan.replay_id}: the same rows are read")
    if replay_plan.late_count:
        print_error(f"{replay_plan.late_count:,} rows arrived in the window since then and are not read")
    if not execute:
        print_error("nothing was written: use --execute to write")
        return
    if not replay_plan.row_count:
        print_error("the window has no rows")
        return
    from odradek.pipelines.run import supervisor

    replaying.store(window, replay_plan, checkpoint)
    raise typer.Exit(supervisor.replay(spec, replay_id=replay_plan.replay_id, master=master, json=json))


@app.command()
@pipeline_command
def new(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="Pipeline to copy (default: list them).")
    ] = None,
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Target directory.")] = Path("."),
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Also create its topics, and send sample orders to the source topic."),
    ] = False,
    bootstrap: Bootstrap = None,
    json: Json = False,
) -> None:
    """Copy a shipped pipeline to change it: its file, and the files it names.

    Never overwrites a file.

    Examples:

      odradek pipeline new

      odradek pipeline new topic-to-topic --demo

      odradek pipeline new topic-to-table pipelines
    """
    from odradek.pipelines.commands.shipped_files import KINDS, copy_kind, next_steps

    if kind is None:
        show([{"kind": name, "meaning": of.meaning} for name, of in KINDS.items()], NEW, as_json=json)
        if not json:
            note("odradek pipeline new KIND copies one; --demo also creates its topics and sample records")
        return
    target = Target(bootstrap, None)
    if demo:
        with target.only_admin():
            # Fail before anything is written if no broker is reachable.
            pass
    files = copy_kind(kind, directory, target.bootstrap)
    show([{"file": str(file)} for file in files], ["file"], as_json=json)
    if demo:
        from odradek.pipelines.commands.demo import make_demo

        for message in make_demo(_spec(files[0])):
            note(message)
    if not json:
        note(next_steps(files[0], is_demo=demo))


def _spec(file: Path) -> Spec:
    from odradek.pipelines.spec.reader import read_spec

    return read_spec(file)


# Output.


def show_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print pairs of a label and a text, one per line."""
    width = max(len(label) for label, _ in pairs)
    for label, text in pairs:
        print(f"{label:<{width}}  {text}")


def note(message: str) -> None:
    """Print a message for people to stderr; the result goes to stdout."""
    print(message, file=sys.stderr, flush=True)


def warn(message: str | None) -> None:
    if message is not None:
        print_error(message)


def show_replay(replay: Replay, json: bool) -> None:
    if json:
        print(
            json_text.dumps(
                {"replay_id": replay.replay_id, "row_count": replay.row_count, "ranges": replay.rows()}
            )
        )
        return
    show(replay.rows(), REPLAYED, as_json=False)
    print(f"{replay.row_count:,} rows in total")


def show_checks(checks: list[Check], json: bool) -> None:
    if json:
        show_json([check._asdict() for check in checks])
        return
    width = max((len(check.what) for check in checks), default=0)
    for check in checks:
        print(f"{'✓' if check.ok else '✗'} {check.what:<{width}}  {check.found}")
        if not check.ok and check.fix is not None:
            print(f"  {'':<{width}}  → {check.fix}")
