"""Odradek, from this interpreter's environment or from another installation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from bench.interpreter import installation_facts
from bench.peers.broker import Broker, NotAvailable


class OdradekBroker(Broker):
    """An `odradek serve` process with its embedded store."""

    name = "odradek"
    program: ClassVar[Path] = Path(sys.executable).parent / "odradek"

    @classmethod
    def prepare(cls) -> str:
        program = cls.program
        if not program.exists():
            raise NotAvailable(f"no odradek command in {program.parent.name}: install the package")
        done = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, check=False, timeout=30
        )
        if done.returncode != 0:
            raise NotAvailable(f"odradek --version exited with {done.returncode}: {done.stderr[-300:]}")
        return done.stdout.strip().removeprefix("odradek ")

    @classmethod
    def facts(cls) -> dict[str, str]:
        return installation_facts(cls.program)

    def _command(self) -> list[str]:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.log_directory),
            **self.settings,
        }
        pairs = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        return [str(self.program), "serve", *pairs]


def other_odradek(program: Path, name: str = "other") -> type[OdradekBroker]:
    """Return another installation, e.g. as the peer, to measure the cost of a change."""
    return type("OtherOdradek", (OdradekBroker,), {"name": name, "program": program.absolute()})
