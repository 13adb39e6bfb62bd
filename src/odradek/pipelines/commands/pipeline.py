"""``odradek pipeline``: run pipelines, look at them, move them.

What a command needs it imports when it is asked for: help imports no Spark, and no client.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from odradek.cli.errors import FAILED, print_error
from odradek.cli.groups.reset_offsets import show_offset_changes
from odradek.cli.output import show, show_json
from odradek.cli.target import Bootstrap, Json, Target
from odradek.pipelines.commands.errors import pipeline_command
from odradek.pipelines.commands.output import note, show_checks, show_pairs, show_replay, warn

if TYPE_CHECKING:
    from odradek.pipelines.spec.reader import Spec

app = typer.Typer(
    help="Run pipelines on Spark from one file each; see how they stand, reset and replay them.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline's file, in TOML.")]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master. Without it: local[*].")
]
Execute = Annotated[bool, typer.Option("--execute", help="Do it, and not only show it.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=0, max=65535, help="Serve metrics for Prometheus here; wins over the file."
    ),
]
MetricsHost = Annotated[
    str, typer.Option("--metrics-host", metavar="HOST", help="The address to serve metrics on.")
]
NEW: Final = ["kind", "meaning"]
LAG: Final = ["group", "topic", "partition", "committed", "end", "lag_rows", "lag_s"]


@app.command()
@pipeline_command
def run(
    file: File,
    once: Annotated[
        bool | None,
        typer.Option(
            "--once/--continuous",
            help="End when all is read that was there at the start, or go on until Ctrl-C. Without it: once "
            'if the file says trigger = "available-now".',
        ),
    ] = None,
    master: Master = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Run a pipeline, and start it again when it fails, until it is done or interrupted (Ctrl-C or SIGTERM).

    Where stdout is a terminal, one line shows the newest batch: its rows, rows per second, time, and the lag
    in rows and seconds. Elsewhere each batch is a line.

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
            help="Have Spark parse schema and SQL and plan the query, or leave that out (some seconds).",
        ),
    ] = True,
    master: Master = None,
    json: Json = False,
) -> None:
    """Check whether a pipeline can run: file, Java, packages, brokers, topics, schema, SQL, sink, checkpoint.

    Changes nothing. Exits with 1 if anything is wrong.
    """
    from odradek.pipelines.commands.check import checks_of
    from odradek.pipelines.run.checks import Check, failed_count
    from odradek.pipelines.run.plan_check import can_plan, plan_checks
    from odradek.pipelines.spec.reader import SpecError, read_spec

    try:
        spec = read_spec(file)
    except SpecError as wrong:
        show_checks([Check("file", False, line) for line in wrong.problems], json)
        raise typer.Exit(FAILED) from None
    checks = list(checks_of(spec, os.environ))
    if not json:
        show_checks(checks, json)
    planned: list[Check] = []
    if plan and can_plan(spec, checks):
        note("starting Spark to plan the query (--no-plan leaves it out) …")
        planned = plan_checks(spec, master)
    elif plan:
        note("the query is not planned: correct what is wrong first")
    show_checks([*checks, *planned] if json else planned, json)
    raise typer.Exit(FAILED if failed_count([*checks, *planned]) else 0)


@app.command()
@pipeline_command
def preview(
    file: File,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, max=1000, help="Rows to show at most.")] = 10,
    master: Master = None,
    json: Json = False,
) -> None:
    """Show rows as the transform makes them of the newest 1,000 records. Writes nothing.

    Example: odradek pipeline preview orders.toml
    """
    from odradek.pipelines.monitoring.progress import counted
    from odradek.pipelines.run.preview import ask_preview

    spec = _spec(file)
    note("starting Spark …")
    found = ask_preview(spec, rows, master)
    show(found.rows, found.shown_columns, as_json=json)
    read = "the table" if found.records_count is None else counted(found.records_count, "record")
    note(f"{counted(len(found.rows), 'row')} of {read}; nothing was written")


@app.command()
@pipeline_command
def status(file: File, json: Json = False) -> None:
    """Show whether a pipeline runs, its last batch, lag, restarts and last failure; also after it ended."""
    from odradek.client.environment import system_environment
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint
    from odradek.pipelines.checkpoint.lease import holder
    from odradek.pipelines.monitoring.status import as_json, lines_of, read_status

    spec = _spec(file)
    found = read_status(spec, Checkpoint(spec.checkpoint), holder, system_environment().clock)
    if json:
        show_json(as_json(found))
        return
    show_pairs(lines_of(found))


@app.command()
@pipeline_command
def lag(file: File, json: Json = False) -> None:
    """Show how far a pipeline is behind in each partition: in rows, and in seconds.

    Rows are those of `odradek groups describe` with the pipeline's group. Seconds are the age of the oldest
    record that is not done, by its own timestamp.
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
            "partitions that are not named stay where they are).",
        ),
    ],
    execute: Execute = False,
    json: Json = False,
) -> None:
    """Show where a pipeline that is not running would begin again, and with --execute have it so.

    Its checkpoint is moved aside, not deleted; its next run begins a new one at these offsets. Rows that the
    sink has already got are written again.

    Example: odradek pipeline reset orders.toml --to 2026-01-31T12:00:00 --execute
    """
    from odradek.client.environment import system_environment
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint
    from odradek.pipelines.checkpoint.lease import held, holder
    from odradek.pipelines.commands import reset as resetting

    goal = resetting.read_goal(to)
    spec = _spec(file)
    checkpoint = Checkpoint(spec.checkpoint)
    if not execute:
        show_offset_changes(moves := resetting.plan(spec, goal, checkpoint), json)
        warn(resetting.consequence(spec, moves))
        if (running := holder(spec)) is not None:
            print_error(f"{spec.name} is running ({running}): stop it before --execute")
        print_error("nothing was changed: --execute does it")
        return
    # While this command holds the lease nobody can start the pipeline between the look and the move.
    with held(spec, print_error):
        moves = resetting.plan(spec, goal, checkpoint)
        show_offset_changes(moves, json)
        warn(resetting.consequence(spec, moves))
        aside = resetting.execute(spec, moves, checkpoint, system_environment().clock.wall_ms())
    if aside is not None:
        print_error(f"the old checkpoint is in {aside}")


