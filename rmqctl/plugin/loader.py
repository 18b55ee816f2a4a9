"""Finds plugins and asks them what they add. Every mistake of a plugin becomes one sentence that names it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from rmqctl.errors import PluginError, UsageError
from rmqctl.rules.names import closest

from . import builtin_codecs, hookspecs
from .hookspecs import PROJECT, BodyCodec

VARIABLE = "RMQCTL_PLUGINS"
_BUILTIN = "rmqctl's own"
# A plugin's code may raise anything; Ctrl-C still ends the program.
_ANY = (Exception, SystemExit)


def load_plugins(files: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> pluggy.PluginManager:
    """Load the codecs of rmqctl, installed plugins, and those of files and of RMQCTL_PLUGINS (os.pathsep between them).

    Raises PluginError for a plugin that can't be loaded, UsageError for a file that there is not.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(builtin_codecs, name=_BUILTIN)
    try:
        manager.load_setuptools_entrypoints(PROJECT)
    except _ANY as error:
        raise PluginError(f"An installed plugin can't be loaded: {_said(error)}.") from error
    listed = (os.environ if environ is None else environ).get(VARIABLE, "").split(os.pathsep)
    for file in (*files, *(part for part in listed if part)):
        path = Path(file)
        if not path.is_file():
            raise UsageError(f"There is no plugin file {file!r}.", hint=f"Named by --plugin or {VARIABLE}.")
        name = str(path.resolve())
        if manager.has_plugin(name):
            continue
        try:
            manager.register(_module(path), name=name)
            manager.check_pending()
        except _ANY as error:
            raise PluginError(f"Plugin {file} can't be loaded: {_said(error)}.") from error
    return manager


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rmqctl_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def body_codecs(manager: pluggy.PluginManager) -> dict[str, BodyCodec]:
    """Return all codecs by name. Raises PluginError when a plugin fails, or when two bring the same name."""
    codecs: dict[str, BodyCodec] = {}
    owners: dict[str, str] = {}
    implementations = manager.hook.rmqctl_body_codecs.get_hookimpls()
    for implementation in sorted(implementations, key=lambda each: each.plugin_name != _BUILTIN):
        plugin = implementation.plugin_name
        try:
            brought = dict[str, BodyCodec](implementation.function())  # type: ignore[call-overload]
        except _ANY as error:
            raise PluginError(f"Plugin {plugin} failed: {_said(error)}.") from error
        for name, codec in brought.items():
            if owners.get(name, _BUILTIN) != _BUILTIN:
                raise PluginError(f"Both {owners[name]} and {plugin} bring a codec {name!r}.")
            if not isinstance(name, str) or not callable(codec):
                raise PluginError(f"Plugin {plugin} failed: its codec {name!r} can't be called.")
            codecs[name], owners[name] = codec, plugin
    return codecs


def body_codec(name: str, files: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> BodyCodec:
    """Return one codec. Raises UsageError for a name that there is not."""
    codecs = body_codecs(load_plugins(files, environ))
    if name not in codecs:
        like = closest(name, codecs)
        hint = f"Did you mean {like[0]}?" if like else f"Known are {', '.join(sorted(codecs))}; --plugin adds more."
        raise UsageError(f"There is no codec {name!r}.", hint=hint)
    return codecs[name]


def run_codec(name: str, codec: BodyCodec, body: bytes, properties: Mapping[str, str], topic: str) -> Any:
    """Return what a codec makes of a body. Raises PluginError when it fails or returns what JSON can't hold."""
    import json

    try:
        value = codec(body, properties, topic)
        json.dumps(value, allow_nan=False)
    except _ANY as error:
        raise PluginError(f"Codec {name} failed: {_said(error)}.") from error
    return value


def _said(error: BaseException) -> str:
    words = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
