from __future__ import annotations

import pytest

from rmqctl.errors import UsageError
from rmqctl.pipeline.options import Bound, Place, read_sink_options, read_source_options

_NOW_MS = 1_795_000_000_000
_NEEDED = {"nameServers": "127.0.0.1:9876", "topic": "Orders"}


def _read(**more: str):  # type: ignore[no-untyped-def]
    # Spark hands names over in lower case.
    given = {**_NEEDED, **{name.replace("__", "."): value for name, value in more.items()}}
    return read_source_options({name.lower(): value for name, value in given.items()}, _NOW_MS)


def test_what_is_not_given_is_all_there_is() -> None:
    options = _read()
    assert (options.topics, options.starting, options.ending) == (
        ("Orders",), Place(bound=Bound.EARLIEST), Place(bound=Bound.LATEST),
    )  # fmt: skip
    assert (options.tags, options.sql, options.group, options.fail_on_data_loss) == (frozenset(), None, None, True)
    assert (options.min_partitions, options.max_partitions, options.max_offsets_per_trigger) == (1, None, None)
    assert (options.access.name_servers, options.access.timeout_s, options.access.tls) == ("127.0.0.1:9876", 30.0, None)


def test_everything_can_be_given() -> None:
    options = _read(
        topic=" Orders, %RETRY%billing ,Orders", consumerGroup="billing", startingOffsets="group", endingOffsets="2h",
        tags="A || B", minPartitions="3", maxPartitions="5", maxOffsetsPerTrigger="1000", failOnDataLoss="False",
        rocketmq__accessKey="operator", rocketmq__secretKey="s3cret", rocketmq__tls="true",
        rocketmq__tls__ca="/etc/ca.pem", rocketmq__addressMap="broker-a=127.0.0.1:1,broker-b/1=127.0.0.1:2",
        rocketmq__header="rocketmq", rocketmq__timeout="5s",
    )  # fmt: skip
    assert options.topics == ("Orders", "%RETRY%billing")
    assert (options.starting, options.ending) == (Place(bound=Bound.GROUP), Place(at_ms=_NOW_MS - 7_200_000))
    assert (options.group, options.tags) == ("billing", frozenset("AB"))
    assert (options.min_partitions, options.max_partitions, options.max_offsets_per_trigger) == (3, 5, 1000)
    assert not options.fail_on_data_loss
    access = options.access
    assert (access.header, access.timeout_s, access.tls) == ("ROCKETMQ", 5.0, {"ca": "/etc/ca.pem"})
    assert access.address_map == {"broker-a": "127.0.0.1:1", "broker-b/1": "127.0.0.1:2"}
    credentials = access.credentials()
    assert credentials is not None
    assert (credentials.access_key, credentials.secret_key) == ("operator", "s3cret")
    assert "s3cret" not in repr(options)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Place(bound=Bound.EARLIEST)),
        ("LATEST", Place(bound=Bound.LATEST)),
        ("2026-11-21T10:00Z", Place(at_ms=1_795_255_200_000)),
        ("1795255200000", Place(at_ms=1_795_255_200_000)),
        ('{"Orders": {"broker-a:0": 7, "b:1": -2}}', Place(offsets={"Orders": {"broker-a:0": 7, "b:1": -2}})),
        ("{}", Place(offsets={})),
    ],
)  # fmt: skip
def test_places(text: str, place: Place) -> None:
    assert _read(startingOffsets=text).starting == place


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"topic": " , "}, "The option topic is missing"),
        ({"nameServers": ""}, "The option nameServers is missing."),
        ({"startingOffset": "earliest"}, "'startingoffset' is no option of format 'rocketmq'."),
        ({"startingOffsets": "yesterday"}, "The option startingOffsets: 'yesterday' is no"),
        ({"startingOffsets": "group"}, "startingOffsets is group: the option consumerGroup must say which."),
        ({"startingOffsets": "{broken"}, "The option startingOffsets is no JSON"),
        ({"startingOffsets": '{"Other": {}}'}, "The option startingOffsets has offsets of Other, which is not among"),
        ({"startingOffsets": '{"Orders": 3}'}, "The option startingOffsets has no offsets under Orders."),
        ({"startingOffsets": '{"Orders": {"0": 3}}'}, "The option startingOffsets has '0', which is no queue."),
        ({"startingOffsets": '{"Orders": {"a:0": -3}}'}, "The option startingOffsets: -3 is no offset of Orders a:0."),
        ({"startingOffsets": '{"Orders": {"a:0": true}}'}, "The option startingOffsets: True is no offset of"),
        ({"startingOffsets": '{"Orders": {"a:0": 1.5}}'}, "The option startingOffsets: 1.5 is no offset of"),
        ({"endingOffsets": "earliest"}, "The option endingOffsets can't be earliest"),
        ({"startingOffsets": "1h", "endingOffsets": "2h"}, "The time of endingOffsets is before that of starting"),
        ({"tags": "A", "sql": "a = 1"}, "The options tags and sql exclude each other"),
        ({"tags": "||"}, "The option tags: '||' names no tag"),
        ({"minPartitions": "0"}, "The option minPartitions must be a whole number from 1 on, not '0'."),
        ({"maxPartitions": "-1"}, "The option maxPartitions must be a whole number from 1 on, not '-1'."),
        ({"maxOffsetsPerTrigger": "many"}, "The option maxOffsetsPerTrigger must be a whole number"),
        ({"maxOffsetsPerTrigger": "٣"}, "The option maxOffsetsPerTrigger must be a whole number"),
        ({"failOnDataLoss": "no"}, "The option failOnDataLoss must be true or false, not 'no'."),
        ({"rocketmq__accessKey": "operator"}, "The options rocketmq.accessKey and rocketmq.secretKey belong together"),
        ({"rocketmq__tls__verify": "never"}, "'never' is no way to verify certificates."),
        ({"rocketmq__header": "XML"}, "The option rocketmq.header must be JSON or ROCKETMQ, not 'XML'."),
        ({"rocketmq__timeout": "soon"}, "The option rocketmq.timeout: 'soon' is no duration"),
        ({"rocketmq__addressMap": "broker-a"}, "The option rocketmq.addressMap: 'broker-a' is no BROKER=HOST:PORT."),
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
    with pytest.raises(UsageError, match="'startingoffsets' is no option"):
        read_sink_options({"nameservers": "h:1", "startingoffsets": "latest"})
