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
from rmqctl.rules.names import closest

from .config_place import config_path

# Settings of a context that are texts, flags, and tables of texts, by their names in the file.
TEXTS = (
    "namesrv", "description", "namespace", "credentials", "header", "timeout", "output", "brokers", "memory", "proxies"
)  # fmt: skip
FLAGS = ("readonly", "protected")
TABLES = ("tls", "map-address")


class ContextConfig(Struct, frozen=True):
    """One context: texts as written, None where it says nothing. File names are relative to the file's folder.

    `readonly` contexts refuse every change, `protected` ones want the name of what is changed typed. `brokers` names
    the brokers that the cluster must have, separated by commas; `memory` is how long one that was seen is expected;
    `proxies` are the remoting addresses of 5.x proxies, separated by commas.
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
        """Return a file's name as the context means it. Raises UsageError for the home of nobody."""
        try:
            return None if name is None else str(self.folder / Path(name).expanduser())
        except RuntimeError:
            raise UsageError(f"Context {self.name} names the file {name}, whose folder is not known.") from None


class Config(Struct, frozen=True):
    """The whole file: its contexts by name, not checked before they are used."""

    path: Path
    current: str | None
    contexts: Mapping[str, Any]

    def context(self, name: str) -> ContextConfig:
        """Return one context. Raises NotFoundError, and UsageError for one that says what there is not."""
        if name not in self.contexts:
            raise NotFoundError("Context", name, suggestions=closest(name, self.contexts))
        return _context(self.path, name, self.contexts[name])


def read_config() -> Config | None:
    """Return the configuration, None when there is no file. Raises UsageError for one that can't be read."""
    import tomllib

    path = config_path()
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The configuration file {path} can't be read: {_reason(error)}.") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The configuration file {path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise UsageError(f"The configuration file {path} is not valid TOML: it is nested too deeply.") from None
    _require_known(path, "", data, ("current-context", "contexts"))
    contexts = data.get("contexts", {})
    if not isinstance(contexts, dict):
        raise UsageError(f"The configuration file {path} has contexts that are no table.")
    current = data.get("current-context")
    if current is not None and not isinstance(current, str):
        raise UsageError(f"The configuration file {path} has a current-context that is no text.")
    return Config(path, current, contexts)


def read_context(wanted: str | None) -> ContextConfig | None:
    """Return the wanted context, or the current one; None when there is no file or it names none.

    Raises UsageError for a file that can't be read or says what there is not, NotFoundError for an unknown context.
    """
    config = read_config()
    if config is None:
        if wanted is None:
            return None
        raise UsageError(f"There is no configuration file {config_path()}, so no context {wanted}.")
    name = wanted if wanted is not None else config.current
    return None if name is None else config.context(name)


def _context(path: Path, name: str, values: Any) -> ContextConfig:
    where = f" in context {name}"
    if not isinstance(values, dict):
        raise UsageError(f"The configuration file {path} has a context {name} that is no table.")
    _require_known(path, where, values, (*TEXTS, *FLAGS, *TABLES))
    for key, value in values.items():
        if key in TEXTS and not isinstance(value, str):
            raise UsageError(f"The configuration file {path} has a {key}{where} that is no text.")
        if key in FLAGS and not isinstance(value, bool):
            raise UsageError(f"The configuration file {path} has a {key}{where} that is neither true nor false.")
        if key in TABLES and not (isinstance(value, dict) and all(isinstance(each, str) for each in value.values())):
            raise UsageError(f"The configuration file {path} has a {key}{where} that is no table of texts.")
    if "tls" in values:
        _require_known(path, f" in tls of context {name}", values["tls"], TLS_KEYS)
    return ContextConfig(name, path.parent, **{key.replace("-", "_"): value for key, value in values.items()})


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else (error.strerror or str(error)).lower()


def _require_known(path: Path, where: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            like = closest(key, known)
            hint = f"Did you mean {like[0]}?" if like else f"Known are {', '.join(known)}."
            raise UsageError(f"The configuration file {path} has an unknown setting {key!r}{where}.", hint=hint)
