"""Checks of the local installation: Python, libraries, terminal, completion, configuration."""

from __future__ import annotations

import os
import platform
import stat
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote

from rmqctl import __version__
from rmqctl.cli.config.file import Config, read_config
from rmqctl.client.secrets import exposed_mode, private_key_file, read_credentials
from rmqctl.errors import UsageError
from rmqctl.model.check_result import CheckResult, Status
from rmqctl.text.words import counted

_LIBRARIES = (
    "typer",
    "rich",
    "msgspec",
    "platformdirs",
    "httpx",
    "aiohappyeyeballs",
    "tomlkit",
    "lz4",
    "zstandard",
    "pluggy",
)
_OPTIONAL = ("PyYAML",)
# Where shells look for completions, below the user's home or at the root.
_COMPLETIONS = {
    "bash": (
        "~/.local/share/bash-completion/completions/rmqctl",
        "~/.bash_completion.d/rmqctl",
        "/etc/bash_completion.d/rmqctl",
        "/usr/share/bash-completion/completions/rmqctl",
        "/usr/local/share/bash-completion/completions/rmqctl",
    ),
    "zsh": (
        "~/.zfunc/_rmqctl",
        "~/.zsh/completions/_rmqctl",
        "/usr/share/zsh/site-functions/_rmqctl",
        "/usr/share/zsh/vendor-completions/_rmqctl",
        "/usr/local/share/zsh/site-functions/_rmqctl",
    ),
    "fish": (
        "~/.config/fish/completions/rmqctl.fish",
        "/usr/share/fish/vendor_completions.d/rmqctl.fish",
        "/etc/fish/completions/rmqctl.fish",
    ),
}
_START_FILES = {"bash": ("~/.bashrc", "~/.bash_profile"), "zsh": ("~/.zshrc",), "fish": ("~/.config/fish/config.fish",)}


def fetch_installation_findings(config_file: Path) -> list[CheckResult]:
    """Run every check that needs no cluster."""
    return [_python(), _libraries(), _terminal(), _completion(), *_configuration(config_file)]


def _python() -> CheckResult:
    found = f"rmqctl {__version__}, Python {platform.python_version()}, {platform.system()}"
    return CheckResult("program", "installation", Status.OK, found)


def _libraries() -> CheckResult:
    versions: dict[str, str] = {}
    missing = []
    for name in (*_LIBRARIES, *_OPTIONAL):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            if name not in _OPTIONAL:
                missing.append(name)
    found = f"{len(versions)} libraries"
    measured = {"versions": versions}
    if missing:
        hint = "Reinstall rmqctl with its dependencies."
        found += f", not found: {', '.join(missing)}"
        return CheckResult("libraries", "installation", Status.WARN, found, hint, measured)
    return CheckResult("libraries", "installation", Status.OK, found, measured=measured)


def _terminal() -> CheckResult:
    encoding = (sys.stdout.encoding or "none").lower()
    kind = f"terminal {os.environ.get('TERM', '-')}" if sys.stdout.isatty() else "not a terminal"
    found = f"{kind}, {encoding}"
    if encoding.replace("-", "") != "utf8":
        hint = "Set LANG to a UTF-8 locale; other characters than ASCII are shown as escapes."
        return CheckResult("output", "installation", Status.WARN, found, hint)
    return CheckResult("output", "installation", Status.OK, found)


def _completion() -> CheckResult:
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in _COMPLETIONS:
        found = f"the shell is {shell or 'unknown'}"
        return CheckResult("completion", "installation", Status.WARN, found, "Completion supports bash, zsh and fish.")
    for name in _COMPLETIONS[shell]:
        if Path(name).expanduser().is_file():
            return CheckResult("completion", "installation", Status.OK, f"{shell}: {name}")
    for name in _START_FILES[shell]:
        try:
            text = Path(name).expanduser().read_text(errors="replace")
        except OSError:
            continue
        if "rmqctl completion" in text:
            return CheckResult("completion", "installation", Status.OK, f"{shell}: {name}")
    target = _COMPLETIONS[shell][0]
    found = f"{shell}: not found in the usual places"
    hint = f"rmqctl completion {shell} > {target}"
    return CheckResult("completion", "installation", Status.WARN, found, hint)


def _configuration(path: Path) -> list[CheckResult]:
    try:
        config = read_config()
    except UsageError as error:
        return [CheckResult("configuration", str(path), Status.FAIL, error.sentence.rstrip("."), error.hint)]
    if config is None:
        return [CheckResult("configuration", str(path), Status.OK, "no configuration file")]
    count = len(config.contexts)
    found = f"{counted(count, 'context')}, current: {config.current or 'none'}"
    findings = [CheckResult("configuration", str(path), Status.OK, found)]
    mode = _mode(path)
    if mode is not None and mode & (stat.S_IWGRP | stat.S_IWOTH):
        findings[0] = CheckResult(
            "configuration", str(path), Status.WARN, f"{found}; writable by other users ({mode:04o})",
            f"chmod go-w {path}",
        )  # fmt: skip
    if config.current is not None and config.current not in config.contexts:
        sentence = f"the current context {config.current} does not exist"
        findings.append(CheckResult("context", config.current, Status.FAIL, sentence, "rmqctl context use NAME"))
    return findings + [finding for name in config.contexts for finding in _context(config, name)]


def _context(config: Config, name: str) -> list[CheckResult]:
    try:
        context = config.context(name)
        credentials, key = context.path(context.credentials), context.path(private_key_file(context.tls))
        if credentials is not None:
            read_credentials(credentials)
    except UsageError as error:
        return [CheckResult("context", name, Status.FAIL, error.sentence.rstrip("."), error.hint)]
    return [_secrets(kind, name, path) for kind, path in (("credentials", credentials), ("tls key", key)) if path]


def _secrets(kind: str, context: str, path: str) -> CheckResult:
    mode = exposed_mode(path)
    if mode is not None:
        found = f"{path} is accessible to other users ({mode:04o})"
        return CheckResult(kind, context, Status.WARN, found, f"chmod 600 {quote(path)}")
    return CheckResult(kind, context, Status.OK, f"{path}, accessible to its owner only")


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
