"""Jars of a Maven project, copied once into a directory of the cache.

Of several processes one fetches and the others wait. The directory gets its name only when it is complete.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.paths import cache
from bench.peers.server_process import NotAvailable

MAVEN_SECONDS_MAX = 600


def fetched_jars(home: Path, pom: str, count_min: int) -> Path:
    """Return the directory with the project's runtime jars; raise NotAvailable if they cannot be fetched.

    A directory with fewer than ``count_min`` jars comes from an interrupted fetch.
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
    """Hold the lock of the cache: concurrent Maven runs would share its local repository."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "maven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(home: Path, pom: str, jars: Path) -> None:
    if shutil.which("mvn") is None:
        raise NotAvailable(f"no jars in {home} and no mvn on PATH to fetch them")
    (home / "pom.xml").write_text(pom)
    part = home / "jars.part"
    for stale in (part, jars):
        shutil.rmtree(stale, ignore_errors=True)
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
    except subprocess.TimeoutExpired as error:
        raise NotAvailable(f"Maven timed out after {MAVEN_SECONDS_MAX} s") from error
    if done.returncode != 0:
        raise NotAvailable(f"Maven could not fetch the jars: {done.stdout[-400:].strip()}")
    part.rename(jars)
