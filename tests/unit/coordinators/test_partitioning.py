from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinators.partitioning import java_hash, partition_of

# Text, String.hashCode, and Utils.abs of it modulo 50 and 7, as Java 17 and Kafka 3.9.1 print them.
BY_JAVA = [
    ("", 0, 0, 0),
    (" ", 32, 32, 4),
    ("\0\0", 0, 0, 0),
    ("a", 97, 47, 6),
    ("group", 98629247, 47, 3),
    ("console-consumer-12345", 158455506, 6, 6),
    ("my-group", -1906497762, 12, 1),
    ("connect-sink-7f3a", -811291724, 24, 5),
    ("test-consumer-group", -1793216381, 31, 5),
    ("zzzzzzzzzzzzzz", -1886561600, 0, 0),
    ("Grüße", 69215351, 1, 2),
    ("消费组", 28099635, 35, 4),
    ("\N{GRINNING FACE}", 1772899, 49, 2),
    ("a\N{GRINNING FACE}b", 57849694, 44, 0),
    ("\N{GRINNING FACE}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}", -55965727, 27, 6),
    ("polygenelubricants", -(2**31), 0, 0),
    ("GydZG_", -(2**31), 0, 0),
    ("DESIGNING WORKHOUSES", -(2**31), 0, 0),
]


@pytest.mark.parametrize(("text", "hashed", "of_50", "of_7"), BY_JAVA)
def test_hash_and_partition_equal_java(text: str, hashed: int, of_50: int, of_7: int) -> None:
    assert java_hash(text) == hashed
    assert (partition_of(text, 50), partition_of(text, 7)) == (of_50, of_7)


@given(st.text(max_size=20), st.characters())
def test_hash_is_the_polynomial_of_utf16_code_units(text: str, more: str) -> None:
    units = more.encode("utf-16-be", "surrogatepass")
    expected = java_hash(text)
    for unit in [units[:2], units[2:]][: len(units) // 2]:
        expected = 31 * expected + int.from_bytes(unit, "big")
    assert (java_hash(text + more) - expected) % 2**32 == 0
    assert -(2**31) <= java_hash(text + more) < 2**31


@given(st.text(), st.integers(1, 1000))
def test_partition_is_less_than_the_partition_count(text: str, count: int) -> None:
    assert 0 <= partition_of(text, count) < count
