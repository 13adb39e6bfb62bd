"""Compatibility tests on a cluster (``--cluster``): those that are about one broker, and those that CI runs.

Names are those of a file, of a test, or of a case of a test.
"""

from __future__ import annotations

from typing import Final

SINGLE_BROKER: Final = {
    "test_idempotent_restarts.py": "A proxy stands between the client and the only broker.",
    "test_listeners.py": "Listeners are settings of one broker, which the test restarts with its own.",
    "test_log_dirs.py": "Log directories are settings of one broker.",
}
"""Tests that are skipped on a cluster, and the reason."""

QUICK: Final = (
    "test_admin.py::test_partitions_can_be_added_but_not_removed",
    "test_admin.py::test_topic_is_created_listed_described_and_deleted",
    "test_admin_errors.py",
    "test_consumer_positions.py::test_delete_records_moves_the_beginning_offset",
    "test_consumer_positions.py::test_offset_for_timestamp_is_the_first_record_not_older",
    "test_cross_client.py::test_headers_tombstones_and_empty_fields_round_trip_between_all_clients",
    "test_default_settings.py",
    "test_groups.py::test_group_resumes_at_its_committed_offset",
    "test_groups.py::test_kcat_consumes_as_a_group",
    "test_groups.py::test_members_of_different_clients_share_a_group",
    "test_kcat.py",
    "test_produce_consume.py::test_idempotent_producer_writes_each_record_once",
    "test_produce_consume.py::test_records_are_written_with_every_acks_value",
    "test_restarts.py::test_producer_and_consumer_resume_after_a_restart[aiokafka-kill -9]",
    "test_restarts.py::test_producer_and_consumer_resume_after_a_restart[confluent-kafka-kill -9]",
    "test_restarts.py::test_producer_and_consumer_resume_after_a_restart[kafka-python-SIGTERM]",
    "test_restarts.py::test_producer_and_consumer_resume_after_a_restart[odradek-SIGTERM]",
    "test_transactions.py::test_consume_transform_produce_is_exactly_once",
    "test_transactions.py::test_read_committed_sees_committed_records_and_read_uncommitted_sees_all",
)
"""Tests of ``--quick``: every client, on every path that differs between one broker and three."""


def skip_reason(node_id: str) -> str | None:
    """Return why a test is not for a cluster, if it is not."""
    reasons = (SINGLE_BROKER.get(name) for name in _names(node_id))
    return next(filter(None, reasons), None)


def is_quick(node_id: str) -> bool:
    return any(name in QUICK for name in _names(node_id))


def _names(node_id: str) -> tuple[str, str, str]:
    """Return the names of a case, its test and its file."""
    case = node_id.removeprefix("tests/compat/")
    test = case.partition("[")[0]
    return case, test, test.partition("::")[0]
