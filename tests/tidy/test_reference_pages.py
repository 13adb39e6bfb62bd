"""The committed pages of APIs and error codes say what the tables say."""

from pathlib import Path

import pytest

from odradek.broker.reference import api_table, error_page, main, with_requirements, with_table

DOCS = Path(__file__).parents[2] / "docs"
FIX = "run: python -m odradek.broker.reference docs"


def test_the_table_of_apis_is_fresh() -> None:
    page = (DOCS / "protocol.md").read_text(encoding="utf-8")
    assert with_table(page) == page, FIX


def test_the_table_of_requirements_is_fresh() -> None:
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    assert with_requirements(page) == page, FIX


def test_the_page_of_error_codes_is_fresh() -> None:
    assert (DOCS / "errors.md").read_text(encoding="utf-8") == error_page(), FIX


def test_writing_the_pages_brings_a_stale_one_up_to_date(tmp_path: Path) -> None:
    page = (DOCS / "protocol.md").read_text(encoding="utf-8")
    (tmp_path / "protocol.md").write_text(page.replace("| Produce |", "| Bygone |"), encoding="utf-8")
    security = (DOCS / "security.md").read_text(encoding="utf-8")
    stale = security.replace("| Produce | Write |", "| Produce | Read |")
    (tmp_path / "security.md").write_text(stale, encoding="utf-8")
    main([str(tmp_path)])
    assert stale != security == (tmp_path / "security.md").read_text(encoding="utf-8")
    assert (tmp_path / "protocol.md").read_text(encoding="utf-8") == page
    assert (tmp_path / "errors.md").read_text(encoding="utf-8") == error_page()


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="must contain the two markers"):
        with_table("# Protocol\n")
    with pytest.raises(ValueError, match="must contain the two markers"):
        with_requirements("# Security\n")


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert capsys.readouterr().out == api_table()
