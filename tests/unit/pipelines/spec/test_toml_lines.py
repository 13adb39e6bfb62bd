"""Line numbers of TOML keys."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from odradek.pipelines.spec.toml_lines import key_lines

SAMPLE = '''# a comment with [brackets] and = signs
[pipeline]
name = "a # no comment"   # a comment
"quoted key" = 'it''s = not'
[source]  # here
value = { format = "json", schema = """id bigint,
at timestamp""" }
topics = [
  "orders",   # first, with a ]
  "more",
]
deep.er.key = 1
after = true
[[step]]
do = 1

[[step]]
do = 2
[a."b.c".d]
last = 2026-01-31T12:00:00Z'''.replace("it''s", "its")


def test_lines_of_tables_keys_inline_keys_and_list_items() -> None:
    lines = key_lines(SAMPLE)
    assert lines["pipeline",] == 2
    assert lines["pipeline", "name"] == 3
    assert lines["pipeline", "quoted key"] == 4
    assert lines["source", "value"] == 6
    assert lines["source", "value", "schema"] == 6
    assert lines["source", "topics", 1] == 10
    assert lines["source", "deep", "er", "key"] == 12
    assert lines["source", "after"] == 13
    assert lines["step", 0, "do"] == 15
    assert lines["step", 1, "do"] == 18
    assert lines["a", "b.c", "d", "last"] == 20


KEYS = st.text(st.sampled_from('ab-_.# ="]'), min_size=1, max_size=5)
SCALARS = st.one_of(
    st.integers(0, 9).map(str),
    st.sampled_from(['"x # y"', "'] = ['", '"""one\ntwo"""', "'''[a]\nb = 1'''", "true", "1.5", '"a\\"b"']),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3).map(lambda items: "[\n" + ",\n".join(items) + " # c ]\n]"),
)


def quoted(key: str) -> str:
    return '"' + key.replace('"', '\\"') + '"'


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=4), max_size=4))
def test_every_key_has_its_line(
    tables: dict[str, dict[str, str]],
) -> None:
    text = ""
    expected: dict[tuple[str, ...], int] = {}
    for table, pairs in tables.items():
        expected[table,] = text.count("\n") + 1
        text += f"[{quoted(table)}]\n"
        for key, value in pairs.items():
            expected[table, key] = text.count("\n") + 1
            text += f"{quoted(key)} = {value} # comment\n"
    assert tomllib.loads(text).keys() == tables.keys()
    lines = key_lines(text)
    assert {path: line for path, line in lines.items() if path in expected} == expected
