"""The configuration file: named contexts, each a cluster.

current-context = "prod"
[contexts.prod]
namesrv = "10.0.0.1:9876;10.0.0.2:9876"
timeout = "10s"
output = "wide"
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.rules.names import closest

_CONTEXT_KEYS = ("namesrv", "timeout", "output")


class ContextConfig(Struct, frozen=True):
    """One context: texts as written, None where it says nothing."""

    name: str
    namesrv: str | None = None
    timeout: str | None = None
    output: str | None = None


def config_path() -> Path:
    """Return where the configuration file is, or would be (RMQCTL_CONFIG, else the user's folder)."""
    given = os.environ.get("RMQCTL_CONFIG")
    if given:
        return Path(given)
    from platformdirs import user_config_path

    return user_config_path("rmqctl") / "config.toml"


def read_context(wanted: str | None) -> ContextConfig | None:
    """Return the wanted context, or the current one; None when there is no file or it names none.

    Raises UsageError for a file that can't be read or says what there is not, NotFoundError for an unknown context.
    """
    import tomllib

    path = config_path()
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        if wanted is None:
            return None
        raise UsageError(f"There is no configuration file {path}, so no context {wanted}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The configuration file {path} can't be read: {_reason(error)}.") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The configuration file {path} is not valid TOML: {error}.") from None
    contexts = data.get("contexts", {})
    _require_known(path, "", data, ("current-context", "contexts"))
    if not isinstance(contexts, dict):
        raise UsageError(f"The configuration file {path} has contexts that are no table.")
    name = wanted if wanted is not None else data.get("current-context")
    if name is None:
        return None
    if not isinstance(name, str):
        raise UsageError(f"The configuration file {path} has a current-context that is no text.")
    if name not in contexts:
        raise NotFoundError("Context", name, suggestions=closest(name, contexts))
    values = contexts[name]
    if not isinstance(values, dict):
        raise UsageError(f"The configuration file {path} has a context {name} that is no table.")
    _require_known(path, f" in context {name}", values, _CONTEXT_KEYS)
    for key, value in values.items():
        if not isinstance(value, str):
            raise UsageError(f"The configuration file {path} has a {key} in context {name} that is no text.")
    return ContextConfig(name, **values)


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else (error.strerror or str(error)).lower()


def _require_known(path: Path, where: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            like = closest(key, known)
            hint = f"Did you mean {like[0]}?" if like else f"Known are {', '.join(known)}."
            raise UsageError(f"The configuration file {path} has an unknown setting {key!r}{where}.", hint=hint)
