"""The targets that pages name are there, and `make help` lists them."""

from __future__ import annotations

import re

import pytest

from .sources import ROOT, pages

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", MAKEFILE, re.MULTILINE))
NAMED = {
    (page.relative_to(ROOT).as_posix(), target)
    for page in pages()
    for target in re.findall(r"(?:^|`)make ([a-z][a-z0-9-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
}


def test_every_target_that_a_page_names_is_there() -> None:
    assert {(page, target) for page, target in NAMED if target not in TARGETS} == set()


def test_pages_name_targets() -> None:
    assert {target for _, target in NAMED} >= {"setup", "test", "unit", "format"}


@pytest.mark.parametrize("target", sorted(TARGETS - {"clean"}))
def test_a_target_has_a_line_of_help(target: str) -> None:
    assert re.search(rf"^{target}:.*## \S", MAKEFILE, re.MULTILINE)
