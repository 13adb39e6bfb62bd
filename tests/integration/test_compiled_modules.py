"""Compiled modules run only if every source is the one they were compiled from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from odradek import compiled_modules

SOURCE = Path(compiled_modules.__file__).parent
PRINT = (
    "import odradek.timers.purgatory as module, odradek.compiled_modules as modules;"
    "print(module.__file__, modules.PURE_REASON, module.PURGE_INTERVAL, sep='\\n')"
)
PRINT_HOT_MESSAGES = (
    "from odradek.wire import message_codecs as codecs;"
    "print(getattr(codecs._hot_messages(), '__file__', None))"
)

pytestmark = pytest.mark.skipif(not compiled_modules.COMPILED, reason="there are no compiled modules to test")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Copy the package, with its compiled modules."""
    copy = tmp_path / "odradek"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def printed(package: Path, program: str, **variables: str) -> list[str]:
    """Run a program with the copied package; return the lines it prints."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), **variables}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def used(package: Path, **variables: str) -> tuple[bool, str, int]:
    """Return whether a compiled module runs, the reason if not, and a constant of it."""
    file, reason, constant = printed(package, PRINT, **variables)
    assert Path(file).is_relative_to(package)
    return file.endswith(".so"), reason, int(constant)


def uses_hot_messages(package: Path, **variables: str) -> bool:
    """Return whether messages have compiled codecs."""
    (file,) = printed(package, PRINT_HOT_MESSAGES, **variables)
    assert file == "None" or Path(file).is_relative_to(package / "_compiled")
    return file != "None"


def replace(file: Path, before: str, after: str) -> None:
    """Replace text; size and time of the file stay the same."""
    status, text = file.stat(), file.read_text()
    assert before in text
    assert len(before) == len(after)
    file.write_text(text.replace(before, after))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_compiled_modules_run_after_a_build(package: Path) -> None:
    assert used(package) == (True, "None", 1000)


def test_changed_source_runs_instead_of_its_compiled_form(package: Path) -> None:
    replace(package / "timers" / "purgatory.py", "INTERVAL: Final = 1000", "INTERVAL: Final = 2000")
    assert used(package) == (False, "timers/purgatory.py has changed since they were compiled", 2000)


def test_changed_constant_of_another_source_is_noticed(package: Path) -> None:
    """Constants of modules that are not compiled are copied into those that are."""
    replace(package / "wire" / "schema.py", "NEVER: Final = 32768", "NEVER: Final = 32769")
    assert used(package)[:2] == (False, "wire/schema.py has changed since they were compiled")


def test_sources_run_on_request(package: Path) -> None:
    assert used(package, ODRADEK_PURE="1") == (False, "ODRADEK_PURE=1 is set", 1000)


def test_sources_run_without_a_complete_build(package: Path) -> None:
    (package / "_compiled" / compiled_modules.SOURCES).unlink()
    assert used(package) == (False, "they have not been compiled", 1000)


def test_sources_run_if_one_of_them_is_missing(package: Path) -> None:
    (package / "wire" / "schema.py").unlink()
    assert used(package)[0] is False


def test_codecs_of_hot_messages_run_after_a_build(package: Path) -> None:
    assert uses_hot_messages(package) is True


def test_codecs_of_hot_messages_do_not_run_when_sources_are_requested(package: Path) -> None:
    assert uses_hot_messages(package, ODRADEK_PURE="1") is False


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("messages/heartbeat.py", "since=3, nullable_since=3", "since=2, nullable_since=2"),
        ("messages/offset_commit.py", "flexible=8", "flexible=9"),
        ("schema.py", "NEVER: Final = 32768", "NEVER: Final = 32769"),
        ("primitives.py", "STRING_BYTES_MAX: Final = 0x7FFF", "STRING_BYTES_MAX: Final = 0x6FFF"),
        ("decoder_generator.py", "n < {1 if", "n < {2 if"),
        ("hot_messages_generator.py", "if end == NULL", "if end != NULL"),
        ("hot_codec.pxi", "UUID_BYTES = 16", "UUID_BYTES = 15"),
    ],
)
def test_codecs_of_hot_messages_do_not_run_after_a_change(
    package: Path, source: str, before: str, after: str
) -> None:
    replace(package / "wire" / source, before, after)
    assert uses_hot_messages(package) is False


def test_codecs_of_an_earlier_build_do_not_run(package: Path) -> None:
    """They stay in the directory when a later build could not generate them."""
    sources = package / "_compiled" / compiled_modules.SOURCES
    lines = sources.read_text().splitlines(keepends=True)
    sources.write_text("".join(line for line in lines if " generator " not in line))
    assert uses_hot_messages(package) is False
    assert used(package)[0] is True
