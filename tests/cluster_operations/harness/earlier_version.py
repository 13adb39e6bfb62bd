"""An earlier version of our broker, from the history of this repository."""

from __future__ import annotations

import compileall
import filecmp
import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OURS = ROOT / "src"
CODEC = Path("src/odradek/records/compiled")
CODEC_SOURCES = ("*.pyx", "*.pxd", "include/*.h")


def check_out(commit: str, directory: Path) -> Path:
    """Write a commit into a directory, with its compiled codec; return its source folder."""
    command = ["git", "archive", commit, "src", "setup.py", "pyproject.toml", "README.md"]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
    if is_same_codec(directory):
        for library in (ROOT / CODEC).glob("*.so"):
            shutil.copy(library, directory / CODEC)
    else:
        build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        subprocess.run(build, cwd=directory, capture_output=True, check=True)
    source = directory / "src"
    compileall.compile_dir(source, quiet=1)  # a start without it takes seconds of all cores
    return source


def is_same_codec(directory: Path) -> bool:
    """Return whether the codec was compiled from the same sources as ours."""
    names = {
        path.relative_to(root / CODEC)
        for root in (ROOT, directory)
        for pattern in CODEC_SOURCES
        for path in (root / CODEC).glob(pattern)
    }
    _, different, missing = filecmp.cmpfiles(
        ROOT / CODEC, directory / CODEC, list(map(str, names)), shallow=False
    )
    return not different and not missing


def describe(commit: str) -> str:
    """Return a commit's id, date and subject."""
    command = ["git", "log", "-1", "--format=%h of %cs: %s", commit]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
