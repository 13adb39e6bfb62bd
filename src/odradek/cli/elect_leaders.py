"""``odradek elect-leaders``, with the options of kafka-leader-election."""

from __future__ import annotations

import enum
import json as json_text
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from odradek.cli.errors import FAILED, CommandFailed, command, print_error, usage_error, with_hint
from odradek.cli.input_file import read_input_file
from odradek.cli.output import show
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.model.client_errors import ClientError
    from odradek.model.ids import TopicPartition

COLUMNS: Final = ["topic", "partition", "result"]


class Election(enum.StrEnum):
    """Values of ``--election-type``."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


Type = Annotated[
    Election,
    typer.Option(
        "--election-type",
        help="preferred: make the first replica the leader, if it is in sync. unclean: give partitions "
        "without a leader any live replica; acknowledged records may be lost.",
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--path-to-json-file",
        metavar="FILE",
        help='Partitions as in {"partitions": [{"topic": "a", "partition": 0}]}.',
    ),
]


@command
def elect_leaders(
    election_type: Type,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Topic of --partition.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="NUMBER", min=0, help="Partition of --topic.")
    ] = None,
    path_to_json_file: File = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions of all topics.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Elect leaders of partitions, like kafka-leader-election.

    Exits with 1 if a partition could not be given a leader. Partitions that need no election are no failure.

    Example: odradek elect-leaders --election-type preferred --all-topic-partitions
    """
    if sum([topic is not None, path_to_json_file is not None, all_topic_partitions]) != 1:
        usage_error("exactly one of --topic, --path-to-json-file and --all-topic-partitions is required")
    if (topic is None) != (partition is None):
        usage_error("--topic and --partition must be used together")
    partitions = _requested(topic, partition, path_to_json_file)
    elected, errors = _elect(Target(bootstrap, extra), partitions, election_type)
    if partitions is None:
        # Of all partitions, only those with a new leader are worth a line.
        elected = {key: is_new for key, is_new in elected.items() if is_new}
    rows = result_rows(elected, errors)
    show(rows, COLUMNS, as_json=json, empty="no partition needs an election")
    for error in errors.values():
        print_error(with_hint(error))
    if errors:
        raise typer.Exit(FAILED)


def result_rows(
    elected: Mapping[TopicPartition, bool], errors: Mapping[TopicPartition, Exception]
) -> list[dict[str, Any]]:
    """Return a row for each partition, in order."""
    rows: list[dict[str, Any]] = [
        {"topic": key.topic, "partition": key.partition, "result": "elected" if is_new else "not needed"}
        for key, is_new in elected.items()
    ]
    rows += [
        {"topic": key.topic, "partition": key.partition, "result": "failed", "error": str(error)}
        for key, error in errors.items()
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"]))


def _requested(topic: str | None, partition: int | None, file: Path | None) -> list[TopicPartition] | None:
    """Return the partitions that the options name; None for all."""
    from odradek import TopicPartition

    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    return None if file is None else parse_partitions(read_input_file(file), str(file))


def parse_partitions(text: str, name: str) -> list[TopicPartition]:
    """Parse the JSON of kafka-leader-election; ``name`` is the file's, for errors."""
    from odradek import TopicPartition

    try:
        entries = json_text.loads(text)["partitions"]
        partitions = [TopicPartition(entry["topic"], entry["partition"]) for entry in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(
            f'{name} must contain {{"partitions": [{{"topic": "a", "partition": 0}}]}}, got {error!r}'
        ) from error
    for partition in partitions:
        if not isinstance(partition.topic, str) or type(partition.partition) is not int:
            raise CommandFailed(f"{name}: topic must be a string and partition a number, got {partition}")
    if len(set(partitions)) < len(partitions):
        twice = next(partition for partition in partitions if partitions.count(partition) > 1)
        raise CommandFailed(f"{name} must name each partition once, got {twice} twice")
    if not partitions:
        raise CommandFailed(f"{name} must name at least one partition, got none")
    return partitions


def _elect(
    target: Target, partitions: list[TopicPartition] | None, election_type: Election
) -> tuple[dict[TopicPartition, bool], dict[TopicPartition, ClientError]]:
    from odradek import PartialFailure

    with target.only_admin() as admin:
        try:
            return admin.elect_leaders(partitions, election_type=election_type.value), {}
        except PartialFailure as failure:
            return dict(failure.results), dict(failure.errors)
