"""Makes what completion knows without loading any command: `python -m rmqctl.cli.completion_table` writes the files."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from rmqctl.model.tls import TLS_VERIFICATIONS

from .completion_scripts import FILE_NAMES, SCRIPTS
from .globals import FORMATS, global_params
from .lazy import load_command
from .registry import COMMANDS

# Kinds of values by the word that stands for them in help.
_KINDS = {
    **{word: word for word in ("GROUP", "TOPIC", "BROKER", "FILE", "FORMAT", "SHELL", "SCENARIO", "RELEASE", "FAULT")},
    "DIR": "FILE",
}
_OF_OPTIONS = {"--context": "CONTEXT", "--tls-verify": "VERIFY", "--columns": "COLUMN,", "--sort": "COLUMN,"}


def make_table() -> str:
    """Return completion_words.json.

    `globals`: option to the kind of its value, null for a flag; `commands`: words to options, kinds of arguments (the
    last with ... when there may be more) and columns; `values`: those of a kind that has the same everywhere.
    """
    globals_ = _options(global_params())
    names = set(globals_)
    commands: dict[str, Any] = {}
    for words, (module_name, summary) in COMMANDS.items():
        module = import_module(module_name)
        params = load_command(words.split()[-1], module_name, summary).params
        options = {name: kind for name, kind in _options(params).items() if name not in names}
        arguments = [_argument(words, param) for param in params if param.param_type_name == "argument"]
        columns: Any = getattr(module, "_COLUMNS", None) or getattr(module, "COLUMNS", ())
        keys = list(dict.fromkeys(column.key for column in columns))
        commands[words] = {"options": options, "arguments": arguments, "columns": keys}
    values = {
        "FORMAT": FORMATS,
        "VERIFY": TLS_VERIFICATIONS,
        "SHELL": tuple(SCRIPTS),
        "KIND": _schema_kinds(),
        "SETTING": _settings(),
        **_sandbox_values(),
    }
    table = {"globals": {**globals_, "--version": None, "--help": None}, "commands": commands, "values": values}
    return json.dumps(table, indent=1) + "\n"


def _options(params: Any) -> dict[str, str | None]:
    return {
        name: None if param.is_flag else _OF_OPTIONS.get(name, _KINDS.get(param.metavar or "", ""))
        for param in params
        if param.param_type_name == "option"
        for name in (*param.opts, *param.secondary_opts)
    }


def _argument(words: str, param: Any) -> str:
    bare = (param.metavar or "").strip("[].")
    kind = _KINDS.get(bare, "")
    if words.startswith("context ") and bare == "NAME":
        kind = "CONTEXT"
    elif words == "topic list":
        kind = "TOPIC"
    elif words == "schema":
        kind = "KIND"
    elif bare.startswith("KEY=VALUE"):
        kind = "SETTING"
    return f"{kind}..." if param.nargs == -1 else kind


def _schema_kinds() -> tuple[str, ...]:
    from .output.schemas import kinds

    return tuple(kinds())


def _sandbox_values() -> dict[str, tuple[str, ...]]:
    from rmqctl.sandbox.profile import PROFILES
    from rmqctl.sandbox.scenarios import SCENARIOS

    from .sandbox.fault_words import ACTIONS

    return {"SCENARIO": tuple(SCENARIOS), "RELEASE": tuple(PROFILES), "FAULT": tuple(ACTIONS)}


def _settings() -> tuple[str, ...]:
    from .context_settings import KEYS

    return tuple("map-address." if key == "map-address.BROKER" else f"{key}=" for key in KEYS if key != "map-address")


def main() -> None:
    """Write the table, and the scripts beside the package."""
    here = Path(__file__).parent
    (here / "completion_words.json").write_text(make_table())
    folder = here.parent.parent / "completions"
    folder.mkdir(exist_ok=True)
    for shell, name in FILE_NAMES.items():
        (folder / name).write_text(SCRIPTS[shell])


if __name__ == "__main__":
    main()
