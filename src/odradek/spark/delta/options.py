"""Options of ``format("odradek_delta")``.

Spark passes names in lower case and values unchanged. An unknown name is an error with the closest known one;
``storage.*`` is passed to delta-rs and ``deadLetter.kafka.*`` to the producer unchanged.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from odradek.spark.delta.errors import TableOptionError

_STORAGE: Final = "storage."
_DEAD_LETTER: Final = "deadletter.kafka."
# Options that Spark itself adds.
_SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})
_BOOLEANS: Final = {"true": True, "false": False}
COMPRESSIONS: Final = ("zstd", "snappy", "none")
_DEFAULT_FILE_BYTES: Final = 128 * 1024 * 1024

_SINK: Final = (
    "path",
    "partitionBy",
    "fileBytes",
    "compression",
    "keys",
    "orderBy",
    "mergeSchema",
    "sinkId",
    "sinkVersion",
    "maxCommitAttempts",
    "compactEvery",
    "vacuumHours",
    "deadLetterTopic",
    "deadLetterMaxRatio",
)
_SOURCE: Final = (
    "path",
    "partitionBytes",
    "versionAsOf",
    "timestampAsOf",
    "startingVersion",
    "maxFilesPerTrigger",
    "maxVersionsPerTrigger",
    "ignoreDeletes",
    "ignoreChanges",
    "skipChangeCommits",
    "failOnDataLoss",
)
Value = TypeVar("Value")


@dataclass(frozen=True)
class SinkOptions:
    """Options of a write."""

    path: str
    storage_options: dict[str, str]
    partition_by: tuple[str, ...]
    file_bytes: int
    compression: str
    keys: tuple[str, ...]
    order_by: str | None
    merge_schema: bool
    sink_id: str | None
    sink_version: int
    commit_attempts_max: int
    compact_every: int
    vacuum_hours: int | None
    dead_letter_topic: str | None
    dead_letter_settings: dict[str, str]
    dead_letter_ratio_max: float


@dataclass(frozen=True)
class SourceOptions:
    """Options of a read."""

    path: str
    storage_options: dict[str, str]
    partition_bytes: int
    version_as_of: int | None
    timestamp_as_of: str | None
    starting_version: int | str | None
    files_per_trigger_max: int
    versions_per_trigger_max: int | None
    ignore_deletes: bool
    ignore_changes: bool
    skip_change_commits: bool
    fail_on_data_loss: bool


def read_sink_options(raw_options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a write; raise TableOptionError."""
    options = _OptionReader(raw_options, _SINK, prefixes=(_STORAGE, _DEAD_LETTER))
    sink = SinkOptions(
        path=options.path(),
        storage_options=options.with_prefix(_STORAGE),
        partition_by=options.names("partitionBy"),
        file_bytes=options.number("fileBytes", _DEFAULT_FILE_BYTES, least=1),
        compression=options.choice("compression", COMPRESSIONS, "zstd"),
        keys=options.names("keys"),
        order_by=options.text("orderBy"),
        merge_schema=options.boolean("mergeSchema", False),
        sink_id=options.text("sinkId"),
        sink_version=options.number("sinkVersion", 0),
        commit_attempts_max=options.number("maxCommitAttempts", 10, least=1),
        compact_every=options.number("compactEvery", 0),
        vacuum_hours=options.optional_number("vacuumHours", least=1),
        dead_letter_topic=options.text("deadLetterTopic"),
        dead_letter_settings=options.with_prefix(_DEAD_LETTER),
        dead_letter_ratio_max=options.ratio("deadLetterMaxRatio", 1.0),
    )
    _check_together(sink)
    return sink


def _check_together(sink: SinkOptions) -> None:
    if sink.order_by is not None and not sink.keys:
        raise TableOptionError(
            "option orderBy requires the option keys: it selects one of several rows with the same key"
        )
    if sink.dead_letter_topic is not None and "bootstrap.servers" not in sink.dead_letter_settings:
        raise TableOptionError(
            f"option deadLetterTopic ({sink.dead_letter_topic}) requires the option"
            " deadLetter.kafka.bootstrap.servers"
        )


