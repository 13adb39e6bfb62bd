"""Jars of a Maven project, copied once into a folder of the cache.

Several processes may ask at the same time: one fetches, the others wait for it. The folder appears under its
name only when it is complete.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.server_process import NotAvailable
from bench.places import cache

MAVEN_SECONDS_MAX = 600


def fetched_jars(home: Path, pom: str, count_min: int) -> Path:
    """Return the folder with the project's runtime jars; raise NotAvailable if they cannot be fetched.

    A folder with fewer than ``count_min`` jars is what an interrupted fetch left behind.
    """
    jars = home / "jars"
    if not _is_complete(jars, count_min):
        home.mkdir(parents=True, exist_ok=True)
        with maven_lock():
            if not _is_complete(jars, count_min):  # another process may have fetched them meanwhile
                _fetch(home, pom, jars)
    return jars


def _is_complete(jars: Path, count_min: int) -> bool:
    return len(list(jars.glob("*.jar"))) >= count_min


@contextmanager
def maven_lock() -> Iterator[None]:
    """Hold the cache's one lock: two runs of Maven would share its local repository as well."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "maven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(home: Path, pom: str, jars: Path) -> None:
    if shutil.which("mvn") is None:
        raise NotAvailable(f"no jars in {home} and no mvn on PATH to fetch them")
    (home / "pom.xml").write_text(pom)
    part = home / "jars.part"
    for left_behind in (part, jars):
        shutil.rmtree(left_behind, ignore_errors=True)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={part.name}"]
    try:
        done = subprocess.run(
            [*command, "-DincludeScope=runtime"],
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
            timeout=MAVEN_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as late:
        raise NotAvailable(f"Maven fetched nothing in {MAVEN_SECONDS_MAX} s") from late
    if done.returncode != 0:
        raise NotAvailable(f"Maven could not fetch the jars: {done.stdout[-400:].strip()}")
    part.rename(jars)
