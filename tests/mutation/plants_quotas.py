# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs in quotas and SCRAM credentials that break a promise, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

QUOTAS = "src/odradek/broker/quotas"
BROKER = "src/odradek/broker"
QUOTA_TESTS = "unit/broker/quotas"
HANDLER_TESTS = "unit/broker/handlers"

QUOTA_PLANTS: list[Plant] = [
    Plant(
        "a quota of a user is before the default of users and client ids",
        f"{QUOTAS}/quota_entities.py",
        '        bound = bounds.get((user, None))\n        if bound is not None:\n            return _applied(user, "", bound)\n        if client_id and self._pair_count:',
        "        if client_id and self._pair_count:",
        (
            f"{QUOTA_TESTS}/test_client_quota_manager.py::test_first_quota_in_the_documented_order_applies",
            f"{QUOTA_TESTS}/test_client_quota_manager.py::test_most_specific_quota_applies_and_is_shared_at_its_level",
        ),
    ),
    Plant(
        "a rate is averaged over the whole window after a pause",
        f"{QUOTAS}/sampled_rate.py",
        "        if missing > 0:\n            elapsed_ms += missing * self._sample_ms\n",
        "",
        (
            f"{QUOTA_TESTS}/test_sampled_rate.py::test_rate_is_the_one_of_kafka",
            f"{QUOTA_TESTS}/test_client_quota_manager.py::test_throttle_time_brings_the_rate_of_the_window_down",
        ),
    ),
    Plant(
        "a throttled fetch does not count",
        f"{BROKER}/requests/request_meter.py",
        "            quotas.fetch.record_no_throttle(user, client_id, -response_bytes, now_ms)\n",
        "            pass\n",
        ("unit/broker/requests/test_request_meter.py::test_throttled_fetch_is_not_recorded",),
    ),
    Plant(
        "a throttled fetch returns no records",
        f"{BROKER}/handlers/fetch.py",
        "        if self._meter is not None and self._replica_id < 0 and self._is_throttled(self._meter):\n            return _response(self._fetch_context.throttled_response(), self._isolation)\n",
        "        if self._meter is not None and self._replica_id < 0:\n            self._is_throttled(self._meter)\n",
        (
            f"{HANDLER_TESTS}/test_client_quotas.py::test_throttled_fetch_returns_no_records_and_the_next_one_does",
        ),
    ),
    Plant(
        "a throttled session starts no requests that have arrived",
        f"{BROKER}/network/session.py",
        "        self.hold()\n        # It cannot",
        "        self._hold_count += 1\n        # It cannot",
        (
            "unit/broker/network/test_session_muter.py::test_muted_session_reads_and_starts_nothing_until_the_time_is_over",
            "unit/broker/network/test_session_muter.py::test_request_that_mutes_its_session_is_the_last_of_the_backlog",
        ),
    ),
    Plant(
        "followers are exempt from quotas of clients",
        f"{BROKER}/handlers/fetch.py",
        "                self._meter.exempt()\n",
        "                pass\n",
        (f"{HANDLER_TESTS}/test_client_quotas.py::test_follower_fetches_are_exempt",),
    ),
    Plant(
        "a strict quota rejects changes while the bucket is overdrawn",
        f"{QUOTAS}/controller_mutation_quota.py",
        "            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)\n",
        "            return\n",
        (
            f"{QUOTA_TESTS}/test_controller_mutation_quota.py::test_strict_quota_rejects_changes_while_the_bucket_is_overdrawn",
            f"{HANDLER_TESTS}/test_client_quotas.py::test_strict_quota_rejects_the_topics_beyond_it",
        ),
    ),
    Plant(
        "a connection over the rate of its address counts for no rate",
        f"{QUOTAS}/connection_rates.py",
        "                    self._record_accept(listener.lower(), -1, now_ms, is_protected)\n",
        "",
        (
            f"{QUOTA_TESTS}/test_connection_rates.py::test_connection_above_the_rate_of_its_address_counts_nowhere",
        ),
    ),
    Plant(
        "quotas removed while a broker had no session are removed there too",
        f"{QUOTAS}/quota_managers.py",
        "        for entity in self._entities - quotas.keys():\n            self.update(entity, {})\n",
        "",
        (
            f"{HANDLER_TESTS}/test_client_quotas.py::test_all_brokers_enforce_a_quota_and_learn_missed_changes_with_a_new_session",
        ),
    ),
    Plant(
        "a change of quotas cannot remove a password",
        f"{QUOTAS}/quota_configs.py",
        "            if kind is not None:\n                altered.pop(op.key, None)\n",
        "            altered.pop(op.key, None)\n",
        (
            f"{QUOTA_TESTS}/test_quota_configs.py::test_operations_change_quotas_and_nothing_else",
            f"{HANDLER_TESTS}/test_client_quotas.py::test_nodes_without_quotas_are_removed_and_credentials_stay",
        ),
    ),
    Plant(
        "passwords need as many iterations as RFC 7677 asks for",
        f"{BROKER}/handlers/alter_user_scram_credentials.py",
        "            _check_iterations(upsertion.iterations)\n",
        "",
        (f"{HANDLER_TESTS}/test_user_scram_credentials.py::test_invalid_changes_of_a_user_change_nothing",),
    ),
    Plant(
        "only the controller changes passwords",
        f"{BROKER}/handlers/alter_user_scram_credentials.py",
        "    context.broker.membership.require_controller()\n",
        "",
        (
            f"{HANDLER_TESTS}/test_user_scram_credentials.py::test_only_the_controller_alters_and_all_brokers_know",
        ),
    ),
]
