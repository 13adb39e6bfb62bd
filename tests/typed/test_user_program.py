"""Both type checkers refuse exactly the lines of a user's program that are wrong."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("user_program.py")
SECONDS_MAX = 110
PYRIGHT_SETTINGS = {
    "include": [PROGRAM.name],
    "extraPaths": [str(ROOT / "src")],
    "pythonVersion": "3.11",
    "reportUnusedExpression": False,
}


def marked_lines() -> dict[int, str]:
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    return {number: line.strip() for number, line in enumerate(lines, 1) if line.endswith("# error")}


def refused_by_mypy(tmp_path: Path) -> dict[int, str]:
    # Errors of the sources themselves are the linter's: here they are only followed.
    options = ["--strict", "--follow-imports=silent", "--no-error-summary", "--hide-error-context"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--config-file={_mypy_settings(tmp_path)}", str(PROGRAM)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    errors = re.findall(rf"^.*{PROGRAM.name}:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return {int(line): words for line, words in errors}


def _mypy_settings(tmp_path: Path) -> Path:
    path = tmp_path / "mypy.ini"
    cache = ROOT / ".mypy_cache" / "typed"
    path.write_text(f"[mypy]\npython_version = 3.11\nmypy_path = {ROOT / 'src'}\ncache_dir = {cache}\n")
    return path


def refused_by_pyright(tmp_path: Path) -> dict[int, str]:
    # Pyright takes only what is below its settings.
    shutil.copy(PROGRAM, tmp_path)
    settings = tmp_path / "pyrightconfig.json"
    settings.write_text(json.dumps(PYRIGHT_SETTINGS))
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(settings)]
    done = subprocess.run(
        [*command, "--pythonpath", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == 1
    errors = [each for each in told["generalDiagnostics"] if each["severity"] == "error"]
    return {each["range"]["start"]["line"] + 1: each["message"] for each in errors}


@pytest.mark.parametrize("checker", [refused_by_mypy, refused_by_pyright])
def test_a_type_checker_refuses_the_wrong_lines_and_no_other(checker, tmp_path: Path) -> None:
    refused, marked = checker(tmp_path), marked_lines()
    assert len(marked) > 40
    assert {number: line for number, line in marked.items() if number not in refused} == {}
    assert {number: words for number, words in refused.items() if number not in marked} == {}
