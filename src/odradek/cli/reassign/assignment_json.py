"""JSON files of kafka-reassign-partitions: topics to move, and reassignments. Pure.

An invalid file fails with its name and the line, or the number of the entry, that is wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from odradek.cli.errors import CommandFailed
from odradek.model.ids import TopicPartition

T = TypeVar("T")

Replicas = tuple[int, ...]
ANY_LOG_DIR: Final = "any"
"""The broker chooses the log directory."""
VERSION: Final = 1
NO_LOG_DIRS: Final[Mapping[TopicPartition, Mapping[int, str]]] = {}


class Reassignment(NamedTuple):
    """Target replicas by partition, and target log directories by partition and broker."""

    targets: Mapping[TopicPartition, Replicas]
    log_dirs: Mapping[TopicPartition, Mapping[int, str]] = NO_LOG_DIRS


def parse_topics_to_move(text: str, name: str) -> list[str]:
    """Parse {"topics": [{"topic": "a"}], "version": 1}; ``name`` is the file's, for errors."""
    topics = [
        _field(entry, "topic", str, f"{name}: topics[{number}]")
        for number, entry in enumerate(_entries(text, "topics", name))
    ]
    _check_unique(topics, f"{name} must name each topic once")
    return topics


def parse_reassignment(text: str, name: str) -> Reassignment:
    """Parse the file of ``--reassignment-json-file``; ``name`` is the file's, for errors."""
    targets: list[tuple[TopicPartition, Replicas]] = []
    log_dirs: dict[TopicPartition, dict[int, str]] = {}
    for number, entry in enumerate(_entries(text, "partitions", name)):
        where = f"{name}: partitions[{number}]"
        partition = TopicPartition(_field(entry, "topic", str, where), _field(entry, "partition", int, where))
        replicas = _replicas(entry, partition, where)
        targets.append((partition, replicas))
        if directories := _log_dirs(entry, replicas, where):
            log_dirs[partition] = directories
    _check_unique((partition for partition, _ in targets), f"{name} must name each partition once")
    return Reassignment(dict(targets), log_dirs)


def format_reassignment(targets: Mapping[TopicPartition, Replicas]) -> str:
    """Return a reassignment as the line that Kafka's tool prints, with any log directories."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [ANY_LOG_DIR] * len(replicas),
        }
        for partition, replicas in sorted(targets.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def _entries(text: str, key: str, name: str) -> list[Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise CommandFailed(
            f"{name} must be JSON, got line {error.lineno} column {error.colno}: {error.msg}"
        ) from error
    except RecursionError:
        raise CommandFailed(f"{name} must be JSON, got too many nested values") from None
    if not isinstance(document, dict):
        raise CommandFailed(f'{name} must be an object with "{key}", got {_shown(document)}')
    if (version := document.get("version", VERSION)) != VERSION:
        raise CommandFailed(f"{name}: version must be {VERSION}, got {_shown(version)}")
    entries = document.get(key)
    if not isinstance(entries, list) or not entries:
        raise CommandFailed(f'{name}: "{key}" must be a non-empty list, got {_shown(entries)}')
    return entries


def _field(entry: Any, key: str, kind: type[T], where: str) -> T:
    value = entry.get(key) if isinstance(entry, dict) else None
    if type(value) is not kind:  # a bool is no number here
        expected = "a string" if kind is str else "a number"
        raise CommandFailed(f'{where} must have "{key}" with {expected}, got {_shown(entry)}')
    return value


def _replicas(entry: Any, partition: TopicPartition, where: str) -> Replicas:
    replicas = entry.get("replicas")
    if not isinstance(replicas, list) or not replicas or any(type(item) is not int for item in replicas):
        raise CommandFailed(
            f'{where}: "replicas" must be a non-empty list of broker ids, got {_shown(replicas)}'
        )
    _check_unique(replicas, f"{where}: replicas of {partition} must be distinct")
    return tuple(replicas)


def _log_dirs(entry: Any, replicas: Replicas, where: str) -> dict[int, str]:
    """Return log directories by broker, without those that the broker chooses."""
    directories = entry.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
    if (
        not isinstance(directories, list)
        or len(directories) != len(replicas)
        or any(type(directory) is not str for directory in directories)
    ):
        raise CommandFailed(
            f'{where}: "log_dirs" must have a path or "{ANY_LOG_DIR}" for each of {len(replicas)} replicas, '
            f"got {_shown(directories)}"
        )
    pairs = zip(replicas, directories, strict=True)
    return {broker: directory for broker, directory in pairs if directory != ANY_LOG_DIR}


def _check_unique(values: Iterable[object], requirement: str) -> None:
    repeated = [value for value, count in Counter(values).items() if count > 1]
    if repeated:
        raise CommandFailed(f"{requirement}, got {repeated[0]} twice")


def _shown(value: object) -> str:
    """Return a value as short JSON."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
