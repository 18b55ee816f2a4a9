"""The sources of plugins: rmqctl itself, installed distributions, files."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from zlib import crc32

from msgspec import Struct

from rmqctl.errors import UsageError

from . import builtin_codecs
from .hookspecs import PROJECT

VARIABLE = "RMQCTL_PLUGINS"
BUILT_IN = "rmqctl's own"
# In a wheel, and in a checkout.
_SHIPPED = (Path(__file__).parent / "shipped", Path(__file__).parent.parent.parent / "plugins")


class Origin(StrEnum):
    """Where a plugin was found."""

    BUILT_IN = "BUILT_IN"
    INSTALLED = "INSTALLED"
    FILE = "FILE"


class PluginSource(Struct, frozen=True):
    """One plugin, not loaded yet. `label` names it in sentences, and is unique.

    `distribution` and `version` are set for an installed plugin, `path` for a file. `load` may raise anything.
    """

    name: str
    label: str
    origin: Origin
    load: Callable[[], object]
    distribution: str | None = None
    version: str | None = None
    path: str | None = None


def find_sources(files: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> list[PluginSource]:
    """Return the built-in plugins, installed ones, and those of files and of RMQCTL_PLUGINS (split at os.pathsep).

    A file that is named twice counts once.
    """
    listed = (os.environ if environ is None else environ).get(VARIABLE, "").split(os.pathsep)
    from_files = {source.path: source for source in map(_of_file, (*files, *filter(None, listed)))}
    installed = sorted(entry_points(group=PROJECT), key=lambda point: point.name)
    own = PluginSource("rmqctl", BUILT_IN, Origin.BUILT_IN, lambda: builtin_codecs)
    return [own, *map(_of_entry_point, installed), *from_files.values()]


def _of_entry_point(point: EntryPoint) -> PluginSource:
    name, version = (point.dist.name, point.dist.version) if point.dist is not None else (None, None)
    label = f"{point.name} of {name} {version}" if name is not None else point.name
    return PluginSource(point.name, label, Origin.INSTALLED, point.load, distribution=name, version=version)


def shipped_plugins() -> dict[str, Path]:
    """Return the plugin files shipped with rmqctl, by the name that --plugin accepts for each."""
    return {path.stem: path for folder in _SHIPPED for path in sorted(folder.glob("*.py"))}


def _of_file(given: str) -> PluginSource:
    shipped = shipped_plugins().get(given.removesuffix(".py")) if Path(given).name == given else None
    chosen = shipped if shipped is not None and not Path(given).exists() else given
    path = Path(os.path.realpath(chosen))  # Path.resolve raises for a cycle of links
    return PluginSource(path.stem, str(path), Origin.FILE, partial(_load_file, given, path), path=str(path))


def _load_file(given: str, path: Path) -> ModuleType:
    if not path.is_file():
        known = " or ".join(shipped_plugins())
        raise UsageError(
            f"Plugin file {given!r} does not exist.", hint=f"Give --plugin or {VARIABLE} a file, or {known}."
        )
    # Two files can have the same name.
    name = f"rmqctl_plugin_{path.stem}_{crc32(os.fsencode(path)):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module there to resolve annotations.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
