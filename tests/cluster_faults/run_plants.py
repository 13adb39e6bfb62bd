"""Plant mistakes in our broker that clusters of processes must find: ``make cluster-plants ONLY=epoch``."""

from __future__ import annotations

import sys
from typing import Final

from tests.mixed.run_plants import Trial, run_all
from tests.simulation.plants import SimulationPlant

KILLED = "killed_by_role"
PAUSED = "paused"
CUT = "cut_links"
STORE = "sessions"
TRIALS: Final = [
    Trial("acknowledge before the high watermark", f"{KILLED} or {PAUSED} or {CUT}"),
    Trial("do not truncate what the leader does not have", f"{KILLED} or {PAUSED} or {CUT}"),
    Trial("acknowledge although another broker became leader meanwhile", f"{PAUSED} or {CUT}"),
    Trial(
        SimulationPlant(
            "elect a leader without a new leader epoch",
            "odradek/controller/machine/leader_election.py",
            "    epoch = before.leader_epoch + 1\n",
            "    epoch = before.leader_epoch\n",
        ),
        KILLED,
    ),
    Trial(
        SimulationPlant(
            "stay away after the session has expired",
            "odradek/broker/membership.py",
            '        self._dismiss("the session expired")\n        self._rejoin()\n',
            '        self._dismiss("the session expired")\n',
        ),
        f"{PAUSED} or {STORE}",
    ),
    Trial(
        SimulationPlant(
            "answer DeleteTopics only when a topic is gone for good",
            "odradek/controller/controller.py",
            "(*deleted, *(self._context.deletions.ineligible - waiting))",
            "deleted",
        ),
        "topics_changed",
    ),
]


if __name__ == "__main__":
    sys.exit(run_all(TRIALS, "tests/cluster_faults"))
