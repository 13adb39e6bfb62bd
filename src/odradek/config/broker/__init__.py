# ruff: noqa: F403
"""Broker settings of Kafka 3.9 by area, and Odradek's own.

Each setting is a constant of the same name (``log.segment.bytes`` is ``LOG_SEGMENT_BYTES``), and all are
exported from here. ``BROKER`` has all settings, ``BY_NAME`` maps their names.
"""

from odradek.config.broker.groups import *
from odradek.config.broker.groups import GROUPS_SETTINGS
from odradek.config.broker.kraft import *
from odradek.config.broker.kraft import KRAFT_SETTINGS
from odradek.config.broker.log import *
from odradek.config.broker.log import LOG_SETTINGS
from odradek.config.broker.network import *
from odradek.config.broker.network import NETWORK_SETTINGS
from odradek.config.broker.odradek import *
from odradek.config.broker.odradek import ODRADEK_SETTINGS
from odradek.config.broker.quotas import *
from odradek.config.broker.quotas import QUOTAS_SETTINGS
from odradek.config.broker.remote_storage import *
from odradek.config.broker.remote_storage import REMOTE_STORAGE_SETTINGS
from odradek.config.broker.replication import *
from odradek.config.broker.replication import REPLICATION_SETTINGS
from odradek.config.broker.security import *
from odradek.config.broker.security import SECURITY_SETTINGS
from odradek.config.broker.server import *
from odradek.config.broker.server import SERVER_SETTINGS
from odradek.config.broker.transactions import *
from odradek.config.broker.transactions import TRANSACTIONS_SETTINGS
from odradek.config.broker.zookeeper import *
from odradek.config.broker.zookeeper import ZOOKEEPER_SETTINGS
from odradek.config.definition import by_name

AREAS = {
    "General": SERVER_SETTINGS,
    "Network": NETWORK_SETTINGS,
    "Logs": LOG_SETTINGS,
    "Replication": REPLICATION_SETTINGS,
    "Groups and offsets": GROUPS_SETTINGS,
    "Transactions": TRANSACTIONS_SETTINGS,
    "Security": SECURITY_SETTINGS,
    "Quotas and metrics": QUOTAS_SETTINGS,
    "ZooKeeper": ZOOKEEPER_SETTINGS,
    "KRaft": KRAFT_SETTINGS,
    "Tiered storage": REMOTE_STORAGE_SETTINGS,
}
"""Kafka's settings by heading of the reference page."""

KAFKA = tuple(setting for area in AREAS.values() for setting in area)
BROKER = KAFKA + ODRADEK_SETTINGS
BY_NAME = by_name(BROKER)
