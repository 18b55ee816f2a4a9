"""Reads what mqadmin prints, for a second opinion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_SECTION = re.compile(r"#([A-Z][\w &]*)#")


class ProgressRow(NamedTuple):
    """One row of consumerProgress."""

    topic: str
    broker_name: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    diff: int


def consumer_progress(printed: str) -> list[ProgressRow]:
    """Read the rows that `consumerProgress -g` prints, sorted."""
    rows = []
    for line in printed.splitlines():
        words = re.split(r"\s{2,}", line.strip())
        if len(words) >= 6 and words[2].isdigit():
            rows.append(ProgressRow(words[0], words[1], *map(int, words[2:6])))
    return sorted(rows)


def client_ips(printed: str) -> dict[str, str]:
    """Read who holds each queue, as topic@broker:id, from what `consumerProgress -g ... -s true` prints."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in printed.splitlines())
    return {f"{row[0]}@{row[1]}:{row[2]}": row[5] for row in rows if len(row) >= 7 and row[2].isdigit()}


class ClientRow(NamedTuple):
    """One row of consumerConnection."""

    client_id: str
    address: str
    language: str
    version: str


def client_rows(printed: str) -> dict[str, ClientRow]:
    """Read the connections that `consumerConnection -g` prints, by client id."""
    found = re.findall(r"^(\S+@\S+) +(\S+:\d+) +(\w+) +(V\w+)$", printed, re.MULTILINE)
    return {row[0]: ClientRow(*row) for row in found}


class DirectResult(NamedTuple):
    """What came of a message that was consumed directly."""

    order: str
    auto_commit: str
    result: str
    remark: str


def direct_results(printed: str) -> list[DirectResult]:
    """Read what `queryMsgById -g ... -d ...` prints."""
    pattern = r"Result \[order=(\w+), autoCommit=(\w+), consumeResult=(\w+), remark=(.*?), spentTimeMills=\d+\]"
    return [DirectResult(*found) for found in re.findall(pattern, printed)]


class ClientStatus(NamedTuple):
    """What `consumerStatus -i` prints of one client; queues are topic@broker:id."""

    sections: tuple[str, ...]
    properties: Mapping[str, str]
    subscriptions: frozenset[tuple[str, str, str]]
    offsets: Mapping[str, int]
    queues: Mapping[str, Mapping[str, str]]
    # By topic: pull RT and TPS, consume RT, TPS of what is done and of what failed, failures of the hour.
    rates: Mapping[str, tuple[float, ...]]
    stacks: str

    def held(self, topic: str) -> set[str]:
        """Return the queues of a topic that it holds."""
        return {queue for queue in self.queues if queue.startswith(f"{topic}@")}


def client_status(printed: str) -> ClientStatus:
    """Read a client's own words, section by section."""
    sections: dict[str, list[str]] = {}
    for line in printed.splitlines():
        heading = _SECTION.fullmatch(line.strip())
        if heading is not None:
            sections[heading[1]] = []
        elif line.strip() and not line.startswith("#") and sections:
            sections[next(reversed(sections))].append(line)
    pairs = (line.partition(":") for line in sections["Consumer Properties"])
    subscribed = (
        re.split(r"\s+(?:Topic|ClassFilter|SubExpression): +", line) for line in sections["Consumer Subscription"]
    )
    rates = [line.split() for line in sections["Consumer RT&TPS"]]
    return ClientStatus(
        sections=tuple(sections),
        properties={name.strip(): value.strip() for name, _, value in pairs},
        subscriptions=frozenset((topic.strip(), is_class.strip(), text) for _, topic, is_class, text in subscribed),
        offsets={queue: int(offset) for queue, offset in _by_queue(sections["Consumer Offset"])},
        queues={queue: _fields(text) for queue, text in _by_queue(sections["Consumer MQ Detail"])},
        rates={topic: tuple(map(float, numbers)) for topic, *numbers in rates},
        stacks="\n".join(sections.get("Consumer jstack", ())),
    )


def _by_queue(lines: list[str]) -> list[tuple[str, str]]:
    rows = (line.split(maxsplit=3) for line in lines)
    return [(f"{topic}@{broker}:{number}", rest.strip()) for topic, broker, number, rest in rows]


def _fields(text: str) -> dict[str, str]:
    """Read `ProcessQueueInfo [commitOffset=5, ...]`."""
    return dict(pair.split("=") for pair in text.partition("[")[2].rstrip("]").split(", "))
