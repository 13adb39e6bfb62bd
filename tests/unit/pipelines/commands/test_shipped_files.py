"""The pipelines that come with the package: each can be read, is packaged, and is copied without harm."""

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
def test_a_copy_is_a_pipeline_that_can_be_read(kind: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pipeline", "new", kind, str(tmp_path / "mine")])
    assert done.exit_code == 0, done.output
    first, *_ = copied = [Path(line) for line in done.stdout.splitlines()[1:]]
    assert sorted(copied) == sorted((tmp_path / "mine").iterdir())
    spec = read_spec(first, {})
    assert spec.sink.guarantee == "exactly_once"
    assert Path(spec.checkpoint).is_relative_to(tmp_path / "mine")


def test_a_copy_has_the_brokers_that_were_named_and_says_what_to_do_next(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pipeline", "new", "windows", str(tmp_path), "-b", "broker:1234"])
    file = tmp_path / "windows.toml"
    assert read_spec(file, {}).source.brokers == "broker:1234"
    assert f"odradek pipeline check {file}\n" in done.stderr
    assert f"odradek pipeline run {file} --once\n" in done.stderr


def test_sample_orders_fit_the_schema_of_the_shipped_pipelines() -> None:
    some = orders(50)
    assert len({one["id"] for one in some}) == 50
    assert {tuple(one) for one in some} == {("id", "place", "at", "amount")}
    assert some[1]["at"] == "2026-01-31T12:01:00Z"
    assert any(one["amount"] >= 100 for one in some)


def test_every_shipped_file_belongs_to_a_kind_and_is_packaged() -> None:
    files = sorted(path.name for path in SHIPPED.iterdir())
    assert files == sorted(name for kind in KINDS.values() for name in kind.names)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["odradek"]
    packaged = {path.name for one in patterns for path in (ROOT / "src" / "odradek").glob(one)}
    assert packaged >= set(files)


def test_no_two_shipped_pipelines_share_a_name_or_a_checkpoint(tmp_path: Path) -> None:
    specs = [read_spec(copy_kind(kind, tmp_path)[0], {}) for kind in KINDS]
    assert len({spec.name for spec in specs}) == len({spec.checkpoint for spec in specs}) == len(KINDS)


def test_nothing_is_overwritten_and_nothing_is_half_copied(tmp_path: Path) -> None:
    (tmp_path / "windows.sql").write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(app, ["pipeline", "new", "windows", str(tmp_path)])
    assert done.exit_code == 1
    assert "windows.sql is there already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["windows.sql"]
    assert (tmp_path / "windows.sql").read_text(encoding="utf-8") == "mine"


def test_without_a_kind_all_are_listed_and_a_wrong_one_names_them(tmp_path: Path) -> None:
    listed = CliRunner().invoke(app, ["pipeline", "new"])
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == list(KINDS)
    wrong = CliRunner().invoke(app, ["pipeline", "new", "everything", str(tmp_path)])
    assert wrong.exit_code == 1
    assert all(kind in wrong.stderr for kind in KINDS)


def test_names_are_taken_with_either_dash(tmp_path: Path) -> None:
    (file,) = copy_kind("table_to_topic", tmp_path)
    assert file.read_text(encoding="utf-8") == text_of("table_to_topic.toml")
