"""The pipelines that ship with the package, as files to copy and change."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from odradek.cli.errors import CommandFailed

FOLDER: Final = "shipped"
BROKERS: Final = "127.0.0.1:9092"
"""The brokers in shipped files."""


class Kind(NamedTuple):
    """One shipped pipeline: the stem of its files, and its description."""

    stem: str
    meaning: str
    suffixes: tuple[str, ...] = (".toml",)

    @property
    def names(self) -> list[str]:
        return [self.stem + suffix for suffix in self.suffixes]


KINDS: Final = {
    "topic-to-table": Kind("topic_to_table", "JSON records of a topic into a Delta table, with dead letters"),
    "topic-to-topic": Kind("topic_to_topic", "topic to topic by SQL, exactly once", (".toml", ".sql")),
    "windows": Kind("windows", "counts and sums by time window, with late rows", (".toml", ".sql")),
    "table-to-topic": Kind("table_to_topic", "rows added to a Delta table into a topic, exactly once"),
}


def text_of(name: str) -> str:
    """Return the content of a shipped file."""
    return files("odradek.pipelines").joinpath(FOLDER, name).read_text(encoding="utf-8")


def next_steps(file: Path, *, is_demo: bool) -> str:
    """Return the commands to continue with. Pure."""
    steps = [
        f"odradek pipeline check {file}",
        f"odradek pipeline preview {file}",
        f"odradek pipeline run {file} --once",
    ]
    first = "next:" if is_demo else f"next: adapt {file} to your topics, then"
    return "\n".join([first, *(f"  {step}" for step in steps)])


def copy_kind(kind: str, directory: Path, brokers: str = BROKERS) -> list[Path]:
    """Copy the files of a shipped pipeline, with these brokers; never overwrite a file."""
    shipped = KINDS.get(kind.replace("_", "-"))
    if shipped is None:
        raise CommandFailed(f"KIND must be one of {', '.join(KINDS)}, got {kind}")
    paths = [directory / name for name in shipped.names]
    existing = [str(path) for path in paths if path.exists()]
    if existing:
        raise CommandFailed(f"{', '.join(existing)} already exists; use another directory, or move it")
    directory.mkdir(parents=True, exist_ok=True)
    for path in paths:
        with path.open("x", encoding="utf-8") as file:
            file.write(text_of(path.name).replace(f'"{BROKERS}"', f'"{brokers}"'))
    return paths
