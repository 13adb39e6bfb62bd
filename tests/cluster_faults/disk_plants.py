"""Mistakes in our broker that faults of disks, clocks and coordinators must find."""

from __future__ import annotations

from typing import Final

from tests.mixed.run_plants import Trial
from tests.simulation.plants import SimulationPlant

DISK_TRIALS: Final = [
    Trial(
        SimulationPlant(
            "keep a follower that fetches but does not catch up in the ISR",
            "odradek/replication/leader.py",
            "now_ms - self.last_caught_up_ms <= lag_time_max_ms\n",
            "now_ms - self.last_fetch_ms <= lag_time_max_ms\n",
        ),
        "full_disks",
    ),
    Trial(
        SimulationPlant(
            "take a full disk for a failed one",
            "odradek/log/disk_health.py",
            "        if error.errno in SINGLE_LOG_ERRORS:\n",
            "        if error.errno in SINGLE_FILE_ERRORS:\n",
        ),
        "full_disks",
    ),
    Trial(
        SimulationPlant(
            "do not tell the controller of a failed directory",
            "odradek/broker/broker.py",
            "            self._log_dir_notifier.notify()\n",
            "            pass\n",
        ),
        "failing_disks",
    ),
    Trial(
        SimulationPlant(
            "start with the directory of another broker",
            "odradek/store/broker_registration.py",
            "    if configured not in (-1, stored_id):\n",
            "    if configured not in (-1, stored_id, configured):\n",
        ),
        "directories_of_another",
    ),
    Trial(
        SimulationPlant(
            "measure durations by the wall clock",
            "odradek/system/clock.py",
            "        return time.monotonic_ns() // 1_000_000\n",
            "        return time.time_ns() // 1_000_000 + 0\n",
        ),
        "stepped_clocks",
    ),
    Trial(
        SimulationPlant(
            "accept the commit of a zombie of an earlier generation",
            "odradek/coordinators/groups/offset_commit.py",
            "    if command.generation != group.generation:\n",
            "    if command.generation > group.generation:\n",
        ),
        "half_of_a_group",
    ),
    Trial(
        SimulationPlant(
            "delete segments after half of their retention time",
            "odradek/log/retention.py",
            "now_ms - segment.largest_timestamp > config.retention_ms:\n",
            "now_ms - segment.largest_timestamp > config.retention_ms // 2:\n",
        ),
        "compaction_and_retention",
    ),
]
