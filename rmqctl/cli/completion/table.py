"""Generates the table that completion uses instead of loading commands: `python -m rmqctl.cli.completion.table`."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from rmqctl.cli.globals import FORMATS, global_params
from rmqctl.cli.lazy import load_command
from rmqctl.cli.registry import ALIASES, COMMANDS
from rmqctl.model.tls import TLS_VERIFICATIONS

from .scripts import FILE_NAMES, SCRIPTS

# Kinds of values by their metavar in help.
_KINDS = {
    **{word: word for word in ("GROUP", "TOPIC", "BROKER", "FILE", "FORMAT", "SHELL", "SCENARIO", "RELEASE", "FAULT")},
    "DIR": "FILE",
}
_OF_OPTIONS = {
    "--context": "CONTEXT", "--tls-verify": "VERIFY", "--columns": "COLUMN,", "--sort": "COLUMN,", "--where": "COLUMN",
    "--broker": "BROKER", "--remove-brokers": "BROKER", "--queue": "BROKER", "--codec": "CODEC", "--body": "BODY",
    "--strategy": "STRATEGY", "--compare": "STRATEGY", "--inner": "STRATEGY", "--severity": "SEVERITY",
    "--fail-on": "SEVERITY", "--warn-severity": "SEVERITY", "--only": "FINDING", "--set": "FIELD",
    "--id": "RECEIPT",
}  # fmt: skip
_OF_COMMANDS = (
    {("whatif readonly", "--by"): "WAY", ("dlq stats", "--by"): "LETTER_KEY"}
    | {(f"topic {verb}", "--set"): "TOPIC_FIELD" for verb in ("create", "update")}
    | {("sandbox up", "--set"): "SANDBOX_SETTING"}
)
# Arguments whose metavar does not name a kind: all arguments of the command, in order.
_ARGUMENTS = {
    "offset clone": ["GROUP", "GROUP"],
    "offset undo": ["RECEIPT"],
    "offset history": ["GROUP"],
    "consume run": ["GROUP", "TOPIC..."],
    "pipeline run": ["JOB..."],
    "explain": ["CODE"],
    "topic list": ["TOPIC..."],
    "schema": ["KIND"],
    "sandbox fault": ["FAULT", "REQUEST..."],
}


def make_table() -> str:
    """Return table.json.

    `globals` maps an option to the kind of its value, null for a flag. `commands` maps a command to its options, the
    kinds of its arguments (the last ends with ... if it repeats), its columns, and the formats that only it has.
    `values` maps a kind to its values, unless they depend on the cluster.
    """
    globals_ = _options(global_params())
    names = set(globals_)
    commands: dict[str, Any] = {}
    for words, (module_name, summary) in COMMANDS.items():
        module = import_module(module_name)
        params = load_command(words.split()[-1], module_name, summary).params
        options = {
            name: _OF_COMMANDS.get((words, name), kind) for name, kind in _options(params).items() if name not in names
        }
        arguments = _ARGUMENTS.get(words) or [
            _argument(words, param) for param in params if param.param_type_name == "argument"
        ]
        columns: Any = getattr(module, "_COLUMNS", None) or getattr(module, "COLUMNS", ())
        keys = list(dict.fromkeys(column.key for column in columns))
        commands[words] = {"options": options, "arguments": arguments, "columns": keys}
        if formats := getattr(module, "OWN_FORMATS", ()):
            commands[words]["formats"] = formats
    commands |= {alias: commands[words] for alias, words in ALIASES.items()}
    values = {
        "FORMAT": FORMATS,
        "VERIFY": TLS_VERIFICATIONS,
        "SHELL": tuple(SCRIPTS),
        "KIND": _schema_kinds(),
        "SETTING": _settings(),
        **_sandbox_values(),
        **_values(),
    }
    table = {
        "globals": {**globals_, "--version": None, "-V": None, "--help": None, "-h": None},
        "commands": commands,
        "values": values,
    }
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
    elif bare.startswith("KEY=VALUE"):
        kind = "SETTING"
    return f"{kind}..." if param.nargs == -1 else kind


def _schema_kinds() -> tuple[str, ...]:
    from rmqctl.cli.output.schemas import kinds

    return tuple(kinds())


def _values() -> dict[str, tuple[str, ...]]:
    from rmqctl.changes.configs.rules.fields import GROUP, TOPIC
    from rmqctl.cli.dlq.stats import KINDS
    from rmqctl.cli.output.body import MODES
    from rmqctl.diagnose.finding import SEVERITIES
    from rmqctl.diagnose.table import CHECKS
    from rmqctl.pipeline.jobs import JOBS
    from rmqctl.plugin.builtin_codecs import rmqctl_body_codecs
    from rmqctl.protocol.codes import RequestCode, ResponseCode
    from rmqctl.rules.allocate.strategies import strategy_words
    from rmqctl.whatif.readonly import RemovalMethod

    findings = tuple(check.code for check in CHECKS)
    requests = tuple(code.name for code in RequestCode)
    return {
        "BODY": MODES,
        "CODEC": (*rmqctl_body_codecs(), "gbk", "gb18030", "big5", "shift_jis", "euc_kr", "utf-16", "latin-1"),
        "STRATEGY": strategy_words(),
        "SEVERITY": tuple(each.value.lower() for each in SEVERITIES),
        "FINDING": findings,
        "FIELD": tuple(f"{name}=" for name in GROUP.fields),
        "TOPIC_FIELD": tuple(f"{name}=" for name in TOPIC.fields),
        "JOB": tuple(JOBS),
        "CODE": (*findings, *dict.fromkeys((*(code.name for code in ResponseCode), *requests))),
        "REQUEST": requests,
        "WAY": tuple(way.value for way in RemovalMethod),
        "LETTER_KEY": tuple(KINDS),
    }


def _sandbox_values() -> dict[str, tuple[str, ...]]:
    from rmqctl.cli.sandbox.fault_words import ACTIONS
    from rmqctl.sandbox.profile import PROFILES
    from rmqctl.sandbox.scenarios.table import SCENARIOS
    from rmqctl.sandbox.settings import obeyed_names

    names = set().union(*map(obeyed_names, PROFILES.values()))
    return {
        "SCENARIO": tuple(SCENARIOS), "RELEASE": tuple(PROFILES), "FAULT": tuple(ACTIONS),
        "SANDBOX_SETTING": tuple(f"{name}=" for name in sorted(names)),
    }  # fmt: skip


def _settings() -> tuple[str, ...]:
    from rmqctl.cli.context.settings import KEYS

    return tuple("map-address." if key == "map-address.BROKER" else f"{key}=" for key in KEYS if key != "map-address")


def main() -> None:
    """Write the table into the package, and the scripts into the repository's completions folder."""
    here = Path(__file__).parent
    (here / "table.json").write_text(make_table())
    folder = here.parents[2] / "completions"
    folder.mkdir(exist_ok=True)
    for shell, name in FILE_NAMES.items():
        (folder / name).write_text(SCRIPTS[shell])


if __name__ == "__main__":
    main()
