"""Bugs that break a promise of ``docs/guarantees.md``, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plants_acls import ACL_PLANTS
from tests.mutation.plants_broker import BROKER_PLANTS
from tests.mutation.plants_client import CLIENT_PLANTS
from tests.mutation.plants_controller import CONTROLLER_PLANTS
from tests.mutation.plants_coordinators import COORDINATOR_PLANTS
from tests.mutation.plants_followers import FOLLOWER_PLANTS
from tests.mutation.plants_hardening import HARDENING_PLANTS
from tests.mutation.plants_log import LOG_PLANTS
from tests.mutation.plants_membership import MEMBERSHIP_PLANTS
from tests.mutation.plants_quotas import QUOTA_PLANTS
from tests.mutation.plants_replication import REPLICATION_PLANTS
from tests.mutation.plants_sasl import SASL_PLANTS
from tests.mutation.plants_tls import TLS_PLANTS
from tests.mutation.plants_tokens import TOKEN_PLANTS

PLANTS = [
    *ACL_PLANTS,
    *LOG_PLANTS,
    *BROKER_PLANTS,
    *MEMBERSHIP_PLANTS,
    *CONTROLLER_PLANTS,
    *REPLICATION_PLANTS,
    *FOLLOWER_PLANTS,
    *COORDINATOR_PLANTS,
    *CLIENT_PLANTS,
    *QUOTA_PLANTS,
    *SASL_PLANTS,
    *TLS_PLANTS,
    *TOKEN_PLANTS,
    *HARDENING_PLANTS,
]
