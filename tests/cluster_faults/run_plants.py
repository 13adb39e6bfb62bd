"""Plant mistakes in our broker that clusters of processes must find: ``make cluster-plants ONLY=epoch``."""

from __future__ import annotations

import sys
from typing import Final

from tests.cluster_faults.disk_plants import DISK_TRIALS
from tests.mixed.run_plants import Trial, run_all
from tests.simulation.plants import Edit, SimulationPlant

KILLED = "killed_by_role"
PAUSED = "paused"
CUT = "cut_links"
STORE = "sessions"
UNCLEAN = "unclean_election"
PARTITION = "odradek/replication/partition.py"
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
    Trial(
        SimulationPlant(
            "append a batch again that an idempotent producer sends again",
            "odradek/log/producers/producer_states.py",
            "                return _find_duplicate(producer, header)\n",
            "                return None\n",
        ),
        "doubled_requests or late_requests",
    ),
    Trial(
        SimulationPlant(
            "follow an outdated LeaderAndIsr",
            "odradek/replication/control_requests.py",
            "    if state.leader_epoch > current_epoch:\n",
            "    if True:\n",
            also=(
                Edit(
                    PARTITION,
                    "            return False\n        is_new = self.leader_state",
                    "            pass\n        is_new = self.leader_state",
                ),
                Edit(
                    PARTITION,
                    "            return False\n        follower = self.follower_state\n",
                    "            pass\n        follower = self.follower_state\n",
                ),
            ),
        ),
        "late_requests",
    ),
    Trial(
        SimulationPlant(
            "answer a repeated EndTxn with an error",
            "odradek/coordinators/transactions/transitions.py",
            "    return ErrorCode.NONE if stored.state is complete else ErrorCode.INVALID_TXN_STATE\n",
            "    return ErrorCode.INVALID_TXN_STATE\n",
        ),
        "lost_responses",
    ),
    Trial("withdraw an ISR change that the controller may have made", "lost_responses"),
    Trial(
        SimulationPlant(
            "elect a replica that is out of sync without being allowed to",
            "odradek/controller/machine/leader_election.py",
            ", None) if is_unclean else None\n",
            ", None)\n",
        ),
        UNCLEAN,
    ),
    Trial(
        SimulationPlant(
            "report another truncation than the one that was made",
            "odradek/replication/fetchers/fetched_partition.py",
            "                offset=target.offset,\n",
            "                offset=target.offset + 1,\n",
        ),
        UNCLEAN,
    ),
    Trial("do not truncate what the leader does not have", UNCLEAN),
    Trial(
        SimulationPlant(
            "change only those configs of a topic that this broker was told of",
            "odradek/broker/handlers/alter_configs.py",
            "        current = await context.broker.admin_manager.read_topic_overrides([name])\n",
            "        current = {name: context.broker.admin_manager.topic_overrides(name)}\n",
        ),
        "elections_directories",
    ),
    Trial(
        SimulationPlant(
            "acknowledge without the flush that flush.messages requires",
            "odradek/log/local_log.py",
            "        return self.log_end_offset - self.recovery_point >= self._config.flush_messages\n",
            "        return False\n",
        ),
        "all_brokers_lose_power",
    ),
]


if __name__ == "__main__":
    sys.exit(run_all([*TRIALS, *DISK_TRIALS], "tests/cluster_faults"))
