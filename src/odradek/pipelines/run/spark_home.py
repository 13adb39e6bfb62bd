"""A home of Spark whose Python processes start fast.

Spark puts a zip of its Python package, taken from its home, before what is installed. No bytecode is kept of
what is in a zip, so each process that Spark starts compiles the package anew: half a second, and a pipeline
has five of them, one after the other. In this home everything is as in the package, save the zip.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from odradek.pipelines.run.user_cache import user_cache

_ZIPPED: Final = "python"
"""The folder of the package that holds the zip, and nothing else of use."""


def spark_home_variables(environment: Mapping[str, str], package: Path | None = None) -> dict[str, str]:
    """What to set for Spark's processes on this machine. Empty where the zip may be needed, or is not there.

    Another Python than this one may need it, having no such package. Who has set a home knows why.
    """
    package = package or _installed()
    if environment.get("SPARK_HOME") or package is None or not (package / _ZIPPED).is_dir():
        return {}
    if environment.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return {}
    home = user_cache(environment) / "spark" / sha256(str(package).encode()).hexdigest()[:12]
    try:
        _fill(home, package)
    except OSError:
        return {}  # It would have been faster.
    return {"SPARK_HOME": str(home)}


def _installed() -> Path | None:
    found = find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent


def _fill(home: Path, package: Path) -> None:
    """Links to all that the package has now; two runs may do it at the same time."""
    home.mkdir(parents=True, exist_ok=True)
    there = set(os.listdir(home))
    for name in set(os.listdir(package)) - there - {_ZIPPED}:
        with suppress(FileExistsError):
            (home / name).symlink_to(package / name)