def read_source_options(raw_options: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a read; raise TableOptionError."""
    options = _OptionReader(raw_options, _SOURCE, prefixes=(_STORAGE,))
    source = SourceOptions(
        path=options.path(),
        storage_options=options.with_prefix(_STORAGE),
        partition_bytes=options.number("partitionBytes", _DEFAULT_FILE_BYTES, least=1),
        version_as_of=options.optional_number("versionAsOf"),
        timestamp_as_of=options.text("timestampAsOf"),
        starting_version=options.version_or_latest("startingVersion"),
        files_per_trigger_max=options.number("maxFilesPerTrigger", 1000, least=1),
        versions_per_trigger_max=options.optional_number("maxVersionsPerTrigger", least=1),
        ignore_deletes=options.boolean("ignoreDeletes", False),
        ignore_changes=options.boolean("ignoreChanges", False),
        skip_change_commits=options.boolean("skipChangeCommits", False),
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
    )
    if source.version_as_of is not None and source.timestamp_as_of is not None:
        raise TableOptionError("options versionAsOf and timestampAsOf exclude each other: set only one")
    return source


class _OptionReader:
    """Typed access to raw options by name."""

    def __init__(
        self, raw_options: Mapping[str, str], known: tuple[str, ...], prefixes: tuple[str, ...]
    ) -> None:
        self._values = {name.lower(): str(value) for name, value in raw_options.items() if value is not None}
        for name in self._values:
            if name not in _SPARK_OPTIONS and not name.startswith(prefixes):
                _check_known(name, known)

    def path(self) -> str:
        path = self.text("path")
        if path is None:
            raise TableOptionError(
                "the path of the table is required: pass it to load(), save() or start(), or set option path"
            )
        return path

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower(), "").strip()
        return value or None

    def with_prefix(self, prefix: str) -> dict[str, str]:
        return {
            name.removeprefix(prefix): value
            for name, value in self._values.items()
            if name.startswith(prefix)
        }

    def names(self, name: str) -> tuple[str, ...]:
        listed = [part.strip() for part in (self.text(name) or "").split(",")]
        return tuple(dict.fromkeys(part for part in listed if part))

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        return self._parse(name, text, lambda value: _BOOLEANS[value.lower()], "true or false")

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        text = (self.text(name) or default).lower()
        return text if text in choices else _reject(name, text, " or ".join(choices))

    def number(self, name: str, default: int, least: int = 0) -> int:
        number = self.optional_number(name, least)
        return default if number is None else number

    def optional_number(self, name: str, least: int = 0) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        expected = f"an integer >= {least}"
        number = self._parse(name, text, int, expected)
        return number if number >= least else _reject(name, text, expected)

    def ratio(self, name: str, default: float) -> float:
        text = self.text(name)
        if text is None:
            return default
        expected = "a number between 0 and 1"
        ratio = self._parse(name, text, float, expected)
        return ratio if 0 <= ratio <= 1 else _reject(name, text, expected)

    def version_or_latest(self, name: str) -> int | str | None:
        text = self.text(name)
        if text is not None and text.lower() == "latest":
            return "latest"
        return self.optional_number(name)

    @staticmethod
    def _parse(name: str, text: str, read: Callable[[str], Value], expected: str) -> Value:
        try:
            return read(text)
        except (ValueError, KeyError):
            _reject(name, text, expected)


def _reject(name: str, text: str, expected: str) -> NoReturn:
    raise TableOptionError(f"option {name} must be {expected}, got {text!r}")


def _check_known(name: str, known: Iterable[str]) -> None:
    by_lower = {option.lower(): option for option in known}
    if name in by_lower:
        return
    nearest = difflib.get_close_matches(name, by_lower, n=1)
    hint = f"did you mean {by_lower[nearest[0]]}?" if nearest else f"the options are {', '.join(known)}"
    raise TableOptionError(f"odradek_delta has no option {name} here: {hint}")
