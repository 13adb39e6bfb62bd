"""The shipped pipelines: each is valid, packaged, and copied without overwriting."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from odradek.commands import app
from odradek.pipelines.commands.demo import orders
from odradek.pipelines.commands.shipped_files import FOLDER, KINDS, copy_kind, text_of
from odradek.pipelines.spec.reader import read_spec

ROOT = Path(__file__).parents[4]
SHIPPED = ROOT / "src" / "odradek" / "pipelines" / FOLDER


@pytest.mark.parametrize("kind", KINDS)
def test_copied_pipeline_is_valid(kind: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pipeline", "new", kind, str(tmp_path / "mine")])
    assert result.exit_code == 0, result.output
    first, *_ = copied = [Path(line) for line in result.stdout.splitlines()[1:]]
    assert sorted(copied) == sorted((tmp_path / "mine").iterdir())
    spec = read_spec(first, {})
    assert spec.sink.guarantee == "exactly_once"
    assert Path(spec.checkpoint).is_relative_to(tmp_path / "mine")


def test_copy_has_the_requested_brokers_and_next_steps(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pipeline", "new", "windows", str(tmp_path), "-b", "broker:1234"])
    file = tmp_path / "windows.toml"
    assert read_spec(file, {}).source.brokers == "broker:1234"
    assert f"odradek pipeline check {file}\n" in result.stderr
    assert f"odradek pipeline run {file} --once\n" in result.stderr


def test_sample_orders_match_the_schema_of_shipped_pipelines() -> None:
    sample = orders(50)
    assert len({order["id"] for order in sample}) == 50
    assert {tuple(order) for order in sample} == {("id", "place", "at", "amount")}
    assert sample[1]["at"] == "2026-01-31T12:01:00Z"
    assert any(order["amount"] >= 100 for order in sample)


def test_every_shipped_file_belongs_to_a_kind_and_is_packaged() -> None:
    files = sorted(path.name for path in SHIPPED.iterdir())
    assert files == sorted(name for kind in KINDS.values() for name in kind.names)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["odradek"]
    packaged = {path.name for pattern in patterns for path in (ROOT / "src" / "odradek").glob(pattern)}
    assert packaged >= set(files)


def test_no_two_shipped_pipelines_share_a_name_or_a_checkpoint(tmp_path: Path) -> None:
    specs = [read_spec(copy_kind(kind, tmp_path)[0], {}) for kind in KINDS]
    assert len({spec.name for spec in specs}) == len({spec.checkpoint for spec in specs}) == len(KINDS)


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "windows.sql").write_text("mine", encoding="utf-8")
    result = CliRunner().invoke(app, ["pipeline", "new", "windows", str(tmp_path)])
    assert result.exit_code == 1
    assert "windows.sql already exists" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["windows.sql"]
    assert (tmp_path / "windows.sql").read_text(encoding="utf-8") == "mine"


def test_kinds_are_listed_and_unknown_kind_is_rejected(tmp_path: Path) -> None:
    listed = CliRunner().invoke(app, ["pipeline", "new"])
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == list(KINDS)
    wrong = CliRunner().invoke(app, ["pipeline", "new", "everything", str(tmp_path)])
    assert wrong.exit_code == 1
    assert all(kind in wrong.stderr for kind in KINDS)


def test_kind_accepts_underscores(tmp_path: Path) -> None:
    (file,) = copy_kind("table_to_topic", tmp_path)
    assert file.read_text(encoding="utf-8") == text_of("table_to_topic.toml")
