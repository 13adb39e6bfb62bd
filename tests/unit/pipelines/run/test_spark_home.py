"""A home of Spark without the zip of its Python package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from odradek.pipelines.run.spark_home import spark_home_variables


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Spark as pip installs it, the parts that count."""
    package = tmp_path / "pyspark"
    for name in ("bin/spark-submit", "jars/core.jar", "python/lib/pyspark.zip"):
        file = package / name
        file.parent.mkdir(parents=True)
        file.write_text(name)
    return package


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_everything_is_there_save_the_zip(package: Path, environment: dict[str, str]) -> None:
    home = Path(spark_home_variables(environment, package)["SPARK_HOME"])
    assert (home / "bin" / "spark-submit").read_text() == "bin/spark-submit"
    assert (home / "jars" / "core.jar").exists()
    assert not (home / "python").exists()
    assert home.is_relative_to(environment["XDG_CACHE_HOME"])


def test_a_home_is_made_once_and_follows_the_package(package: Path, environment: dict[str, str]) -> None:
    first = spark_home_variables(environment, package)
    (package / "conf").mkdir()
    assert spark_home_variables(environment, package) == first
    assert (Path(first["SPARK_HOME"]) / "conf").is_dir()


def test_two_installed_packages_have_two_homes(package: Path, environment: dict[str, str]) -> None:
    other = package.with_name("other")
    package.rename(other)
    (package / "python").mkdir(parents=True)
    assert spark_home_variables(environment, package) != spark_home_variables(environment, other)


@pytest.mark.parametrize("given", [{"SPARK_HOME": "elsewhere"}, {"PYSPARK_PYTHON": "python-of-elsewhere"}])
def test_what_the_user_has_chosen_is_left_alone(
    package: Path, environment: dict[str, str], given: dict[str, str]
) -> None:
    assert spark_home_variables(environment | given, package) == {}


def test_the_python_that_runs_needs_no_zip(package: Path, environment: dict[str, str]) -> None:
    assert spark_home_variables(environment | {"PYSPARK_PYTHON": sys.executable}, package)


def test_without_a_zip_or_a_place_for_the_home_spark_is_as_it_is(
    package: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("no folder")
    assert spark_home_variables(environment, package) == {}
    assert spark_home_variables({"XDG_CACHE_HOME": str(tmp_path / "free")}, package / "bin") == {}
