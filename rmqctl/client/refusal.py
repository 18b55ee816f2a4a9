"""Turns an answer's code into an error."""

from __future__ import annotations

from rmqctl.errors import BrokerError, NotAuthorisedError, RmqctlError
from rmqctl.protocol.codes import ResponseCode, response_code_name
from rmqctl.protocol.command import Command


def refusal(address: str, response: Command) -> RmqctlError:
    """Return the error that an answer means whose code is no success.

    4.9 answers ACL refusals with SYSTEM_ERROR: they are known by the exception that the remark names. 5.x has
    NO_PERMISSION, for admin requests only out of access control.
    """
    remark = " ".join((response.remark or "").split())
    if response.code == ResponseCode.NO_PERMISSION or "AclException" in remark:
        return NotAuthorisedError(
            f"{address} refused the request: {remark.rstrip('.') or 'no permission'}.",
            hint="rmqctl can't sign requests yet: this cluster needs credentials.",
        )
    name = response_code_name(response.code)
    return BrokerError(address, response.code, name, remark, hint=f"rmqctl explain {response.code}")
