"""Pages about Spark as programs: their blocks, in order, each with what it must print.

``python`` blocks run in the session of the tests and share their names; ``toml`` and ``sql`` blocks are files
named by their first line; ``sh`` blocks are commands of ours, a line each. A ``text`` block right behind
``python`` or ``sh`` is what that prints. Fences without a name are not run.
"""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from odradek.commands import app
from odradek.pipelines.spec.reader import read_spec

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("spark*.md"))
ADDRESS = "127.0.0.1:9092"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"\n```text\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"(?:#|--) ([\w.]+)\n")
PLACES = re.compile(r'"((?:lake|tables|checkpoints)/)')
"""Python processes of Spark do not share our working directory, so relative paths are made whole."""


class Block(NamedTuple):
    kind: str
    text: str
    printed: str | None
    line: int


def blocks_of(page: Path) -> list[Block]:
    """All named blocks of a page but those that show what another one prints."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        shown = PRINTED.match(text, fence.end())
        line = text.count("\n", 0, fence.start()) + 1
        if fence[1] != "text":
            found.append(Block(fence[1], fence[2], shown[1] if shown else None, line))
    return found


class PageRun:
    """One page, run in a directory of its own."""

    def __init__(self, directory: Path, bootstrap: str, names: dict[str, Any]) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._names = names

    def run(self, block: Block) -> str:
        """What the block printed; raises what it raised."""
        return {"python": self._python, "toml": self._file, "sql": self._file, "sh": self._commands}[
            block.kind
        ](block.text.replace(ADDRESS, self._bootstrap))

    def _python(self, text: str) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(PLACES.sub(rf'"{self._directory}/\1', text), self._names)
        # Tables of Spark end with spaces that editors would take from a page.
        return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().rstrip().splitlines())

    def _file(self, text: str) -> str:
        name = FILE_NAME.match(text)
        assert name is not None, "the first line of a file is a comment with its name"
        (self._directory / name[1]).write_text(text, encoding="utf-8")
        return ""

    def _commands(self, text: str) -> str:
        printed = ""
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "odradek", line
            done = CliRunner().invoke(app, arguments, env={"ODRADEK_BOOTSTRAP": self._bootstrap})
            assert done.exit_code == 0, f"{line}\n{done.output}"
            printed += done.stdout
            self._point_files_at_broker()
        return printed

    def _point_files_at_broker(self) -> None:
        for file in self._directory.glob("*.toml"):
            file.write_text(file.read_text(encoding="utf-8").replace(ADDRESS, self._bootstrap))
            read_spec(file)
