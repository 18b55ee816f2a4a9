from __future__ import annotations

from itertools import product

import pytest

from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.source.options import Bound, ReadPosition, TopicChoice, read_sink_options, read_source_options

_NOW_MS = 1_795_000_000_000
_TOPICS = (
    "Orders", "Orders-eu", "MyOrders", "%DLQ%billing", "%RETRY%billing", "RMQ_SYS_TRACE_TOPIC", "SCHEDULE_TOPIC_XXXX",
)  # fmt: skip
_NEEDED = {"nameServers": "127.0.0.1:9876", "topic": "Orders"}


def _read(**more: str):  # type: ignore[no-untyped-def]
    # Spark hands names over in lower case.
    given = {**_NEEDED, **{name.replace("__", "."): value for name, value in more.items()}}
    return read_source_options({name.lower(): value for name, value in given.items()}, _NOW_MS)


def test_what_is_not_given_is_all_there_is() -> None:
    options = _read()
    assert (options.topics, options.starting, options.ending) == (
        TopicChoice(("Orders",)), ReadPosition(bound=Bound.EARLIEST), ReadPosition(bound=Bound.LATEST),
    )  # fmt: skip
    assert (options.tags, options.sql, options.group, options.fail_on_data_loss) == (frozenset(), None, None, True)
    assert (options.min_partitions, options.max_partitions, options.max_offsets_per_trigger) == (1, None, None)
    assert (options.access.name_servers, options.access.timeout_s, options.access.tls) == ("127.0.0.1:9876", 30.0, None)


def test_everything_can_be_given() -> None:
    options = _read(
        topic=" Orders, %RETRY%billing ,Orders", consumerGroup="billing", startingOffsets="group", endingOffsets="2h",
        tags="A || B", minPartitions="3", maxPartitions="5", minOffsetsPerTrigger="10", maxOffsetsPerTrigger="1000",
        maxTriggerDelay="90s", failOnDataLoss="False",
        rocketmq__accessKey="operator", rocketmq__secretKey="s3cret", rocketmq__tls="true",
        rocketmq__tls__ca="/etc/ca.pem", rocketmq__addressMap="broker-a=127.0.0.1:1,broker-b/1=127.0.0.1:2",
        rocketmq__header="rocketmq", rocketmq__timeout="5s",
    )  # fmt: skip
    assert options.topics.names == ("Orders", "%RETRY%billing")
    assert (options.starting, options.ending) == (
        ReadPosition(bound=Bound.GROUP),
        ReadPosition(at_ms=_NOW_MS - 7_200_000),
    )
    assert (options.group, options.tags) == ("billing", frozenset("AB"))
    assert (options.min_partitions, options.max_partitions, options.max_offsets_per_trigger) == (3, 5, 1000)
    assert (options.min_offsets_per_trigger, options.max_trigger_delay_s) == (10, 90.0)
    assert not options.fail_on_data_loss
    access = options.access
    assert (access.header, access.timeout_s, access.tls) == ("ROCKETMQ", 5.0, {"ca": "/etc/ca.pem"})
    assert access.address_map == {"broker-a": "127.0.0.1:1", "broker-b/1": "127.0.0.1:2"}
    credentials = access.credentials()
    assert credentials is not None
    assert (credentials.access_key, credentials.secret_key) == ("operator", "s3cret")
    assert "s3cret" not in repr(options)


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("Orders.*", "Orders Orders-eu"),
        (".*", "Orders Orders-eu MyOrders"),
        ("%DLQ%.*", "%DLQ%billing"),
        ("%.*|Orders", "Orders %DLQ%billing %RETRY%billing"),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, topics: str) -> None:
    choice = read_source_options({"nameservers": "h:1", "subscribepattern": pattern}, _NOW_MS).topics
    assert [topic for topic in _TOPICS if choice.has(topic)] == topics.split()


