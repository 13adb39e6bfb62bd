"""Plant mistakes in our broker and see the mixed cluster find them: ``make mixed-plants ONLY=truncate``.

Each plant is made in a copy of ``src``. The tests named with it run until the first one fails. Mistakes that
only matter if a broker dies within moments are left to the simulation and the model.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.simulation.plants import PLANTS, Edit, SimulationPlant

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 1200


class Trial(NamedTuple):
    """A plant of the simulation, by the beginning of its description, or a new one, and tests to run."""

    plant: str | SimulationPlant
    tests: str


DIVERGENT = "divergent_tails"
EXPIRED = "session_expired and ours"
MIGRATION = "migration and 3.9"
TRIALS: Final = [
    Trial("acknowledge before the high watermark", DIVERGENT),
    Trial("do not truncate what the leader does not have", DIVERGENT),
    Trial("acknowledge although another broker became leader meanwhile", "queued_requests and ours"),
    Trial("accept requests of a former controller", "arrives_late and ours"),
    Trial(
        SimulationPlant(
            "do not tell the controller of a failed directory",
            "odradek/broker/broker.py",
            "            self._log_dir_notifier.notify()\n",
            "            pass\n",
        ),
        "failed_directory and vanishes",
    ),
    Trial(
        SimulationPlant(
            "stay away after the session has expired",
            "odradek/broker/membership.py",
            '        self._dismiss("the session expired")\n        self._rejoin()\n',
            '        self._dismiss("the session expired")\n',
        ),
        EXPIRED,
    ),
    Trial(
        SimulationPlant(
            "register again under the former broker epoch",
            "odradek/broker/membership.py",
            "        self.broker_epoch = await register_broker("
            "store, self._broker_id, registration, former_session_ids)\n",
            "        epoch = await register_broker("
            "store, self._broker_id, registration, former_session_ids)\n"
            "        self.broker_epoch = max(self.broker_epoch, 0) or epoch\n",
        ),
        EXPIRED,
    ),
    Trial(
        SimulationPlant(
            "take over the log of a former topic with the same name",
            "odradek/replication/control_requests.py",
            "        return RoleDecision(False, ErrorCode.INCONSISTENT_TOPIC_ID)\n",
            "        pass\n",
            also=(
                Edit(
                    "odradek/log/partition_metadata_file.py",
                    "        if self.topic_id is not None:\n            raise BrokerError(\n",
                    "        if False:\n            raise BrokerError(\n",
                ),
            ),
        ),
        "former_topic and ours",
    ),
    Trial(
        SimulationPlant(
            "write producer snapshots without producers",
            "odradek/log/producers/producer_state_manager.py",
            "                    file.append(encode_snapshot(producers))\n",
            "                    file.append(encode_snapshot([]))\n",
        ),
        MIGRATION,
    ),
    Trial(
        SimulationPlant(
            "take the producers of a snapshot for unknown",
            "odradek/log/producers/producer_state_manager.py",
            "offset, decode_snapshot(context.files.read_whole(path), path)\n",
            "offset, decode_snapshot(context.files.read_whole(path), path)[:0]\n",
        ),
        MIGRATION,
    ),
]


def find_plant(trial: Trial) -> SimulationPlant:
    if isinstance(trial.plant, SimulationPlant):
        return trial.plant
    return next(plant for plant in PLANTS if plant.mistake.startswith(trial.plant))


def run(trial: Trial, folder: str = "tests/mixed") -> str:
    """Return the tests of a folder that failed, or that none did."""
    plant = find_plant(trial)
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for edit in plant.edits:
            module = source / edit.path
            text = module.read_text()
            if text.count(edit.before) != 1:
                return f"stale: occurs {text.count(edit.before)} times in {edit.path}"
            module.write_text(text.replace(edit.before, edit.after))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--timeout", "600", folder]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])}
        done = subprocess.run(
            [*command, "-k", trial.tests, f"--basetemp={directory}/pytest"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"found: {failed[-1][:300]}" if failed else f"not found: {done.stdout.splitlines()[-1:]}"


def main() -> int:
    return run_all(TRIALS, "tests/mixed")


def run_all(all_trials: Sequence[Trial], folder: str) -> int:
    """Run the trials of the command line; return its exit status."""
    parser = argparse.ArgumentParser(description="Plant mistakes in our broker.")
    parser.add_argument("--only", default="", help="Part of the description.")
    options = parser.parse_args()
    trials = [trial for trial in all_trials if options.only in find_plant(trial).mistake]
    missed = 0
    for trial in trials:
        line = run(trial, folder)
        missed += not line.startswith("found")
        print(f"{find_plant(trial).mistake}: {line}", flush=True)
    print(f"{len(trials)} plants, {missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
