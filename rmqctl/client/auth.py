"""Sign requests for clusters with access control: ACL 1.0 and authentication 2.0 use the same signature."""

from __future__ import annotations

import base64
import hashlib
import hmac

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.protocol.command import Command

_ACCESS_KEY, _SECURITY_TOKEN, _SIGNATURE = "AccessKey", "SecurityToken", "Signature"


class Credentials(Struct, frozen=True):
    """The identity that signs requests. The secret stays in this process: only signatures made with it are sent."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(access_key={self.access_key!r})"


def signed(command: Command, credentials: Credentials) -> Command:
    """Return the command with its signature (AclUtils.combineRequestContent, AclSigner).

    It covers every header field and the body, so nothing may be added afterwards.
    """
    fields = {**command.ext_fields, _ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        fields[_SECURITY_TOKEN] = credentials.security_token
    fields.pop(_SIGNATURE, None)
    # Java sorts strings by UTF-16 units; header field names are ASCII, so that is the order of code points.
    content = "".join(fields[name] for name in sorted(fields)).encode() + command.body
    digest = hmac.new(credentials.secret_key.encode(), content, hashlib.sha1).digest()
    return replace(command, ext_fields={**fields, _SIGNATURE: base64.b64encode(digest).decode()})
