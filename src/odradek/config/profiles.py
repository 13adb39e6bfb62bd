"""Named sets of differences from Kafka's defaults.

``SERVE`` is what a broker started without a configuration file begins with: one machine, one broker, nobody
else let in. Variables and arguments are laid over it; a configuration file replaces it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from odradek.config import broker
from odradek.config.definition import Setting


class Difference(NamedTuple):
    """One setting that a profile sets, and why it does."""

    setting: Setting[Any]
    value: str
    reason: str


SERVE: Final = (
    Difference(broker.BROKER_ID, "0", "There is one broker, so nobody needs to hand out ids."),
    Difference(
        broker.LISTENERS,
        "PLAINTEXT://127.0.0.1:9092",
        "Without authentication only this machine may connect; and localhost may mean ::1 to a client.",
    ),
    Difference(
        broker.LOG_DIRS, "./odradek-data", "Data belongs where it can be seen, not where restarts empty it."
    ),
    Difference(
        broker.OFFSETS_TOPIC_REPLICATION_FACTOR, "1", "One broker cannot hold three replicas of anything."
    ),
    Difference(broker.TRANSACTION_STATE_LOG_REPLICATION_FACTOR, "1", "The same."),
    Difference(broker.TRANSACTION_STATE_LOG_MIN_ISR, "1", "Two in sync cannot be had with one replica."),
    Difference(
        broker.GROUP_INITIAL_REBALANCE_DELAY_MS,
        "0",
        "Waiting for more members helps large groups; alone at a desk it is three lost seconds.",
    ),
)


def values(profile: tuple[Difference, ...]) -> dict[str, str]:
    return {difference.setting.name: difference.value for difference in profile}
