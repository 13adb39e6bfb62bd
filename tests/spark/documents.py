"""Execution of the examples in the documentation of Spark.

``python`` blocks run in the shared session and share their names; ``toml`` and ``sql`` blocks are files named
by their first line; ``sh`` blocks are odradek commands, one per line. A ``text`` block right after ``python``
or ``sh`` is its expected output. Fences without a name are not run.
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
RELATIVE_PATHS = re.compile(r'"((?:lake|tables|checkpoints)/)')
"""Relative paths are made absolute, because Spark's Python processes have another working directory."""


class Block(NamedTuple):
    kind: str
    text: str
    printed: str | None
    line: int


def blocks_of(page: Path) -> list[Block]:
    """Return all named blocks of a page, except expected output."""
    text = page.read_text(encoding="utf-8")
    blocks = []
    for fence in FENCE.finditer(text):
        shown = PRINTED.match(text, fence.end())
        line = text.count("\n", 0, fence.start()) + 1
        if fence[1] != "text":
            blocks.append(Block(fence[1], fence[2], shown[1] if shown else None, line))
    return blocks


class PageRun:
    """Runs one page in its own directory."""

    def __init__(self, directory: Path, bootstrap: str, names: dict[str, Any]) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._names = names

    def run(self, block: Block) -> str:
        """Run a block; return its output."""
        return {"python": self._python, "toml": self._file, "sql": self._file, "sh": self._commands}[
            block.kind
        ](block.text.replace(ADDRESS, self._bootstrap))

    def _python(self, text: str) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(RELATIVE_PATHS.sub(rf'"{self._directory}/\1', text), self._names)
        # Spark's tables have trailing spaces, which editors remove from a page.
        return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().rstrip().splitlines())

    def _file(self, text: str) -> str:
        name = FILE_NAME.match(text)
        assert name is not None, "the first line of a file must be a comment with its name"
        (self._directory / name[1]).write_text(text, encoding="utf-8")
        return ""

    def _commands(self, text: str) -> str:
        printed = ""
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "odradek", line
            result = CliRunner().invoke(app, arguments, env={"ODRADEK_BOOTSTRAP": self._bootstrap})
            assert result.exit_code == 0, f"{line}\n{result.output}"
            printed += result.stdout
            self._point_files_at_broker()
        return printed

    def _point_files_at_broker(self) -> None:
        for file in self._directory.glob("*.toml"):
            file.write_text(file.read_text(encoding="utf-8").replace(ADDRESS, self._bootstrap))
            read_spec(file)
