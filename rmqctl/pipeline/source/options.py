"""The options of format("rocketmq"), parsed and validated before any request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Any

from msgspec import Struct, field

from rmqctl.admin.topics.queues import QueueChoice, parse_queue_choice
from rmqctl.client.access import Access
from rmqctl.client.auth import Credentials
from rmqctl.errors import UsageError
from rmqctl.model.names import is_sent_to_by_rocketmq, is_system_topic, require_new_name
from rmqctl.model.queue import MessageQueue
from rmqctl.model.tls import TLS_KEYS, TLS_VERIFICATIONS
from rmqctl.net.address import parse_address
from rmqctl.protocol.command import HeaderEncoding
from rmqctl.rules.message_filters.tags import parse_tags
from rmqctl.text.durations import parse_duration_ms
from rmqctl.text.names import hint_for, one_of
from rmqctl.text.option_errors import option_errors
from rmqctl.text.times import Edge, parse_time

# In JSON a queue's offset can be one of these (as in Spark's Kafka source).
LATEST, EARLIEST = -1, -2

_PASSED_ON = (
    "rocketmq.credentials", "rocketmq.accessKey", "rocketmq.secretKey", "rocketmq.securityToken", "rocketmq.tls",
    *(f"rocketmq.tls.{key}" for key in TLS_KEYS), "rocketmq.addressMap", "rocketmq.header", "rocketmq.timeout",
)  # fmt: skip
_READING = (
    "nameServers", "topic", "subscribePattern", "assign", "consumerGroup", "startingOffsets", "endingOffsets", "tags",
    "sql", "minPartitions", "maxPartitions", "minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay",
    "failOnDataLoss", "failOnAbsentBroker", "commitGroup", *_PASSED_ON,
)  # fmt: skip
_WRITING = ("nameServers", "topic", *_PASSED_ON)
# Options that Spark itself adds for a path or a table.
_SPARKS = frozenset({"path", "checkpointlocation"})
_MAX_COUNT = 2**31 - 1
_CHOOSING = ("topic", "subscribePattern", "assign")
_OF_STREAMS = ("minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay", "commitGroup")


class Bound(StrEnum):
    """A position that is given by name."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"


class ReadPosition(Struct, frozen=True):
    """Where reading starts or ends: a bound, a store time, or offsets by topic and `broker:queue`.

    Exactly one of them is set. An offset can be LATEST or EARLIEST. Queues that are not named start at their earliest
    and end at their latest offset, the defaults of the options.
    """

    bound: Bound | None = None
    at_ms: int | None = None
    offsets: Mapping[str, Mapping[str, int]] | None = None


class TopicChoice(Struct, frozen=True):
    """The topics to read: by name, or those that match `pattern` as a whole; `queues` has choices by topic, or none."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    queues: Mapping[str, tuple[QueueChoice, ...]] = field(default_factory=dict)

    def has(self, topic: str) -> bool:
        """Return whether a topic is one of them. RocketMQ's own never match a pattern.

        Groups' retry and dead-letter topics match only a pattern that begins with `%`, as they do.
        """
        if self.pattern is None:
            return topic in self.names
        if is_system_topic(topic) or (is_sent_to_by_rocketmq(topic) and self.pattern[0] != "%"):
            return False
        return re.fullmatch(self.pattern, topic) is not None

    def takes(self, mq: MessageQueue) -> bool:
        """Return whether a queue is one of the chosen ones."""
        choices = self.queues.get(mq.topic)
        return self.has(mq.topic) and (choices is None or any(each.has(mq) for each in choices))


class SourceOptions(Struct, frozen=True):
    """What to read, and how. `has_ending`: an end is given; `stream_only` are the given options that need a stream."""

    access: Access
    topics: TopicChoice
    starting: ReadPosition
    ending: ReadPosition
    max_trigger_delay_s: float
    group: str | None = None
    tags: frozenset[str] = frozenset()
    sql: str | None = None
    min_partitions: int = 1
    max_partitions: int | None = None
    min_offsets_per_trigger: int = 0
    max_offsets_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    fail_on_absent_broker: bool = True
    commit_group: str | None = None
    has_ending: bool = False
    stream_only: tuple[str, ...] = ()


class SinkOptions(Struct, frozen=True):
    """Where to write. Without a topic, each row's own column names it."""

    access: Access
    topic: str | None = None


class _Given:
    """Options by their names in lower case, as Spark passes them."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in known}
        for name in self._values:
            if name not in names and name not in _SPARKS:
                raise UsageError(
                    f"Unknown option {name!r} for format 'rocketmq'.",
                    hint=hint_for(name, known),
                )

    def text(self, name: str) -> str | None:
        """Return an option, or None when it is missing or empty."""
        value = self._values.get(name.lower())
        return value.strip() or None if value is not None else None

    def count(self, name: str) -> int | None:
        """Return an option that is a whole number of at least 1, or None when it is missing."""
        text = self.text(name)
        if text is None:
            return None
        if re.fullmatch(r"[0-9]{1,10}", text) is None or not 0 < int(text) <= _MAX_COUNT:
            raise UsageError(f"The option {name} must be a whole number of at least 1, not {text!r}.")
        return int(text)

    def truth(self, name: str, default: bool) -> bool:
        """Return an option that is true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise UsageError(f"The option {name} must be true or false, not {text!r}.")
        return text.lower() == "true"


