"""Table cells of the reference pages."""

from __future__ import annotations

from typing import Any

from odradek.config.definition import Setting


def type_cell(setting: Setting[Any]) -> str:
    return setting.type.name.lower()


def default_cell(setting: Setting[Any]) -> str:
    return value_cell(setting, setting.default)


def value_cell(setting: Setting[Any], value: Any) -> str:
    text = setting.format_value(value)
    if text is None:
        return "none"
    return f"`{text}`" if text else "empty"


def description_cell(setting: Setting[Any]) -> str:
    mark = "*Inert.* " if setting.inert else "*Not available.* " if setting.unavailable else ""
    return mark + escaped(setting.doc)


def escaped(text: str) -> str:
    return text.replace("|", "\\|")
