"""Odradek itself, started by the command that is installed beside this interpreter; or another one of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from bench.peers.broker import Broker, NotAvailable


class OdradekBroker(Broker):
    """One `odradek serve` with its embedded store."""

    name = "odradek"
    program: ClassVar[Path] = Path(sys.executable).parent / "odradek"

    @classmethod
    def prepare(cls) -> str:
        program = cls.program
        if not program.exists():
            raise NotAvailable(f"no odradek command beside {program.parent.name}: install the package")
        done = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, check=False, timeout=30
        )
        if done.returncode != 0:
            raise NotAvailable(f"odradek --version ended with {done.returncode}: {done.stderr[-300:]}")
        return done.stdout.split()[-1]

    def _command(self) -> list[str]:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.log_directory),
            **self.settings,
        }
        pairs = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        return [str(self.program), "serve", *pairs]


def other_odradek(program: Path) -> type[OdradekBroker]:
    """Another installation, as the peer: what a change costs is measured beside what was before it."""
    return type("OtherOdradek", (OdradekBroker,), {"name": "other", "program": program})
