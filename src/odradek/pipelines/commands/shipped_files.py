"""The pipelines that come with the package, each a file anyone can copy and change, with what it names."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from odradek.cli.errors import CommandFailed

FOLDER: Final = "shipped"
BROKERS: Final = "127.0.0.1:9092"
"""The brokers that shipped files name."""


class Kind(NamedTuple):
    """One pipeline: the stem of its files, and what it does."""

    stem: str
    meaning: str
    suffixes: tuple[str, ...] = (".toml",)

    @property
    def names(self) -> list[str]:
        return [self.stem + suffix for suffix in self.suffixes]


KINDS: Final = {
    "topic-to-table": Kind("topic_to_table", "JSON records of a topic into a Delta table, with dead letters"),
    "topic-to-topic": Kind("topic_to_topic", "topic to topic by SQL, exactly once", (".toml", ".sql")),
    "windows": Kind(
        "windows", "counts and sums by window of time, late rows accounted for", (".toml", ".sql")
    ),
    "table-to-topic": Kind("table_to_topic", "rows added to a Delta table into a topic, exactly once"),
}


def text_of(name: str) -> str:
    """What a shipped file says."""
    return files("odradek.pipelines").joinpath(FOLDER, name).read_text(encoding="utf-8")


def next_steps(file: Path, *, is_demo: bool) -> str:
    """The commands to go on with. Pure."""
    steps = [
        f"odradek pipeline check {file}",
        f"odradek pipeline preview {file}",
        f"odradek pipeline run {file} --once",
    ]
    first = "next:" if is_demo else f"next: change {file} to your topics, then"
    return "\n".join([first, *(f"  {step}" for step in steps)])


def copy_kind(kind: str, directory: Path, brokers: str = BROKERS) -> list[Path]:
    """Write the files of a kind, with these brokers; nothing if one of them is there already."""
    chosen = KINDS.get(kind.replace("_", "-"))
    if chosen is None:
        raise CommandFailed(f"there is no pipeline {kind}; there are {', '.join(KINDS)}")
    places = [directory / name for name in chosen.names]
    taken = [str(place) for place in places if place.exists()]
    if taken:
        raise CommandFailed(f"{', '.join(taken)} is there already; name another directory, or move it away")
    directory.mkdir(parents=True, exist_ok=True)
    for place in places:
        with place.open("x", encoding="utf-8") as file:
            file.write(text_of(place.name).replace(f'"{BROKERS}"', f'"{brokers}"'))
    return places
