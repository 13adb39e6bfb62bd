"""Choice between the compiled modules and their source, for all of them at once.

``setup.py`` compiles the modules of the request path with mypyc into ``_compiled``, where only the finder of
this module looks. The ``.py`` files stay the source, and all of them run if anything is missing: compiled
modules call each other directly, so one of another version would be called wrongly, or not at all. The codecs
of hot messages are there too; they are generated from the tables of the messages.

Invariant: no compiled module runs unless all of them are there and every source is the one they were compiled
from. ``ODRADEK_PURE=1`` requests the sources.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import source_hash, spec_from_file_location
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType
    from typing import TypeVar

    from mypy_extensions import mypyc_attr

    T = TypeVar("T")
else:

    def mypyc_attr(**attributes: bool) -> Callable[[T], T]:
        """Tell mypyc about a class, e.g. that classes which are not compiled may inherit from it."""
        return lambda cls: cls


__all__ = ["COMPILED", "FORM", "PURE_REASON", "mypyc_attr", "use_compiled_modules"]

PACKAGE: Final = os.path.dirname(__file__)
DIRECTORY: Final = os.path.join(PACKAGE, "_compiled")
LIBRARY: Final = "odradek__mypyc"
"""Module with the code of all compiled modules; the others only name it."""

HOT_MESSAGES: Final = "odradek.wire.hot_messages"
HOT_MESSAGES_GENERATOR: Final = "wire/hot_messages_generator.py"
"""Module that has no source of its own, and the program that generates it."""

SUFFIX: Final = EXTENSION_SUFFIXES[0]
SOURCES: Final = f"sources{SUFFIX.removesuffix('.so')}.txt"
"""File with the hash of every source. It is written last, so that it is missing after a failed build."""


class CompiledFinder:
    """Finds compiled modules by name, before any source is looked for."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._files.get(name)
        if file is None:
            return None
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file))


def hash_of(source: str) -> str:
    """Return the hash of a source, named by its path in the package."""
    with open(os.path.join(PACKAGE, source), "rb", buffering=0) as file:
        return source_hash(file.read()).hex()


def describe_sources(compiled: Iterable[str], inlined: Iterable[str], generators: Iterable[str]) -> str:
    """Return the content of ``SOURCES``: what is compiled, other sources whose constants are inlined or from
    which code is generated, and the generators whose modules have been built.
    """
    uses = {"compiled": compiled, "inlined": inlined, "generator": generators}
    return "".join(
        f"{hash_of(source)} {use} {source}\n" for use, sources in uses.items() for source in sources
    )


def module_of(source: str) -> str:
    """Return the name of the module in a source."""
    return "odradek." + source.removesuffix(".py").replace("/", ".")


def compiled_file(module: str, directory: str = DIRECTORY) -> str:
    return os.path.join(directory, *module.split(".")) + SUFFIX


def _pure_reason(variables: Mapping[str, str], files: dict[str, str]) -> str | None:
    """Return the reason to run the sources; else None, with the compiled modules in ``files``."""
    if variables.get("ODRADEK_PURE") == "1":
        return "ODRADEK_PURE=1 is set"
    try:
        with open(os.path.join(DIRECTORY, SOURCES), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return "they have not been compiled"
    located = {LIBRARY: compiled_file(LIBRARY)}
    try:
        for line in lines:
            expected, use, source = line.split(" ", 2)
            if hash_of(source) != expected:
                return f"{source} has changed since they were compiled"
            if use == "compiled":
                module = module_of(source)
                located[module] = compiled_file(module)
            elif use == "generator" and source == HOT_MESSAGES_GENERATOR:
                located[HOT_MESSAGES] = compiled_file(HOT_MESSAGES)
    except (OSError, ValueError) as error:
        return f"their sources cannot be compared ({error})"
    files.update(located)
    return None


def use_compiled_modules() -> None:
    """Let all later imports find the compiled modules. Called once, by the package itself."""
    if PURE_REASON is None:
        sys.meta_path.insert(0, CompiledFinder(_FILES))


_FILES: Final[dict[str, str]] = {}
PURE_REASON: Final = _pure_reason(os.environ, _FILES)
COMPILED: Final = PURE_REASON is None
FORM: Final = "compiled" if COMPILED else "pure Python"