def test_queues_can_be_assigned() -> None:
    given = '{"Orders": ["broker-a:0", "broker-b:1-2"], "Bills": ["broker-a"]}'
    choice = read_source_options({"nameservers": "h:1", "assign": given}, _NOW_MS).topics
    assert choice.names == ("Orders", "Bills")
    every = [MessageQueue(*each) for each in product(("Orders", "Bills", "Other"), ("broker-a", "broker-b"), range(3))]
    assert " ".join(str(mq) for mq in every if choice.takes(mq)) == (
        "Orders@broker-a:0 Orders@broker-b:1 Orders@broker-b:2 Bills@broker-a:0 Bills@broker-a:1 Bills@broker-a:2"
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", ReadPosition(bound=Bound.EARLIEST)),
        ("LATEST", ReadPosition(bound=Bound.LATEST)),
        ("2026-11-21T10:00Z", ReadPosition(at_ms=1_795_255_200_000)),
        ("1795255200000", ReadPosition(at_ms=1_795_255_200_000)),
        ('{"Orders": {"broker-a:0": 7, "b:1": -2}}', ReadPosition(offsets={"Orders": {"broker-a:0": 7, "b:1": -2}})),
        ("{}", ReadPosition(offsets={})),
    ],
)  # fmt: skip
def test_places(text: str, place: ReadPosition) -> None:
    assert _read(startingOffsets=text).starting == place


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"topic": " , "}, "The option topic is missing"),
        ({"nameServers": ""}, "The option nameServers is missing."),
        ({"subscribePattern": ".*"}, "The options topic and subscribePattern cannot be combined."),
        ({"topic": "", "subscribePattern": "("}, "The option subscribePattern is not a regular expression: missing )"),
        ({"topic": "", "assign": "{"}, "The option assign is not valid JSON"),
        ({"topic": "", "assign": "[]"}, "The option assign must be a JSON object"),
        ({"topic": "", "assign": '{"Orders": []}'}, "The option assign must name queues for each topic."),
        ({"topic": "", "assign": '{"T": ["a:0"], "T": ["b:0"]}'}, "The option assign names 'T' twice."),
        ({"topic": "", "assign": '{"Orders": ["a:b"]}'}, "The option assign: invalid queue 'a:b'"),
        ({"startingOffset": "earliest"}, "Unknown option 'startingoffset'"),
        ({"startingOffsets": "yesterday"}, "The option startingOffsets: invalid time 'yesterday'"),
        ({"startingOffsets": "group"}, "The option startingOffsets is group, but the option consumerGroup"),
        ({"startingOffsets": "{broken"}, "The option startingOffsets is not valid JSON"),
        ({"startingOffsets": '{"Other": {}}'}, "The option startingOffsets has offsets of Other"),
        ({"startingOffsets": '{"Orders": 3}'}, "The option startingOffsets has no offsets for Orders"),
        ({"startingOffsets": '{"Orders": {"0": 3}}'}, "The option startingOffsets has the invalid queue '0'"),
        ({"startingOffsets": '{"Orders": {"a:0": -3}}'}, "The option startingOffsets has the invalid offset -3"),
        ({"startingOffsets": '{"Orders": {"a:0": true}}'}, "The option startingOffsets has the invalid offset True"),
        ({"startingOffsets": '{"Orders": {"a:0": 1.5}}'}, "The option startingOffsets has the invalid offset 1.5"),
        ({"endingOffsets": "earliest"}, "The option endingOffsets cannot be earliest"),
        ({"startingOffsets": "1h", "endingOffsets": "2h"}, "The time of endingOffsets is before that of starting"),
        ({"tags": "A", "sql": "a = 1"}, "The option tags cannot be combined with sql"),
        ({"tags": "||"}, "The option tags: expression '||' contains no tag"),
        ({"minPartitions": "0"}, "The option minPartitions must be a whole number of at least 1, not '0'"),
        ({"maxPartitions": "-1"}, "The option maxPartitions must be a whole number of at least 1, not '-1'"),
        ({"minPartitions": "9", "maxPartitions": "8"}, "The option minPartitions is more than maxPartitions."),
        ({"maxOffsetsPerTrigger": "many"}, "The option maxOffsetsPerTrigger must be a whole number"),
        ({"maxOffsetsPerTrigger": "٣"}, "The option maxOffsetsPerTrigger must be a whole number"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "The option minOffsetsPerTrigger is more than"),
        ({"maxTriggerDelay": "9s"}, "The option maxTriggerDelay needs minOffsetsPerTrigger."),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"}, "The option maxTriggerDelay: invalid duration"),
        ({"commitGroup": "a b"}, "Invalid group"),
        ({"commitGroup": "CID_RMQ_SYS_TRANS"}, "CID_RMQ_SYS_TRANS"),
        ({"failOnDataLoss": "no"}, "The option failOnDataLoss must be true or false, not 'no'."),
        ({"failOnAbsentBroker": "no"}, "The option failOnAbsentBroker must be true or false, not 'no'."),
        ({"rocketmq__accessKey": "operator"}, "The options rocketmq.accessKey and rocketmq.secretKey"),
        ({"rocketmq__tls__verify": "never"}, "Invalid rocketmq.tls.verify 'never'"),
        ({"rocketmq__header": "XML"}, "The option rocketmq.header must be JSON or ROCKETMQ, not 'XML'."),
        ({"rocketmq__timeout": "soon"}, "The option rocketmq.timeout: invalid duration 'soon'"),
        ({"rocketmq__addressMap": "broker-a"}, "The option rocketmq.addressMap expects BROKER=HOST:PORT"),
        ({"rocketmq__addressMap": "broker-a=nowhere"}, "Invalid address 'nowhere'."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(more: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        _read(**more)
    assert raised.value.sentence.startswith(sentence)


def test_a_sink_takes_a_topic_or_leaves_it_to_the_rows() -> None:
    assert read_sink_options({"nameservers": "h:1", "topic": "Out"}).topic == "Out"
    assert read_sink_options({"nameservers": "h:1"}).topic is None
    # What Spark itself adds is no option of ours.
    assert read_sink_options({"nameservers": "h:1", "path": "x", "checkpointLocation": "/tmp/c"}).topic is None
    with pytest.raises(UsageError, match="Unknown option 'startingoffsets'"):
        read_sink_options({"nameservers": "h:1", "startingoffsets": "latest"})
