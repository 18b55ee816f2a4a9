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

    Without a name of its own an instance is called `pid#nanoTime`, so that two never share an id: both would take the
    same queues. A broadcasting one keeps `DEFAULT`: its offsets are in a folder of that name, and must be found again.
    Two of those on a machine need names.
    """
    name = (instance_name or "").strip() or _DEFAULT
    if name == _DEFAULT and message_model != BROADCASTING:
        name = f"{pid}#{nano_time}"
    unit = (unit_name or "").strip()
    return f"{ip.removeprefix('[').removesuffix(']')}@{name}" + (f"@{unit}" if unit else "")
