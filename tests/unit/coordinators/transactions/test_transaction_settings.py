"""Settings of the transaction coordinator."""

from __future__ import annotations

from odradek.config import broker
from odradek.config.definition import Settings
from odradek.coordinators.transactions.settings import TransactionSettings

DEFAULTS = Settings({setting: setting.default for setting in broker.BROKER})


def test_defaults_equal_those_of_the_broker() -> None:
    assert TransactionSettings.of(DEFAULTS) == TransactionSettings()


def test_each_field_is_taken_from_its_setting() -> None:
    settings = DEFAULTS.replace(
        {
            broker.TRANSACTION_MAX_TIMEOUT_MS: 1,
            broker.TRANSACTIONAL_ID_EXPIRATION_MS: 2,
            broker.TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS: 3,
            broker.TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS: 4,
        }
    )
    assert TransactionSettings.of(settings) == TransactionSettings(1, 2, 3, 4)
