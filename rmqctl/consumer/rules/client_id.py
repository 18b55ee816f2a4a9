"""How a client names itself to brokers (ClientConfig.buildMQClientId)."""

from __future__ import annotations

from rmqctl.model.group import BROADCASTING, CLUSTERING

_DEFAULT = "DEFAULT"


def make_client_id(
    ip: str,
    *,
    pid: int,
    nano_time: int,
    instance_name: str | None = None,
    unit_name: str | None = None,
    message_model: str = CLUSTERING,
) -> str:
    """Return `ip@instance[@unit]`; IPv6 without brackets.

    An instance without a name is called `pid#nanoTime`, because two clients with one id would get the same queues. A
    broadcasting one keeps `DEFAULT`: it finds its offsets in a folder of that name. Two broadcasting clients on one
    machine therefore need names.
    """
    name = (instance_name or "").strip() or _DEFAULT
    if name == _DEFAULT and message_model != BROADCASTING:
        name = f"{pid}#{nano_time}"
    unit = (unit_name or "").strip()
    return f"{ip.removeprefix('[').removesuffix(']')}@{name}" + (f"@{unit}" if unit else "")
