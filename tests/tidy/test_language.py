"""The language of CONTRIBUTING.md, as far as a test can see it: docstrings, names, errors, commits."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tidy.sources import ROOT, name_of, python_files, tree_of

RELATIVE_CLAUSE = re.compile(
    r"(What|Where|How|Who|Whom|Whose|Which|Whether|Whoever|Whatever|When|Why)\b(?! not\b)"
)
BANNED_NAMES = {"found", "given", "one", "those", "told"}
PUBLIC_NAMES = {"src/odradek/pipelines/run/checks.py": {"found"}}
"""Keys of the JSON output."""
IDIOM = re.compile(
    r"(?<![a-z])"
    r"(errands?|fates?|clockwork|pouring|rehears(al|e|ed)|sifting|sticking|wish(es)?|chores?|upkeep)"
    r"(?![a-z])"
)
CAPITALIZED = re.compile(r"(?!Spark\b|Java\b|Kafka\b)[A-Z][a-z]*\b")
"""A first word with a capital letter, other than product names and the names of APIs."""
SYSTEM_TEXTS = {"Name or service not known"}
ARGUMENT_ERRORS = {"ValueError", "TypeError", "ConfigError"}
SUBJECT = re.compile(r"[a-z][\w./, -]*: \S.{0,70}")
SUBJECT_MAX = 72
FIRST_COMMIT = "af4f0b2"
"""The style holds from the commit after this one."""

SOURCES = [path for path in python_files("src", "tests", "bench", "examples") if path != Path(__file__)]


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every docstring, those of attributes included."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, statement in zip([node, *body], body, strict=False):
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
                and isinstance(
                    before,
                    ast.Module
                    | ast.ClassDef
                    | ast.FunctionDef
                    | ast.AsyncFunctionDef
                    | ast.Assign
                    | ast.AnnAssign,
                )
            ):
                yield statement.lineno, statement.value.value.strip()


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of everything that the module binds."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.Attribute(attr=name, ctx=ast.Store())
            ):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


def words_of(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("_", " ")


def message_of(node: ast.expr) -> str | None:
    """Return the text of a literal or an f-string, with ``{}`` for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def messages(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, exception and text of every message that is raised where it is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            kind = ast.unparse(node.exc.func)
            for argument in node.exc.args:
                text = message_of(argument)
                if text is not None:
                    yield node.lineno, kind, text


def test_docstrings_open_with_a_noun_or_verb_phrase() -> None:
    assert [
        f"{name_of(path)}:{line}: {text}"
        for path in SOURCES
        for line, text in docstrings(tree_of(path))
        if RELATIVE_CLAUSE.match(text)
    ] == []


def test_names_are_nouns_and_verbs_of_the_field() -> None:
    assert [
        f"{name_of(path)}:{line}: {name}"
        for path in SOURCES
        for line, name in names(tree_of(path))
        if (name.strip("_") in BANNED_NAMES or IDIOM.search(words_of(name)))
        and name not in PUBLIC_NAMES.get(name_of(path), ())
    ] == []


def test_argument_errors_state_the_value() -> None:
    assert [
        f"{name_of(path)}:{line}: {text}"
        for path in SOURCES
        if "src" in path.parts
        for line, kind, text in messages(tree_of(path))
        if kind in ARGUMENT_ERRORS and re.search(r"\S must be\b", text) and "got" not in text
    ] == []


def test_error_messages_begin_with_a_small_letter() -> None:
    assert [
        f"{name_of(path)}:{line}: {text}"
        for path in SOURCES
        if "src" in path.parts
        for line, _, text in messages(tree_of(path))
        if " " in text and CAPITALIZED.match(text) and text not in SYSTEM_TEXTS
    ] == []


def test_commit_subjects_are_short_and_name_their_area() -> None:
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%s", f"{FIRST_COMMIT}..HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if log.returncode:
        pytest.skip("no history here: a source distribution or a shallow clone")
    wrong = [
        subject
        for subject in log.stdout.splitlines()
        if len(subject) > SUBJECT_MAX or not SUBJECT.fullmatch(subject)
    ]
    assert wrong == []


def test_the_checks_find_what_they_look_for() -> None:
    tree = ast.parse(
        '"""What this is."""\ntold = 1\n"""Where it is."""\n'
        'def sift_wishes(one): raise ValueError("n must be > 0")\n'
    )
    assert [line for line, text in docstrings(tree) if RELATIVE_CLAUSE.match(text)] == [1, 3]
    assert {name for _, name in names(tree)} == {"told", "sift_wishes", "one"}
    assert IDIOM.search(words_of("sift_wishes"))
    assert IDIOM.search(words_of("BatchFates"))
    assert not IDIOM.search("wishbone")
    assert list(messages(tree)) == [(4, "ValueError", "n must be > 0")]
    assert CAPITALIZED.match("Not connected")
    assert CAPITALIZED.match("A topic is missing")
    assert not CAPITALIZED.match("ListOffsets version 7 required")
    assert not CAPITALIZED.match("Spark exited")
    assert not SUBJECT.fullmatch("Make it better")
