"""The committed reference page says what the tables say."""

from pathlib import Path

from odradek.config.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_configuration_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m odradek.config.reference > docs/configuration.md"
    )
