"""The commands about pipelines, as far as they need no broker: what they import, refuse and print."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from odradek.commands import app

GOOD = """
[pipeline]
name = "orders"
[source]
brokers = "127.0.0.1:1"
topics = ["t"]
[sink]
type = "noop"
"""


def written(directory: Path, text: str = GOOD) -> str:
    file = directory / "orders.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_help_imports_no_spark_no_arrow_and_no_client() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from odradek.commands import app; "
        "assert CliRunner().invoke(app, ['pipeline', 'run', '--help']).exit_code == 0; "
        "print([m for m in sys.modules if m.partition('.')[0] in ('pyspark', 'pyarrow', 'deltalake') "
        "or 'client' in m])"
    )
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["status"],
        ["lag"],
        ["reset", "--to", "earliest"],
        ["replay", "--from", "2026-01-01", "--to", "2026-01-02"],
    ],
)
def test_a_file_with_mistakes_is_wrong_use_with_a_line_for_each(tmp_path: Path, arguments: list[str]) -> None:
    file = written(tmp_path, GOOD.replace("name =", "nam =").replace('"noop"', '"no such"'))
    done = CliRunner().invoke(app, ["pipeline", arguments[0], file, *arguments[1:]])
    assert done.exit_code == 2
    lines = done.stderr.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("odradek: orders.toml:") for line in lines)


def test_check_lists_the_mistakes_of_a_file(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD.replace('"noop"', '"no such"'))
    done = CliRunner().invoke(app, ["pipeline", "check", file, "--json"])
    assert done.exit_code == 1
    (mistake,) = json.loads(done.stdout)
    assert (mistake["what"], mistake["ok"]) == ("file", False)
    assert "orders.toml:8" in mistake["found"]


@pytest.mark.parametrize("command", ["check", "run", "preview", "status"])
def test_a_file_that_is_not_there_is_told_with_one_that_is(tmp_path: Path, command: str) -> None:
    (tmp_path / "topic_to_topic.toml").write_text(GOOD, encoding="utf-8")
    done = CliRunner().invoke(app, ["pipeline", command, str(tmp_path / "topic-to-topic.toml")])
    assert done.exit_code == (1 if command == "check" else 2)
    told = " ".join(done.output.split())
    assert "there is no such file; did you mean" in told
    assert "topic_to_topic.toml?" in told
    empty = CliRunner().invoke(app, ["pipeline", command, str(tmp_path / "none" / "orders.toml")])
    assert "there is no such file; odradek pipeline new makes one" in " ".join(empty.output.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reset", "--to", "sometime"], "give earliest, latest, a time"),
        (["replay", "--from", "sometime", "--to", "2026-01-01"], "datetime must be like"),
        (["replay", "--from", "2026-01-02", "--to", "2026-01-01"], "is not before"),
    ],
)
def test_what_cannot_be_read_is_wrong_use_before_any_broker_is_asked(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = CliRunner().invoke(app, ["pipeline", arguments[0], written(tmp_path), *arguments[1:]])
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_missing_package_is_told_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "odradek.pipelines.checkpoint.checkpoint", raising=False)
    done = CliRunner().invoke(app, ["pipeline", "status", written(tmp_path)])
    assert done.exit_code == 1
    assert done.stderr == 'odradek: pyarrow is not installed: pip install "odradek[spark]"\n'


def test_options_that_the_client_has_not_are_wrong_use_in_one_line(tmp_path: Path) -> None:
    file = written(
        tmp_path, GOOD.replace("[sink]", 'options = {"kafka.security.protocol" = "SASL_SSL"}\n[sink]')
    )
    done = CliRunner().invoke(app, ["pipeline", "run", file])
    assert done.exit_code == 2
    assert done.stderr.startswith("odradek: options of the section, kafka.*: Invalid value SASL_SSL")
    assert len(done.stderr.splitlines()) == 1
    checked = CliRunner().invoke(app, ["pipeline", "check", file, "--no-plan"])
    assert checked.exit_code == 1
    assert "only PLAINTEXT connections can be made" in " ".join(checked.output.split())


def test_a_full_disk_of_the_checkpoint_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*words: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("odradek.pipelines.run.supervisor.run", full)
    done = CliRunner().invoke(app, ["pipeline", "run", written(tmp_path)])
    assert done.exit_code == 1
    assert done.stderr.startswith("odradek: the disk of the checkpoint is full: make room and run it again")
