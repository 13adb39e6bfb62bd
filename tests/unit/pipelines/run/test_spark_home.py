"""SPARK_HOME without the zip of Spark's Python package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from odradek.pipelines.run.session import spark_home_variables


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return an installed Spark package, reduced to its relevant parts."""
    package = tmp_path / "pyspark"
    for name in ("bin/spark-submit", "jars/core.jar", "python/lib/pyspark.zip"):
        file = package / name
        file.parent.mkdir(parents=True)
        file.write_text(name)
    return package


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_spark_home_has_everything_except_the_zip(package: Path, environment: dict[str, str]) -> None:
    home = Path(spark_home_variables(environment, package)["SPARK_HOME"])
    assert (home / "bin" / "spark-submit").read_text() == "bin/spark-submit"
    assert (home / "jars" / "core.jar").exists()
    assert not (home / "python").exists()
    assert home.is_relative_to(environment["XDG_CACHE_HOME"])


def test_spark_home_is_created_once_and_updated(package: Path, environment: dict[str, str]) -> None:
    first = spark_home_variables(environment, package)
    (package / "conf").mkdir()
    assert spark_home_variables(environment, package) == first
    assert (Path(first["SPARK_HOME"]) / "conf").is_dir()


def test_each_package_has_its_own_spark_home(package: Path, environment: dict[str, str]) -> None:
    other = package.with_name("other")
    package.rename(other)
    (package / "python").mkdir(parents=True)
    assert spark_home_variables(environment, package) != spark_home_variables(environment, other)


@pytest.mark.parametrize(
    "user_variables", [{"SPARK_HOME": "elsewhere"}, {"PYSPARK_PYTHON": "python-of-elsewhere"}]
)
def test_user_variables_are_respected(
    package: Path, environment: dict[str, str], user_variables: dict[str, str]
) -> None:
    assert spark_home_variables(environment | user_variables, package) == {}


def test_current_python_needs_no_zip(package: Path, environment: dict[str, str]) -> None:
    assert spark_home_variables(environment | {"PYSPARK_PYTHON": sys.executable}, package)


def test_no_spark_home_without_zip_or_cache(
    package: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("not a directory")
    assert spark_home_variables(environment, package) == {}
    assert spark_home_variables({"XDG_CACHE_HOME": str(tmp_path / "free")}, package / "bin") == {}
