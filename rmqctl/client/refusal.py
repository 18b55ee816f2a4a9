"""Turns an answer's code into an error."""

from __future__ import annotations

import re

from rmqctl.errors import BrokerError, NotAuthorisedError, RmqctlError, shortened
from rmqctl.protocol.codes import ResponseCode, response_code_name
from rmqctl.protocol.command import Command

from .auth import Credentials

# 4.9 writes the exception's class before its words, and where it was thrown after them.
# NO_PERMISSION of brokers that check no credentials: a broker, topic or group without the permission bit or disabled.
_CLOSED = re.compile(r" is forbidden$|^subscription group no permission|not allow(ed)? ")
_JAVA_NAMES = re.compile(r"^org\.apache\.[\w.]+Exception: |, org\.apache\.[\w.$]+\(\w+\.java:\d+\)$")


# Java's exceptions fill a line or two; a frame could hold megabytes.
_REMARK_LENGTH = 2_000


def refusal(address: str, response: Command, credentials: Credentials | None = None) -> RmqctlError:
    """Return the error that an answer means whose code is no success; `credentials` are those it was asked with.

    4.9 answers ACL refusals with SYSTEM_ERROR: they are known by the exception that the remark names. 5.x has
    NO_PERMISSION, for admin requests only out of access control.
    """
    remark = " ".join((response.remark or "")[:_REMARK_LENGTH].split())
    if credentials is not None:
        remark = remark.replace(credentials.secret_key, "***")
        if credentials.security_token:
            remark = remark.replace(credentials.security_token, "***")
    if response.code == ResponseCode.NO_PERMISSION or "AclException" in remark:
        said = _JAVA_NAMES.sub("", remark).rstrip(".") or "no permission"
        return NotAuthorisedError(f"{address} refused the request: {shortened(said)}.", hint=_hint(said, credentials))
    name = response_code_name(response.code)
    return BrokerError(address, response.code, name, remark, hint=f"rmqctl explain {response.code}")


def _hint(said: str, credentials: Credentials | None) -> str:
    if _CLOSED.search(said):
        return "That is no matter of who asks: the broker, the topic or the group is closed for this."
    if credentials is None:
        return "It was not signed: give --credentials FILE, RMQCTL_ACCESS_KEY and RMQCTL_SECRET_KEY, or a context's."
    # Names of users and topics stand in these texts and may hold any word: their beginnings and ends tell the cases.
    words = said.lower()
    if words.startswith("check signature failed"):
        return f"The secret key is not the one that the cluster has for the access key {credentials.access_key}."
    if words.startswith("no acl config") or words.endswith(" is not found"):
        return f"The cluster does not know the access key {credentials.access_key}."
    if words.endswith(" is disabled"):
        return f"The cluster knows the access key {credentials.access_key} and has disabled it."
    if "permission" not in words and "expired" in words:
        return "The credentials have run out: get new ones."
    if words.endswith("is disabled."):
        return "An administrator of the cluster has switched this user off."
    return f"The access key {credentials.access_key} lacks a right that this needs."
