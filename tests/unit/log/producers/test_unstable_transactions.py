"""First unstable offset and last stable offset."""

from __future__ import annotations

from odradek.log.producers.unstable_transactions import UnstableTransactions


def test_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    transactions = UnstableTransactions()
    transactions.begin(5)
    assert transactions.last_stable_offset(8, 0) == 5
    transactions.end(5, 10)
    assert [transactions.last_stable_offset(high, 0) for high in (8, 10, 11)] == [5, 5, 11]


def test_first_transaction_limits_the_last_stable_offset_of_all() -> None:
    transactions = UnstableTransactions()
    transactions.begin(5)
    transactions.begin(6)
    transactions.end(6, 10)
    transactions.end(5, 12)
    assert [transactions.last_stable_offset(high, 0) for high in (11, 12, 13)] == [5, 5, 13]


def test_last_stable_offset_is_at_least_the_log_start_offset() -> None:
    transactions = UnstableTransactions([3])
    assert transactions.last_stable_offset(9, 7) == 7


def test_last_stable_offset_advances_with_each_replicated_marker() -> None:
    transactions = UnstableTransactions()
    for first_offset in (1, 2, 3):
        transactions.begin(first_offset)
    for first_offset, marker_offset in ((1, 10), (2, 12), (3, 14)):
        transactions.end(first_offset, marker_offset)
    assert [transactions.last_stable_offset(high, 0) for high in (10, 11, 13, 15)] == [1, 2, 3, 15]
