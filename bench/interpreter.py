"""Facts about the interpreter of an `odradek` command: how it was built, and which source it runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

ASK_SECONDS_MAX = 60
QUESTION = """
import json, os, platform, sys, sysconfig
import odradek
try:
    from odradek.records.codec import COMPILED
    codec = "compiled" if COMPILED else "pure Python"
except ImportError:
    codec = "unknown"
print(json.dumps({
    "executable": os.path.realpath(sys.executable),
    "version": platform.python_version(),
    "compiler": platform.python_compiler(),
    "configure": sysconfig.get_config_var("CONFIG_ARGS") or "",
    "flags": sysconfig.get_config_var("PY_CFLAGS") or "",
    "abi": sysconfig.get_config_var("SOABI") or "",
    "codec": codec,
    "package": os.path.dirname(odradek.__file__),
}))
"""


def ask(python: str | Path) -> dict[str, str]:
    """Return how an interpreter was built and where its Odradek is; raise OSError or ValueError otherwise."""
    done = subprocess.run(
        [str(python), "-c", QUESTION], capture_output=True, text=True, check=False, timeout=ASK_SECONDS_MAX
    )
    if done.returncode != 0:
        raise ValueError((done.stderr.strip().splitlines() or ["no output"])[-1])
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def python_of(program: Path) -> Path:
    """Return the interpreter of an `odradek` command, from its first line, or beside it."""
    with program.open("rb") as script:
        first = script.readline().decode(errors="replace").strip()
    named = Path(first.removeprefix("#!").split(" ")[0])
    return named if first.startswith("#!") and "python" in named.name else program.parent / "python"


def build(answer: Mapping[str, str]) -> str:
    """Return version, compiler, PGO, LTO and level of optimization, on one line."""
    level = [flag for flag in answer["flags"].split() if flag.startswith("-O")][-1:]
    parts = [answer["version"], answer["compiler"], *_optimizations(answer), *level, answer["executable"]]
    return ", ".join(parts)


def _optimizations(answer: Mapping[str, str]) -> list[str]:
    configure, flags = answer["configure"], answer["flags"]
    pgo = "--enable-optimizations" in configure or "-fprofile-use" in flags
    lto = ("--with-lto" in configure and "--with-lto=no" not in configure) or "-flto" in flags
    if not pgo and not lto and _is_debians(answer["executable"]):
        return ["PGO and LTO by Debian's rules (not in CONFIG_ARGS)"]
    return ["PGO" if pgo else "no PGO", "LTO" if lto else "no LTO"]


def _is_debians(executable: str) -> bool:
    """Return whether this is Debian's package, whose rules set PGO and LTO and remove them from sysconfig."""
    return Path("/etc/debian_version").exists() and executable.startswith("/usr/bin/")


def source(package: str | Path) -> str:
    """Return the commit of a checkout, and whether it has changes; or that a package is not in one."""
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return "not a git checkout"
    return _git(package, "describe", "--always", "--dirty", "--abbrev=12") or "unknown"


def _git(directory: str | Path, *arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def installation_facts(program: Path) -> dict[str, str]:
    """Return the facts of an `odradek` command: its interpreter's build, and its source."""
    try:
        answer = ask(python_of(program))
    except (OSError, ValueError, subprocess.TimeoutExpired) as failure:
        return {"Python": f"unknown: {failure}", "record codec": "unknown", "source": "unknown"}
    return {
        "Python": build(answer),
        "record codec": answer["codec"],
        "source": source(answer["package"]),
    }
