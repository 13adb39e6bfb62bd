"""The committed reference pages say what the tables say."""

from pathlib import Path

from odradek.config.reference import client_options_page as client_reference
from odradek.config.reference import configuration_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_configuration_page_is_fresh() -> None:
    assert (DOCS / "configuration.md").read_text(encoding="utf-8") == configuration_page.page(), (
        "run: make docs"
    )


def test_the_page_of_client_options_is_fresh() -> None:
    assert (DOCS / "client-options.md").read_text(encoding="utf-8") == client_reference.page(), (
        "run: make docs"
    )
