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
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import module_from_spec, source_hash, spec_from_file_location
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
"""Extension with the code of all compiled modules, named by mypyc."""

LOADER: Final = "compiled_loader"

HOT_MESSAGES: Final = "odradek.wire.hot_messages"
HOT_MESSAGES_GENERATOR: Final = "wire/hot_messages_generator.py"
"""Module that has no source of its own, and the program that generates it."""

SUFFIX: Final = EXTENSION_SUFFIXES[0]
SOURCES: Final = f"sources{SUFFIX.removesuffix('.so')}.txt"
"""File with the hash of every source. It is written last, so that it is missing after a failed build."""


class CompiledFinder:
    """Finds compiled modules by name, before any source is looked for, and loads them."""

    def __init__(self, modules: Collection[str]) -> None:
        self._modules = modules
        self._library: ModuleType | None = None
        self._initialize: Callable[[object], ModuleType] | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._modules:
            return None
        if name == HOT_MESSAGES:
            return spec_from_file_location(name, file_of(name))
        return ModuleSpec(name, self, origin=file_of(LIBRARY))  # type: ignore[arg-type]  # it has what is called

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, which is executed as it is created."""
        if self._initialize is None:
            self._library = load_extension(LIBRARY)
            self._initialize = load_extension(LOADER).initialize
        return self._initialize(getattr(self._library, "init_" + spec.name.replace(".", "___")))

    def exec_module(self, module: ModuleType) -> None: ...


def load_extension(name: str) -> ModuleType:
    spec = spec_from_file_location(name, file_of(name))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def file_of(extension: str, directory: str = DIRECTORY) -> str:
    return os.path.join(directory, extension.rpartition(".")[2] + SUFFIX)


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


def _pure_reason(variables: Mapping[str, str], modules: set[str]) -> str | None:
    """Return the reason to run the sources; else None, with the compiled modules in ``modules``."""
    if variables.get("ODRADEK_PURE") == "1":
        return "ODRADEK_PURE=1 is set"
    try:
        with open(os.path.join(DIRECTORY, SOURCES), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return "they have not been compiled"
    try:
        for line in lines:
            expected, use, source = line.split(" ", 2)
            if hash_of(source) != expected:
                return f"{source} has changed since they were compiled"
            if use == "compiled":
                modules.add(module_of(source))
            elif use == "generator" and source == HOT_MESSAGES_GENERATOR:
                modules.add(HOT_MESSAGES)
    except (OSError, ValueError) as error:
        return f"their sources cannot be compared ({error})"
    return None


def use_compiled_modules() -> None:
    """Let all later imports find the compiled modules. Called once, by the package itself."""
    if PURE_REASON is None:
        sys.meta_path.insert(0, CompiledFinder(_MODULES))


_MODULES: Final[set[str]] = set()
PURE_REASON: Final = _pure_reason(os.environ, _MODULES)
COMPILED: Final = PURE_REASON is None
FORM: Final = "compiled" if COMPILED else "pure Python"
