"""The sdist and the wheel of a clean checkout install with the compiled codec.

``pip install`` into a new environment needs a package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
PRINT_CODEC = (
    "from odradek.records import codec; print(codec.COMPILED, codec.PURE_REASON, codec.__file__, sep='\\n')"
)
SECONDS_MAX = 1200
"""Compiling takes two minutes on an idle machine, plus downloads; six beside other work."""

pytestmark = pytest.mark.timeout(SECONDS_MAX)


def execute(*command: str | Path, cwd: Path) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ODRADEK_")}
    result = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy the tracked files of the working tree, like a clone of it."""
    target = tmp_path / "checkout"
    for name in execute("git", "ls-files", "-z", cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def build(kind: str, checkout: Path) -> Path:
    """Build an artefact of a checkout with the tools of this environment."""
    execute(sys.executable, "-c", BUILD.format(kind=kind), checkout.parent / "dist", cwd=checkout)
    (artefact,) = (checkout.parent / "dist").iterdir()
    return artefact


def assert_installs(artefact: Path, directory: Path) -> None:
    fresh = directory / "fresh"
    execute(sys.executable, "-m", "venv", "--without-pip", fresh, cwd=directory)
    execute(
        sys.executable, "-m", "pip", "--python", fresh / "bin" / "python", "install", "--quiet", artefact,
        cwd=directory,
    )  # fmt: skip
    compiled, why, file = execute(fresh / "bin" / "python", "-c", PRINT_CODEC, cwd=directory).splitlines()
    assert file.startswith(str(fresh))
    assert compiled == "True", why
    assert execute(fresh / "bin" / "odradek", "--version", cwd=directory).endswith(" (compiled)\n")


def test_wheel_from_the_sdist_of_a_clean_checkout_is_compiled(checkout: Path, tmp_path: Path) -> None:
    tracked = {str(path.relative_to(checkout)) for path in (checkout / "src").rglob("*") if path.is_file()}
    artefact = build("sdist", checkout)
    with tarfile.open(artefact) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked - packed == set()
    wheels = tmp_path / "wheels"
    execute(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, artefact,
        cwd=tmp_path,
    )  # fmt: skip
    (wheel,) = wheels.iterdir()
    assert_installs(wheel, tmp_path)