def read_source_options(options: Mapping[str, str], now_ms: int) -> SourceOptions:
    """Parse the options of a source. Raises UsageError."""
    given = _Given(options, _READING)
    topics = _topics(given)
    tags, sql = given.text("tags"), given.text("sql")
    if tags is not None and sql is not None:
        raise UsageError("The option tags cannot be combined with sql: a broker filters by only one of them.")
    group = given.text("consumerGroup")
    starting = _place("startingOffsets", given.text("startingOffsets") or Bound.EARLIEST, topics, group, now_ms)
    ending = _place("endingOffsets", given.text("endingOffsets") or Bound.LATEST, topics, group, now_ms)
    if ending.bound is Bound.EARLIEST:
        raise UsageError("The option endingOffsets cannot be earliest: there are no messages before it.")
    if starting.at_ms is not None and ending.at_ms is not None and ending.at_ms < starting.at_ms:
        raise UsageError("The time of endingOffsets is before that of startingOffsets.")
    least, most = given.count("minOffsetsPerTrigger"), given.count("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise UsageError("The option minOffsetsPerTrigger is more than maxOffsetsPerTrigger.")
    delay_text = given.text("maxTriggerDelay")
    if delay_text is not None and least is None:
        raise UsageError("The option maxTriggerDelay needs minOffsetsPerTrigger.")
    with option_errors("The option maxTriggerDelay"):
        delay_ms = parse_duration_ms(delay_text or "15m")
    min_partitions, max_partitions = given.count("minPartitions") or 1, given.count("maxPartitions")
    if max_partitions is not None and min_partitions > max_partitions:
        raise UsageError("The option minPartitions is more than maxPartitions.")
    if (commit_group := given.text("commitGroup")) is not None:
        require_new_name(commit_group)
    return SourceOptions(
        access=_access(given),
        topics=topics,
        starting=starting,
        ending=ending,
        max_trigger_delay_s=delay_ms / 1000,
        group=group,
        tags=_tags(tags),
        sql=sql,
        min_partitions=min_partitions,
        max_partitions=max_partitions,
        min_offsets_per_trigger=least or 0,
        max_offsets_per_trigger=most,
        fail_on_data_loss=given.truth("failOnDataLoss", True),
        fail_on_absent_broker=given.truth("failOnAbsentBroker", True),
        commit_group=commit_group,
        has_ending=given.text("endingOffsets") is not None,
        stream_only=tuple(name for name in _OF_STREAMS if given.text(name) is not None),
    )


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a sink. Raises UsageError."""
    given = _Given(options, _WRITING)
    return SinkOptions(_access(given), given.text("topic"))


def options_of(access: Access) -> dict[str, str]:
    """Return the options with which a job's format("rocketmq") reaches the same cluster.

    A missing broker does not fail it: commands find these themselves, and name them.
    """
    made = {"nameServers": access.name_servers, "rocketmq.header": access.header, "failOnAbsentBroker": "false"}
    made["rocketmq.timeout"] = f"{round(access.timeout_s * 1000)}ms"
    if access.tls is not None:
        made["rocketmq.tls"] = "true"
        made |= {f"rocketmq.tls.{key}": value for key, value in access.tls.items()}
    if access.address_map:
        made["rocketmq.addressMap"] = ",".join(f"{name}={address}" for name, address in access.address_map.items())
    if access.given is not None:
        made |= {"rocketmq.accessKey": access.given.access_key, "rocketmq.secretKey": access.given.secret_key}
        if access.given.security_token is not None:
            made["rocketmq.securityToken"] = access.given.security_token
    elif access.credentials_path is not None:
        made["rocketmq.credentials"] = access.credentials_path
    return made


def _topics(given: _Given) -> TopicChoice:
    """Parse the one option that chooses topics."""
    chosen = {name: text for name in _CHOOSING if (text := given.text(name)) is not None}
    if len(chosen) > 1:
        raise UsageError(f"The options {' and '.join(chosen)} cannot be combined.")
    if (pattern := chosen.get("subscribePattern")) is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"The option subscribePattern is not a regular expression: {error}.") from None
        return TopicChoice(pattern=pattern)
    if (assigned := chosen.get("assign")) is not None:
        return _assigned(assigned)
    names = tuple(dict.fromkeys(name.strip() for name in chosen.get("topic", "").split(",") if name.strip()))
    if not names:
        raise UsageError(
            "The option topic is missing.",
            hint="Set it to a topic, or to several separated by commas; or use subscribePattern or assign.",
        )
    return TopicChoice(names)


def _assigned(text: str) -> TopicChoice:
    """Parse `{"Orders": ["broker-a:0", "broker-b:0-3"]}`."""
    shape = 'Use the form {"TOPIC": ["BROKER:QUEUE", "BROKER:FIRST-LAST", "BROKER"]}.'
    read = _json("assign", text, shape)
    if not read or not all(isinstance(queues, list) and queues for queues in read.values()):
        raise UsageError("The option assign must name queues for each topic.", hint=shape)
    with option_errors("The option assign", hint=shape):
        queues = {topic: tuple(parse_queue_choice(str(queue)) for queue in each) for topic, each in read.items()}
    return TopicChoice(tuple(queues), queues=queues)


def _json(name: str, text: str, shape: str) -> dict[str, Any]:
    try:
        read = json.loads(text, object_pairs_hook=partial(_once, name))
    except ValueError:
        raise UsageError(f"The option {name} is not valid JSON: {text[:60]!r}.", hint=shape) from None
    if not isinstance(read, dict):
        raise UsageError(f"The option {name} must be a JSON object, not {text[:60]!r}.", hint=shape)
    return read


def _once(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises UsageError for a key that is there twice: JSON would keep only the last one."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key in made if sum(key == other for other, _ in pairs) > 1)
        raise UsageError(f"The option {name} names {twice!r} twice.")
    return made


def _tags(text: str | None) -> frozenset[str]:
    with option_errors("The option tags"):
        return parse_tags(text or "*")


def _place(name: str, text: str, topics: TopicChoice, group: str | None, now_ms: int) -> ReadPosition:
    if text.startswith("{"):
        return ReadPosition(offsets=_numbers(name, text, topics))
    if text.lower() == Bound.GROUP:
        if group is None:
            raise UsageError(f"The option {name} is group, but the option consumerGroup is missing.")
        return ReadPosition(bound=Bound.GROUP)
    with option_errors(f"The option {name}", hint="Use a time, earliest, latest, group or JSON."):
        at = parse_time(text, now_ms)
    return ReadPosition(bound=Bound(at)) if isinstance(at, Edge) else ReadPosition(at_ms=at)


def _numbers(name: str, text: str, topics: TopicChoice) -> dict[str, dict[str, int]]:
    """Parse `{"Orders": {"broker-a:0": 17, "broker-a:1": -2}}`."""
    shape = 'Use the form {"TOPIC": {"BROKER:QUEUE": OFFSET}}, where -2 is the earliest and -1 the latest.'
    made: dict[str, dict[str, int]] = {}
    for topic, queues in _json(name, text, shape).items():
        if not topics.has(topic):
            raise UsageError(f"The option {name} has offsets of {topic}, which is not one of the topics to read.")
        if not isinstance(queues, dict):
            raise UsageError(f"The option {name} has no offsets for {topic}.", hint=shape)
        for queue, offset in queues.items():
            if re.fullmatch(r".+:\d{1,9}", queue, re.ASCII) is None:
                raise UsageError(f"The option {name} has the invalid queue {queue!r}.", hint=shape)
            if not isinstance(offset, int) or isinstance(offset, bool) or not EARLIEST <= offset < 1 << 63:
                raise UsageError(f"The option {name} has the invalid offset {offset!r} for {topic} {queue}.")
        made[topic] = queues
    return made


def _access(given: _Given) -> Access:
    name_servers = given.text("nameServers")
    if name_servers is None:
        raise UsageError("The option nameServers is missing.", hint="Set it to host:port;host:port, or to a URL.")
    access_key, secret_key = given.text("rocketmq.accessKey"), given.text("rocketmq.secretKey")
    if (access_key is None) != (secret_key is None):
        raise UsageError("The options rocketmq.accessKey and rocketmq.secretKey must be given together.")
    credentials = None
    if access_key is not None and secret_key is not None:
        credentials = Credentials(access_key, secret_key, given.text("rocketmq.securityToken"))
    tls = {key: value for key in TLS_KEYS if (value := given.text(f"rocketmq.tls.{key}")) is not None}
    if tls.get("verify", "full") not in TLS_VERIFICATIONS:
        raise UsageError(f"Invalid rocketmq.tls.verify {tls['verify']!r}.", hint=one_of(TLS_VERIFICATIONS))
    header = (given.text("rocketmq.header") or "JSON").upper()
    if header not in HeaderEncoding.__members__:
        raise UsageError(f"The option rocketmq.header must be JSON or ROCKETMQ, not {header!r}.")
    with option_errors("The option rocketmq.timeout"):
        timeout_ms = parse_duration_ms(given.text("rocketmq.timeout") or "30s")
    return Access(
        name_servers,
        timeout_ms / 1000,
        credentials_path=given.text("rocketmq.credentials"),
        tls=tls if tls or given.truth("rocketmq.tls", False) else None,
        address_map=_address_map(given.text("rocketmq.addressMap")),
        header=header,
        given=credentials,
    )


def _address_map(text: str | None) -> dict[str, str]:
    """Parse `broker-a=host:port,broker-b=host:port`."""
    made = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, separator, address = part.strip().partition("=")
        if not separator or not name:
            raise UsageError(f"The option rocketmq.addressMap expects BROKER=HOST:PORT, not {part.strip()!r}.")
        parse_address(address)
        made[name] = address
    return made
