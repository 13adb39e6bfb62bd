"""mypy and pyright report exactly the marked lines of a user program."""

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


def mypy_errors(tmp_path: Path) -> dict[int, str]:
    # Errors in the sources themselves are found by the linter: here they are ignored.
    options = ["--strict", "--follow-imports=silent", "--no-error-summary", "--hide-error-context"]
    completed = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--config-file={_mypy_settings(tmp_path)}", str(PROGRAM)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert completed.returncode in (0, 1), completed.stderr
    errors = re.findall(rf"^.*{PROGRAM.name}:(\d+): error: (.*)$", completed.stdout, re.MULTILINE)
    return {int(line): message for line, message in errors}


def _mypy_settings(tmp_path: Path) -> Path:
    path = tmp_path / "mypy.ini"
    cache = ROOT / ".mypy_cache" / "typed"
    path.write_text(f"[mypy]\npython_version = 3.11\nmypy_path = {ROOT / 'src'}\ncache_dir = {cache}\n")
    return path


def pyright_errors(tmp_path: Path) -> dict[int, str]:
    # Pyright analyzes only files below its settings.
    shutil.copy(PROGRAM, tmp_path)
    settings = tmp_path / "pyrightconfig.json"
    settings.write_text(json.dumps(PYRIGHT_SETTINGS))
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(settings)]
    completed = subprocess.run(
        [*command, "--pythonpath", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert completed.returncode in (0, 1), completed.stderr
    report = json.loads(completed.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    errors = [error for error in report["generalDiagnostics"] if error["severity"] == "error"]
    return {error["range"]["start"]["line"] + 1: error["message"] for error in errors}


@pytest.mark.parametrize("find_errors", [mypy_errors, pyright_errors])
def test_type_checkers_report_marked_lines_only(find_errors, tmp_path: Path) -> None:
    errors, marked = find_errors(tmp_path), marked_lines()
    assert len(marked) > 40
    assert {number: line for number, line in marked.items() if number not in errors} == {}
    assert {number: message for number, message in errors.items() if number not in marked} == {}
