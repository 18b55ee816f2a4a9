"""The configuration file: named contexts, each a cluster.

current-context = "prod"
[contexts.prod]
namesrv = "10.0.0.1:9876;10.0.0.2:9876"
credentials = "prod.credentials"
protected = true
[contexts.prod.tls]
ca = "ca.pem"
[contexts.prod.map-address]
broker-a = "127.0.0.1:10911"
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.tls import TLS_KEYS
from rmqctl.text.names import closest, hint_for

from .place import config_path

# Settings of a context that are strings, flags, and tables of strings, by their names in the file.
TEXTS = (
    "namesrv", "description", "namespace", "credentials", "header", "timeout", "output", "brokers", "memory", "proxies"
)  # fmt: skip
FLAGS = ("readonly", "protected")
TABLES = ("tls", "map-address")


class ContextConfig(Struct, frozen=True):
    """One context: values as written, None if not set. File names are relative to the folder of the configuration.

    A `readonly` context refuses every change; a `protected` one requires the name of what is changed to be typed.
    `brokers` lists the brokers that the cluster must have, comma-separated. `memory` is how long a broker is expected
    after it was seen. `proxies` lists the remoting addresses of 5.x proxies, comma-separated.
    """

    name: str
    folder: Path
    namesrv: str | None = None
    description: str | None = None
    namespace: str | None = None
    credentials: str | None = None
    header: str | None = None
    timeout: str | None = None
    output: str | None = None
    brokers: str | None = None
    memory: str | None = None
    proxies: str | None = None
    readonly: bool = False
    protected: bool = False
    tls: Mapping[str, str] | None = None
    map_address: Mapping[str, str] = field(default_factory=dict)

    def path(self, name: str | None) -> str | None:
        """Return a file name of the context as a full path. Raises UsageError for an unknown home directory (~NAME)."""
        try:
            return None if name is None else str(self.folder / Path(name).expanduser())
        except RuntimeError:
            raise UsageError(f"Context {self.name}: cannot find the home directory in {name}.") from None


class Config(Struct, frozen=True):
    """The whole file: its contexts by name, not checked before they are used."""

    path: Path
    current: str | None
    contexts: Mapping[str, Any]

    def context(self, name: str) -> ContextConfig:
        """Return one context. Raises NotFoundError if it does not exist, UsageError if its settings are invalid."""
        if name not in self.contexts:
            raise NotFoundError("Context", name, suggestions=closest(name, self.contexts))
        return _context(self.path, name, self.contexts[name])


def read_config() -> Config | None:
    """Return the configuration, None if there is no file. Raises UsageError if the file cannot be read."""
    import tomllib

    path = config_path()
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read the configuration file {path}: {_reason(error)}.") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The configuration file {path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise UsageError(f"The configuration file {path} is not valid TOML: it is nested too deeply.") from None
    _require_known(path, "", data, ("current-context", "contexts"))
    contexts = data.get("contexts", {})
    if not isinstance(contexts, dict):
        raise UsageError(f"The configuration file {path} is invalid: contexts must be a table.")
    current = data.get("current-context")
    if current is not None and not isinstance(current, str):
        raise UsageError(f"The configuration file {path} is invalid: current-context must be a string.")
    return Config(path, current, contexts)


def read_context(wanted: str | None) -> ContextConfig | None:
    """Return the wanted context, or the current one; None if there is no file or no current context.

    Raises UsageError if the file cannot be read or is invalid, NotFoundError for an unknown context.
    """
    config = read_config()
    if config is None:
        if wanted is None:
            return None
        raise UsageError(f"Context {wanted} does not exist: there is no configuration file {config_path()}.")
    name = wanted if wanted is not None else config.current
    return None if name is None else config.context(name)


def _context(path: Path, name: str, values: Any) -> ContextConfig:
    where = f" in context {name}"
    if not isinstance(values, dict):
        raise UsageError(f"The configuration file {path} is invalid: context {name} must be a table.")
    _require_known(path, where, values, (*TEXTS, *FLAGS, *TABLES))
    for key, value in values.items():
        if key in TEXTS and not isinstance(value, str):
            raise UsageError(f"The configuration file {path} is invalid: {key}{where} must be a string.")
        if key in FLAGS and not isinstance(value, bool):
            raise UsageError(f"The configuration file {path} is invalid: {key}{where} must be true or false.")
        if key in TABLES and not (isinstance(value, dict) and all(isinstance(each, str) for each in value.values())):
            raise UsageError(f"The configuration file {path} is invalid: {key}{where} must be a table of strings.")
    if "tls" in values:
        _require_known(path, f" in tls of context {name}", values["tls"], TLS_KEYS)
    return ContextConfig(name, path.parent, **{key.replace("-", "_"): value for key, value in values.items()})


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else (error.strerror or str(error)).lower()


def _require_known(path: Path, where: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            hint = hint_for(key, known)
            raise UsageError(f"The configuration file {path} has an unknown setting {key!r}{where}.", hint=hint)
