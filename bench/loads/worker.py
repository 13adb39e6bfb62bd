"""Runs a load generator as a process pinned to its core, and reads its result as JSON.

A generator module ends with `serve(run)`: `run` takes the specification and returns the result, printed as
the last line of output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from bench.paths import GENERATOR_CORE, ROOT

LOAD_SECONDS_MAX = 180

Spec = Mapping[str, Any]
Result = dict[str, Any]


class LoadFailed(RuntimeError):
    """Raised when a generator fails: the broker rejected, hung, or lost records."""


def run_load(module: str, spec: Spec, *, pinned: bool = True) -> Result:
    """Run `bench.loads.<module>` with a specification and return its result."""
    command = [sys.executable, "-m", f"bench.loads.{module}", json.dumps(spec)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=LOAD_SECONDS_MAX,
            preexec_fn=(lambda: os.sched_setaffinity(0, {GENERATOR_CORE})) if pinned else None,
        )
    except subprocess.TimeoutExpired as late:
        raise LoadFailed(f"{module} timed out after {LOAD_SECONDS_MAX} s") from late
    if done.returncode != 0:
        raise LoadFailed(f"{module}: {_last_line(done.stderr)}")
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["exited without output"])[-1]


def serve(run: Callable[[Spec], Result]) -> None:
    print(json.dumps(run(json.loads(sys.argv[1]))))
