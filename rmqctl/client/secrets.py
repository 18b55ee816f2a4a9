"""Read credentials from a file or the environment, never from the command line, where other users could see them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rmqctl.errors import UsageError
from rmqctl.text.names import hint_for

if TYPE_CHECKING:
    from .auth import Credentials

_KEYS = ("accessKey", "secretKey", "securityToken")
_VARIABLES = ("RMQCTL_ACCESS_KEY", "RMQCTL_SECRET_KEY", "RMQCTL_SECURITY_TOKEN")
_MAX_BYTES = 64 * 1024


def credentials_of_environment() -> Credentials | None:
    """Return the credentials in RMQCTL_ACCESS_KEY and RMQCTL_SECRET_KEY, None when neither is set.

    RMQCTL_SECURITY_TOKEN is optional. Raises UsageError.
    """
    from .auth import Credentials

    access_key, secret_key = (os.environ.get(name) for name in _VARIABLES[:2])
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        raise UsageError("RMQCTL_ACCESS_KEY and RMQCTL_SECRET_KEY must be set together.")
    security_token = os.environ.get("RMQCTL_SECURITY_TOKEN") or None
    for name, value in zip(_VARIABLES, (access_key, secret_key, security_token), strict=True):
        if value is not None and not _is_text(value):
            raise UsageError(f"Cannot read {name}: it is not UTF-8.")
    return Credentials(access_key, secret_key, security_token)


def read_credentials(path: str) -> Credentials:
    """Read accessKey, secretKey and securityToken, one `name: value` per line, as in mqadmin's tools.yml.

    Raises UsageError; its sentence never contains a value from the file.
    """
    from .auth import Credentials

    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "invalid file name"
        raise UsageError(f"Cannot read the credentials file {path}: {reason.lower()}.") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"The credentials file {path} is larger than {_MAX_BYTES // 1024} KiB.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"Cannot read the credentials file {path}: it is not UTF-8.") from None
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition(":")
        if not separator:
            raise UsageError(
                f"Line {number} of the credentials file {path} is not `name: value`.",
                hint=f"Write {', '.join(_KEYS)}, one per line.",
            )
        if name.strip() not in _KEYS:
            raise UsageError(
                f"Unknown name in line {number} of the credentials file {path}.",
                hint=hint_for(name.strip(), _KEYS),
            )
        values[name.strip()] = _unquoted(value.strip())
    missing = [name for name in _KEYS[:2] if not values.get(name)]
    if missing:
        raise UsageError(f"The credentials file {path} has no {' and no '.join(missing)}.")
    return Credentials(values["accessKey"], values["secretKey"], values.get("securityToken") or None)


def exposed_mode(path: str) -> int | None:
    """Return the mode of a file with secrets that its group or others can access, None for any other file."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # reading it reports why
        return None
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO) else None


def private_key_file(tls: Mapping[str, str] | None) -> str | None:
    """Return the file that holds the private key of TLS settings: that of the certificate if no other is named."""
    return None if tls is None else tls.get("key") or tls.get("cert")


def _unquoted(text: str) -> str:
    """Return a value as YAML reads it: without its quotes, or without a trailing comment."""
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        if end > 0 and (not text[end + 1 :].strip() or text[end + 1 :].lstrip().startswith("#")):
            return text[1:end]
    return text.partition(" #")[0].rstrip()


def _is_text(value: str) -> bool:
    """Return whether a value can be sent; Python keeps bytes that are not UTF-8 as halves of surrogate pairs."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)
