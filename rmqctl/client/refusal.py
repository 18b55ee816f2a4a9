"""Turn an answer's code into an error."""

from __future__ import annotations

import re

from rmqctl.errors import BrokerError, NotAuthorisedError, RmqctlError, shortened
from rmqctl.protocol.codes import ResponseCode, response_code_name
from rmqctl.protocol.command import Command
from rmqctl.protocol.rights import action_of, plain_action_of

from .auth import Credentials

# NO_PERMISSION of brokers that check no credentials: a broker, topic or group without the permission bit or disabled.
_CLOSED = re.compile(r" is forbidden$|^subscription group no permission|not allow(ed)? ")
# 4.9 writes the exception's class before its message, and where it was thrown after it.
_JAVA_NAMES = re.compile(r"^org\.apache\.[\w.]+Exception: |, org\.apache\.[\w.$]+\(\w+\.java:\d+\)$")
# What a broker denies access to. Names may hold any word: only the texts' ends are reliable.
_DENIED = re.compile(r" has no permission to access (?P<kind>[A-Za-z]+):(?P<name>.*?) from \S+, [^,]*$")
_PLAIN_DENIED = re.compile(r"^No default permission for (?P<kind>topic|group): ?(?P<name>.*)$")
_NEEDS_ADMIN = re.compile(r"^Need admin permission for request code=\d+, ")

# Java's exceptions fill a line or two; a frame could hold megabytes.
_REMARK_LENGTH = 2_000


def refusal(address: str, code: int, response: Command, credentials: Credentials | None = None) -> RmqctlError:
    """Return the error for an answer to a request of a code; `credentials` are those of the request.

    The permission that is missing is named as it is granted: the action, and the topic, group or cluster.

    4.9 answers ACL refusals with SYSTEM_ERROR: they are recognised by the exception in the remark. 5.x answers
    NO_PERMISSION, which for admin requests always means access control.
    """
    remark = " ".join((response.remark or "")[:_REMARK_LENGTH].split())
    if credentials is not None:
        remark = remark.replace(credentials.secret_key, "***")
        if credentials.security_token:
            remark = remark.replace(credentials.security_token, "***")
    if response.code == ResponseCode.NO_PERMISSION or "AclException" in remark:
        said = _JAVA_NAMES.sub("", remark).rstrip(".") or "no permission"
        right = _missing_right(code, said)
        needs = f", which needs {right}" if right is not None else ""
        sentence = f"{address} refused the request{needs}: {shortened(said)}."
        return NotAuthorisedError(sentence, hint=_hint(said, credentials, right), right=right)
    name = response_code_name(response.code)
    return BrokerError(address, response.code, name, remark, hint=f"rmqctl explain {response.code}")


def _missing_right(code: int, said: str) -> str | None:
    """Return the permission whose lack a broker states, None when it states something else."""
    if denied := _DENIED.search(said):
        action = action_of(code, is_group=denied["kind"] == "Group") or "a permission"
        return f"{action} on {denied['kind']}:{denied['name']}"
    if denied := _PLAIN_DENIED.search(said):
        action = plain_action_of(code, is_group=denied["kind"] == "group")
        return f"{action} on the {denied['kind']} {denied['name']}"
    return "an admin account" if _NEEDS_ADMIN.search(said) else None


def _hint(said: str, credentials: Credentials | None, right: str | None) -> str:
    if _CLOSED.search(said):
        return "Check the permissions of the broker, topic or group: other credentials would not help."
    if credentials is None:
        return (
            "The request was not signed: give --credentials FILE, RMQCTL_ACCESS_KEY and RMQCTL_SECRET_KEY, "
            "or a context's."
        )
    if right is not None:
        key = credentials.access_key
        return f"Use {right}." if right.startswith("an ") else f"Grant the access key {key}: {right}."
    # These texts contain names of users and topics, which may be any word: only their beginnings and ends are reliable.
    words = said.lower()
    if words.startswith("check signature failed"):
        return f"Check the secret key: it does not match the access key {credentials.access_key}."
    if words.startswith("no acl config") or words.endswith(" is not found"):
        return f"Check the access key: the cluster does not know {credentials.access_key}."
    if words.endswith(" is disabled"):
        return f"Use another access key: {credentials.access_key} is disabled on the cluster."
    if "permission" not in words and "expired" in words:
        return "Get new credentials: these have expired."
    if words.endswith("is disabled."):
        return "Ask an administrator of the cluster to enable this user."
    return f"Grant the missing permission to the access key {credentials.access_key}."
