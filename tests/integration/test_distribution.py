"""The source distribution and the wheel of a clean checkout install, with the compiled codec in use.

Installing is done by an ordinary ``pip install`` into an environment of its own, so it needs a package index.
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
ASK = "from odradek.records import codec; print(codec.COMPILED, codec.PURE_REASON, codec.__file__, sep='\\n')"
SECONDS_MAX = 600
"""Compiling the codec takes half a minute of one quiet core, and downloads take what they take."""

pytestmark = pytest.mark.timeout(SECONDS_MAX)


def execute(*words: str | Path, cwd: Path) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ODRADEK_")}
    done = subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Tracked files only, as they are now: what a clone of this state has."""
    target = tmp_path / "checkout"
    for name in execute("git", "ls-files", "-z", cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def build(kind: str, checkout: Path) -> Path:
    """The artefact that the build backend makes of a checkout, with this environment's tools."""
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
    compiled, why, file = execute(fresh / "bin" / "python", "-c", ASK, cwd=directory).splitlines()
    assert file.startswith(str(fresh))
    assert compiled == "True", why
    assert execute(fresh / "bin" / "odradek", "--version", cwd=directory).startswith("odradek ")


def test_the_source_distribution_of_a_clean_checkout_installs_with_the_compiled_codec(
    checkout: Path, tmp_path: Path
) -> None:
    artefact = build("sdist", checkout)
    with tarfile.open(artefact) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    tracked = {str(path.relative_to(checkout)) for path in (checkout / "src").rglob("*") if path.is_file()}
    tracked = {name for name in tracked if ".egg-info/" not in name and not name.endswith(".c")}
    assert tracked - packed == set()
    assert_installs(artefact, tmp_path)


def test_the_wheel_of_a_clean_checkout_installs_with_the_compiled_codec(
    checkout: Path, tmp_path: Path
) -> None:
    assert_installs(build("wheel", checkout), tmp_path)
