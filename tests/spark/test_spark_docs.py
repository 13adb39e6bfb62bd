"""Examples of the documentation of Spark print their expected output, and its tables list all options."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from pyspark.sql import SparkSession
from tests.spark.documents import DOCS, PAGES, PageRun, blocks_of

from odradek.pipelines.commands import pipeline
from odradek.pipelines.monitoring.metrics import METRICS, PREFIX
from odradek.pipelines.query import sinks
from odradek.pipelines.run import driver, supervisor
from odradek.pipelines.spec.model import Sink, Source
from odradek.pipelines.spec.reader import Spec
from odradek.spark.delta import options as delta_options
from odradek.spark.options import sink_options, source_options

SECONDS_MAX = 150
GUIDE, DELTA, MIGRATION = DOCS / "spark.md", DOCS / "spark-delta.md", DOCS / "spark-migration.md"
pytestmark = pytest.mark.timeout(600)
CODE = re.compile(r"`([\w.]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_print_what_is_shown(
    page: Path, spark: SparkSession, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_here(spec: Spec, *, once: bool, **_: object) -> int:
        """Run in the shared session, because a driver process starts its own Java."""
        assert once, "the run of an example must end"
        query = sinks.start_query(driver.outgoing_frame(spark, spec, streaming=True), spec, once=True)
        assert query.awaitTermination(SECONDS_MAX), "the query did not end"
        return 0

    monkeypatch.setattr(supervisor, "run", run_here)
    monkeypatch.chdir(tmp_path)
    run = PageRun(tmp_path, bootstrap, {"spark": spark, "__name__": "example"})
    blocks = blocks_of(page)
    assert blocks
    printed = {f"{page.name}:{block.line}": run.run(block) for block in blocks}
    shown = {f"{page.name}:{block.line}": block.printed for block in blocks if block.printed is not None}
    assert {location: printed[location] for location in shown} == shown


def names_in_table(page: Path, heading: str, column: int = 0) -> set[str]:
    """Return the names in backquotes in a column of the tables with this heading."""
    names: set[str] = set()
    is_inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        is_inside = line.startswith("|") and (is_inside or line.startswith(f"| {heading} |"))
        if is_inside:
            names |= set(CODE.findall(cells[column]))
    return names


def section(page: Path, title: str, tmp_path: Path) -> Path:
    """Write a section of a page to a page of its own."""
    part = re.split(
        r"^##+ ", page.read_text(encoding="utf-8").partition(f"# {title}\n")[2], flags=re.MULTILINE
    )[0]
    cut = tmp_path / "part.md"
    cut.write_text(part, encoding="utf-8")
    return cut


def test_guide_lists_all_options_of_source_and_sink(tmp_path: Path) -> None:
    source = names_in_table(section(GUIDE, "Options of the source", tmp_path), "option")
    clients = {"kafka.bootstrap.servers", "kafka.group.id"}
    assert source == {*source_options.OPTION_NAMES.values(), *clients}
    sink = names_in_table(section(GUIDE, "Options of the sink", tmp_path), "option")
    assert sink == {*sink_options._OWN_NAMES, "kafka.bootstrap.servers"}


def test_delta_page_lists_all_options() -> None:
    sink = names_in_table(DELTA, "option of the sink")
    assert sink >= set(delta_options._SINK)
    source = names_in_table(DELTA, "option of the source")
    of_batches = {"path", "versionAsOf", "timestampAsOf"}
    assert source | of_batches == set(delta_options._SOURCE)


def test_guide_lists_all_keys_of_a_pipeline_file() -> None:
    source = {field.name for field in fields(Source)} - {"start_offsets"}
    assert names_in_table(GUIDE, "`[source]`") - {"orders"} >= source
    assert {field.name for field in fields(Sink)} <= names_in_table(GUIDE, "`[sink]`")


def test_guide_lists_all_pipeline_commands() -> None:
    group: Any = typer.main.get_command(pipeline.app)
    listed = re.findall(r"`(\w+) (?:FILE|\[KIND)", GUIDE.read_text(encoding="utf-8"))
    assert set(listed) == set(group.commands)


def test_guide_lists_existing_metrics(tmp_path: Path) -> None:
    text = section(GUIDE, "Metrics", tmp_path).read_text(encoding="utf-8")
    listed = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", text)) - {"metrics_port"}
    assert listed - {PREFIX.rstrip("_"), PREFIX} <= {metric.name for metric in METRICS}
    assert len(listed) > 10


def test_migration_page_lists_all_options_of_sparks_own_source() -> None:
    listed = names_in_table(MIGRATION, "option")
    assert set(source_options._SPARK_NAMES) <= listed
