"""The settings of a context as command-line words: `timeout=5s`, `tls.ca=ca.pem`, `map-address.broker-a=h:1`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rmqctl.cli.arguments import duration_option_ms, milliseconds_option
from rmqctl.cli.config.file import FLAGS, TABLES, TEXTS
from rmqctl.cli.globals import FORMATS
from rmqctl.cli.invocation import HEADER_ENCODINGS
from rmqctl.errors import UsageError
from rmqctl.model.tls import TLS_KEYS, TLS_VERIFICATIONS
from rmqctl.net.address import parse_address, parse_name_servers
from rmqctl.net.discovery import shown_url
from rmqctl.text.names import hint_for

if TYPE_CHECKING:
    from collections.abc import MutableMapping

KEYS = (*TEXTS, *FLAGS, "tls", *(f"tls.{key}" for key in TLS_KEYS), "map-address", "map-address.BROKER")
_SECRET = re.compile(r"secret|password|passwd|token|access-?_?key", re.IGNORECASE)
_WORD = re.compile(r"[\w.-]*")


class Setting(Struct, frozen=True):
    """One setting to write: its path in the context's table, and its value; None removes it."""

    path: tuple[str, ...]
    value: str | bool | dict[str, str] | None

    def apply(self, context: MutableMapping[str, Any]) -> None:
        """Write it into a context's table. Raises UsageError if the file has no table where one is needed."""
        import tomlkit

        table = context
        if not isinstance(table, dict):
            raise UsageError("The context is not a table in the configuration file.", hint="Edit the file manually.")
        for key in self.path[:-1]:
            if key not in table:
                if self.value is None:
                    return
                table[key] = tomlkit.table()
            table = table[key]
            if not isinstance(table, dict):
                raise UsageError(f"{key} is not a table in the configuration file.", hint=f"Remove it with {key}=.")
        if self.value is None:
            table.pop(self.path[-1], None)
        elif self.value == {}:
            table.setdefault(self.path[-1], tomlkit.table())
        else:
            table[self.path[-1]] = self.value


def parse_setting(text: str) -> Setting:
    """Parse KEY=VALUE; an empty value removes the setting. Raises UsageError, whose text never repeats a secret."""
    key, separator, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if _SECRET.search(key) and not key.startswith("map-address."):  # a broker can have any name
        word = _WORD.match(key)  # if another character was typed for =, the secret follows it
        raise UsageError(
            f"{word[0] if word else ''} is a secret: the configuration file does not store secrets.",
            hint="Put accessKey and secretKey into a file that only you can read, and set credentials=FILE.",
        )
    name, dot, part = key.partition(".")
    if key not in KEYS and not (name == "map-address" and part):
        hint = hint_for(key, KEYS)
        raise UsageError(f"Unknown setting {key!r}.", hint=hint)
    if not separator:
        raise UsageError(f"{key} has no value.", hint=f"Write {key}=VALUE, or {key}= to remove it.")
    path = (name, part) if dot else (name,)
    return Setting(path, None if not value else _checked(key, name, value))


def _checked(key: str, name: str, value: str) -> str | bool | dict[str, str] | None:
    """Return a value as it is written to the file, None for a table that is turned off. Raises UsageError."""
    if not value.isprintable():
        raise UsageError(f"{key} must be one line of printable text.")
    if key in (*FLAGS, "tls"):
        _require(key, value, ("true", "false"))
        if key != "tls":
            return value == "true"
        return {} if value == "true" else None
    if key in TABLES:
        raise UsageError(f"{key} is a table.", hint=f"Set {key}.BROKER=HOST:PORT, or remove all of it with {key}=.")
    if key == "namesrv":
        if "://" in value:
            shown_url(value)
        else:
            parse_name_servers(value)
    elif key == "timeout":
        duration_option_ms(key, value)
    elif key == "memory":
        milliseconds_option(key, value)
    elif key == "output":
        _require(key, value, FORMATS)
    elif key == "header":
        _require(key, value.upper(), HEADER_ENCODINGS)
    elif key == "tls.verify":
        _require(key, value, TLS_VERIFICATIONS)
    elif name == "map-address":
        parse_address(value)
    elif key == "proxies":
        for address in value.split(","):
            parse_address(address.strip())
    return value


def _require(key: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        hint = hint_for(value, known)
        raise UsageError(f"Invalid {key} {value!r}.", hint=hint)
