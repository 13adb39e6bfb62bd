# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs that break a promise of ``docs/guarantees.md``, each with the tests that must notice it."""

from __future__ import annotations

from typing import NamedTuple

LOG = "src/odradek/log"
GROUPS = "src/odradek/coordinators/groups"
TRANSACTIONS = "src/odradek/coordinators/transactions"
REPLICATION = "src/odradek/replication"
BROKER = "src/odradek/broker"
PRODUCER = "src/odradek/client/producer"
CONSUMER = "src/odradek/client/consumer"
SPARK = "src/odradek/spark"


class Plant(NamedTuple):
    """``before`` occurs once in the module, and becomes ``after``."""

    promise: str
    path: str
    before: str
    after: str
    tests: tuple[str, ...]


PLANTS: list[Plant] = [
    Plant(
        "delivery.timeout.ms holds for batches in flight",
        f"{PRODUCER}/fates.py",
        "return [one for one, created_ms in self.in_flight.items() if created_ms <= bound_ms and not one.done]",
        "return []",
        ("unit/client/producer/test_sender.py::test_a_batch_whose_answer_is_due_fails_when_its_time_is_up",),
    ),
    Plant(
        "members of an older generation cannot commit",
        f"{GROUPS}/presence.py",
        "    if command.generation != group.generation:\n        return ErrorCode.ILLEGAL_GENERATION\n    if group",
        "    if group",
        (
            "unit/coordinators/groups/test_commit_verdict.py::test_zombies_are_fenced",
            "unit/coordinators/groups/test_membership_laws.py::test_books_timers_answers_and_the_log_agree_whatever_happens",
        ),
    ),
    Plant(
        "a refused commit changes nothing",
        f"{GROUPS}/committing.py",
        "        _refuse(command, code, to, turn)\n        return\n    has_committed",
        "        pass\n    has_committed",
        (
            "unit/coordinators/groups/test_membership_laws.py::test_books_timers_answers_and_the_log_agree_whatever_happens",
        ),
    ),
    Plant(
        "a late transaction does not override a newer commit",
        f"{GROUPS}/offsets.py",
        "if known is None or known.place < placed.place:",
        "if True:",
        (
            "unit/coordinators/groups/test_offsets.py::test_the_last_record_counts_but_for_open_and_aborted_transactions",
            "unit/coordinators/groups/test_offsets.py::test_a_load_after_compaction_gives_the_same",
            "unit/coordinators/groups/test_offsets.py::test_a_transaction_that_ends_late_does_not_bring_back_what_is_older",
        ),
    ),
]
