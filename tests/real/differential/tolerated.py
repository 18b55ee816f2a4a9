"""What may differ between a real broker's answers and the sandbox's, each with its reason. Nothing else may."""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class Tolerance(NamedTuple):
    """`code` is a request's, None for any; `path` matches the whole way into the answer (extFields.offset).

    `real` and `sandbox` match the two values' texts where not every value will do; `version` is of one release only.
    """

    reason: str
    path: str
    code: int | None = None
    real: str = ".*"
    sandbox: str = ".*"
    version: str | None = None


# Some text, whatever it says.
_TEXT = r"(?!<absent>$|None$).+"

TOLERATED = [
    Tolerance(
        "A failure inside of a Java server tells its exception and stack; the sandbox fails with the same code and a "
        "text of its own.",
        path="remark", real=r"(java|org|com)\.[a-zA-Z0-9.]+(Exception|Error).*", sandbox=_TEXT,
    ),
    Tolerance(
        "A broker that waited for a client in vain names the line of Java code that gave up.",
        path="remark", real=r"consumer <.*> Timeout: .*\(ms\), org\.apache\.[\w.]+\(\w+\.java:\d+\)",
        sandbox=r"consumer <.*> Timeout: .*\(ms\)",
    ),
    Tolerance(
        "How long a message waits, in ms, depends on when one asks.",
        code=303, path=r"body\.consumeTimeSpanSet\[\d+\]\.delayTime", real=r"\d{1,5}", sandbox=r"\d{1,5}",
    ),
    Tolerance(
        "A failure inside of a Java server, with the text of its exception only.",
        path="remark", real=r"Cannot invoke .* is null", sandbox=_TEXT,
    ),
    Tolerance(
        "The sandbox refuses to change settings that it does not obey; real servers pass over unknown names.",
        path="code|remark", code=25, real="0|None", sandbox=r"29|\[sandbox\] nothing was changed.*",
    ),
    Tolerance(
        "The sandbox refuses to change settings that it does not obey; real servers pass over unknown names.",
        path="code|remark", code=318, real="0|None", sandbox=r"29|\[sandbox\] nothing was changed.*",
    ),
    Tolerance("The sandbox has no settings that it does not obey.", path=r"body\..*", code=26, sandbox="<absent>"),
    Tolerance("The sandbox has no settings that it does not obey.", path=r"body\..*", code=319, sandbox="<absent>"),
    Tolerance("Servers listen at ports of their own.", path=r"body\.(listenPort|namesrvAddr)", code=26),
    Tolerance("Servers listen at ports of their own.", path=r"body\.listenPort", code=319),
    Tolerance("Test clusters are given more of the disk.", path=r"body\.diskMaxUsedSpaceRatio", code=26),
    Tolerance(
        "Test clusters check half messages often. 4.9 reads how often at its start only.",
        path=r"body\.transactionCheckInterval", code=26,
    ),
    Tolerance(
        "All half messages of a broker share a queue.", path=r"body\[0\]\.queueOffset", code=33, real=r"\d+",
        sandbox=r"\d+",
    ),
    Tolerance(
        "All half messages of a broker share a queue.", path=r"body\[0\]\.queueOffset", code=39, real=r"\d+",
        sandbox=r"\d+",
    ),
    Tolerance(
        "How a broker is doing is its own affair; what it tells of must be told by both.",
        path=r"body\.table\.(?!(brokerVersion(Desc)?|brokerActive)$).*", code=28, real=r"(?!<absent>).*",
        sandbox=r"(?!<absent>).*",
    ),
    Tolerance(
        "Latencies, reads that found nothing, counts of calls: the sandbox does not take them.",
        code=28, sandbox="<absent>", path=r"body\.table\.(putLatency999?|put\w+EntireTimeMax|get\w+EntireTimeMax"
        r"|putMessage\w+|getMissTps|getTotalTps|getFoundTps|commitLogDiskRatio_.*)",
    ),
    Tolerance(
        "4.9 makes its transactions' topics when it first looks into them, up to a minute after its start.",
        version="4.9.7", path=r"body\.(topicConfigTable|topicList)\.RMQ_SYS_TRANS_(OP_)?HALF_TOPIC", real="<absent>",
    ),
    Tolerance(
        "A name server names any broker of its own.", code=304, path=r"body\.brokerAddr", real="<(broker|address)>",
        sandbox="<(broker|address)>",
    ),
    Tolerance(
        "Pops take the revive queues in turn, whoever asks.",
        path=r"extFields\.reviveQid", real="[0-7]", sandbox="[0-7]",
    ),
]  # fmt: skip


def find_tolerance(version: str, code: int, path: str, real: Any, sandbox: Any) -> Tolerance | None:
    """Return what allows a difference, None when nothing does."""
    for tolerance in TOLERATED:
        if (
            tolerance.version in (None, version)
            and tolerance.code in (None, code)
            and re.fullmatch(tolerance.path, path)
            and re.fullmatch(tolerance.real, str(real), re.DOTALL)
            and re.fullmatch(tolerance.sandbox, str(sandbox), re.DOTALL)
        ):
            return tolerance
    return None