@app.command()
@pipeline_command
def replay(
    file: File,
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="The first moment: 2026-01-31T12:00:00 (UTC).")
    ],
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="The moment to end before.")],
    execute: Execute = False,
    master: Master = None,
    json: Json = False,
) -> None:
    """Show how many rows a window of time has, and with --execute write them once more into the same sink.

    The same window replayed again adds nothing where the sink writes exactly once. The pipeline must not be
    running meanwhile; it goes on afterwards where it was.

    Example: odradek pipeline replay orders.toml --from 2026-01-31 --to 2026-02-01 --execute
    """
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint
    from odradek.pipelines.commands import replay as replaying

    window = replaying.read_window(from_, to)
    spec = _spec(file)
    checkpoint = Checkpoint(spec.checkpoint)
    found, is_known = replaying.plan(spec, window, checkpoint)
    if not (json and execute):
        show_replay(found, json)
    if is_known:
        print_error(f"this window was replayed before, as {found.replay_id}: the same rows are read again")
    if found.came_later:
        print_error(f"{found.came_later:,} rows came into the window since then and are not read")
    if not execute:
        print_error("nothing was written: --execute does it")
        return
    if not found.row_count:
        print_error("there are no rows in this window")
        return
    from odradek.pipelines.run import supervisor

    replaying.pin(window, found, checkpoint)
    raise typer.Exit(supervisor.replay(spec, replay_id=found.replay_id, master=master, json=json))


@app.command()
@pipeline_command
def new(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="Which one. Without it: lists them.")
    ] = None,
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to put its files.")] = Path("."),
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Also create its topics, and send some orders to the one that it reads."),
    ] = False,
    bootstrap: Bootstrap = None,
    json: Json = False,
) -> None:
    """Copy a pipeline that comes with the package, to be changed: its file, and what that names.

    Overwrites nothing.

    Examples:

      odradek pipeline new

      odradek pipeline new topic-to-topic --demo

      odradek pipeline new topic-to-table pipelines
    """
    from odradek.pipelines.commands.shipped_files import KINDS, copy_kind, next_steps

    if kind is None:
        show([{"kind": name, "meaning": of.meaning} for name, of in KINDS.items()], NEW, as_json=json)
        if not json:
            note("odradek pipeline new KIND copies one; with --demo its topics and some records are made too")
        return
    target = Target(bootstrap, None)
    if demo:
        with target.only_admin():
            # Before anything is written: a demo without a broker is none.
            pass
    files = copy_kind(kind, directory, target.bootstrap)
    show([{"file": str(file)} for file in files], ["file"], as_json=json)
    if demo:
        from odradek.pipelines.commands.demo import make_demo

        for words in make_demo(_spec(files[0])):
            note(words)
    if not json:
        note(next_steps(files[0], is_demo=demo))


def _spec(file: Path) -> Spec:
    from odradek.pipelines.spec.reader import read_spec

    return read_spec(file)
