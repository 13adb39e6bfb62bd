"""A SPARK_HOME whose Python processes start fast.

Spark puts a zip of its Python package, from SPARK_HOME, before installed packages. Python does not cache
bytecode of a zip, so each process that Spark starts compiles the package again: half a second, and a pipeline
starts five of them in sequence. This SPARK_HOME has everything of the package except the zip.
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

_ZIP_DIRECTORY: Final = "python"
"""The directory of the package with the zip, and nothing else of use."""


def spark_home_variables(environment: Mapping[str, str], package: Path | None = None) -> dict[str, str]:
    """Return the environment variables for local Spark processes; empty if the zip may be needed.

    Another Python may need it, without the package installed. A SPARK_HOME of the user is respected.
    """
    package = package or _installed_package()
    if environment.get("SPARK_HOME") or package is None or not (package / _ZIP_DIRECTORY).is_dir():
        return {}
    if environment.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return {}
    home = user_cache(environment) / "spark" / sha256(str(package).encode()).hexdigest()[:12]
    try:
        _fill(home, package)
    except OSError:
        return {}  # Only slower.
    return {"SPARK_HOME": str(home)}


def _installed_package() -> Path | None:
    module = find_spec("pyspark")
    return None if module is None or module.origin is None else Path(module.origin).parent


def _fill(home: Path, package: Path) -> None:
    """Link to all entries of the package; two runs may do it concurrently."""
    home.mkdir(parents=True, exist_ok=True)
    existing = set(os.listdir(home))
    for name in set(os.listdir(package)) - existing - {_ZIP_DIRECTORY}:
        with suppress(FileExistsError):
            (home / name).symlink_to(package / name)
