"""The pipeline commands without a broker: imports, errors and output."""

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


def write_spec(directory: Path, text: str = GOOD) -> str:
    file = directory / "orders.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_help_imports_no_spark_arrow_or_client() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from odradek.commands import app; "
        "assert CliRunner().invoke(app, ['pipeline', 'run', '--help']).exit_code == 0; "
        "print([m for m in sys.modules if m.partition('.')[0] in ('pyspark', 'pyarrow', 'deltalake') "
        "or 'client' in m])"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


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
def test_invalid_file_is_a_usage_error_with_a_line_per_problem(tmp_path: Path, arguments: list[str]) -> None:
    file = write_spec(tmp_path, GOOD.replace("name =", "nam =").replace('"noop"', '"no such"'))
    result = CliRunner().invoke(app, ["pipeline", arguments[0], file, *arguments[1:]])
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("odradek: orders.toml:") for line in lines)


def test_check_lists_problems_of_a_file(tmp_path: Path) -> None:
    file = write_spec(tmp_path, GOOD.replace('"noop"', '"no such"'))
    result = CliRunner().invoke(app, ["pipeline", "check", file, "--json"])
    assert result.exit_code == 1
    (check,) = json.loads(result.stdout)
    assert (check["what"], check["ok"]) == ("file", False)
    assert "orders.toml:8" in check["found"]


@pytest.mark.parametrize("command", ["check", "run", "preview", "status"])
def test_missing_file_suggests_another(tmp_path: Path, command: str) -> None:
    (tmp_path / "topic_to_topic.toml").write_text(GOOD, encoding="utf-8")
    result = CliRunner().invoke(app, ["pipeline", command, str(tmp_path / "topic-to-topic.toml")])
    assert result.exit_code == (1 if command == "check" else 2)
    output = " ".join(result.output.split())
    assert "file not found; did you mean" in output
    assert "topic_to_topic.toml?" in output
    empty = CliRunner().invoke(app, ["pipeline", command, str(tmp_path / "none" / "orders.toml")])
    assert "file not found; create one with odradek pipeline new" in " ".join(empty.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reset", "--to", "sometime"], "--to must be earliest, latest, a time"),
        (["replay", "--from", "sometime", "--to", "2026-01-01"], "datetime must be like"),
        (["replay", "--from", "2026-01-02", "--to", "2026-01-01"], "--from must be before --to"),
    ],
)
def test_invalid_arguments_are_usage_errors_before_any_request(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    result = CliRunner().invoke(app, ["pipeline", arguments[0], write_spec(tmp_path), *arguments[1:]])
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_missing_package_is_told_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "odradek.pipelines.checkpoint.checkpoint", raising=False)
    result = CliRunner().invoke(app, ["pipeline", "status", write_spec(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr == 'odradek: pyarrow is not installed: pip install "odradek[spark]"\n'


def test_invalid_client_options_are_usage_errors(tmp_path: Path) -> None:
    file = write_spec(
        tmp_path, GOOD.replace("[sink]", 'options = {"kafka.security.protocol" = "SASL_SSL"}\n[sink]')
    )
    result = CliRunner().invoke(app, ["pipeline", "run", file])
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "odradek: options kafka.*: security.protocol=SASL_SSL: SASL mechanism GSSAPI"
    )
    assert len(result.stderr.splitlines()) == 1
    checked = CliRunner().invoke(app, ["pipeline", "check", file, "--no-plan"])
    assert checked.exit_code == 1
    assert "SASL mechanism GSSAPI (Kerberos) is not supported" in " ".join(checked.output.split())


def test_full_checkpoint_disk_is_reported_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("odradek.pipelines.run.supervisor.run", full)
    result = CliRunner().invoke(app, ["pipeline", "run", write_spec(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "odradek: the disk of the checkpoint is full: free space and run it again"
    )
