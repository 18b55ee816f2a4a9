"""`message get` beside mqadmin's queries, topics on one broker and on two."""

from __future__ import annotations

import base64
import gzip
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .harness.cluster import Cluster
from .harness.conditions import wait_until
from .harness.jars import rocketmq_jars
from .harness.process import QUICK_START
from .harness.rmqctl import Rmqctl

_PLUGIN = Path(__file__).parent.parent.parent / "plugins" / "gzip_json.py"


class Sent(NamedTuple):
    """The last message of a topic, by both its ids."""

    topic: str
    unique_key: str
    offset_id: str


@pytest.fixture(scope="session", params=[("broker-a",), ("broker-a", "broker-b")], ids=["one broker", "two brokers"])
def sent(cluster: Cluster, request: pytest.FixtureRequest) -> Sent:
    """Send 40 messages with keys, two for each key."""
    topic = f"Got{len(request.param)}"
    cluster.create_topic(topic, queue_count=2, brokers=request.param)
    cluster.java.produce(topic, 20, tag="TagA", keys="k")
    unique_key, offset_id = cluster.java.produce(topic, 20, tag="TagB", keys="k", prefix="second").split("\t")
    wait_indexed(cluster, topic, "k19", 2)
    return Sent(topic, unique_key, offset_id)


def wait_indexed(cluster: Cluster, topic: str, key: str, count: int) -> None:
    """Wait until the brokers' index has so many messages with a key: it is written after the log."""
    give_up_at = time.monotonic() + 60
    rmqctl = Rmqctl(cluster.namesrv)
    while True:
        result = rmqctl("message", "get", "--topic", topic, "--key", key, "-o", "json")
        if result.exit_code == 0 and len(result.document["items"]) >= count:
            return
        assert time.monotonic() < give_up_at, result.stderr
        time.sleep(0.1)


def _told(printed: str) -> dict[str, str]:
    """Read the lines of name and value that mqadmin prints of a message."""
    told = dict(re.findall(r"^([A-Z][A-Za-z ]+?):\s+(\S.*?)\s*$", printed, re.MULTILINE))
    assert "Topic" in told, printed
    return told


def _mqadmin_process(cluster: Cluster, *args: str) -> str:
    """Run mqadmin in a JVM of its own: this command keeps a client that it has shut down, and answers nothing twice."""
    folder = cluster.folder
    home = [f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}", f"-Drocketmq.namesrv.addr={cluster.namesrv}"]
    classpath = f"{rocketmq_jars(cluster.version)}/*"
    return subprocess.run(
        ["java", *home, *QUICK_START, "-cp", classpath, "org.apache.rocketmq.tools.command.MQAdminStartup", *args],
        env={**os.environ, "ROCKETMQ_HOME": str(folder)}, capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip


def _same(item: dict[str, Any], told: dict[str, str]) -> None:
    assert told["Topic"] == item["topic"]
    assert told["Tags"] == f"[{item['tags']}]"
    assert told["Keys"] == f"[{' '.join(item['keys'])}]"
    assert int(told["Queue ID"]) == item["queueId"]
    assert int(told["Queue Offset"]) == item["queueOffset"]
    assert int(told["CommitLog Offset"]) == item["commitLogOffset"]
    assert int(told["Reconsume Times"]) == item["reconsumeTimes"]
    assert told["Born Host"] == item["bornHost"]
    assert told["Store Host"] == item["storeHost"]
    assert int(told["System Flag"]) == item["sysFlag"]
    properties = dict(pair.split("=", 1) for pair in told["Properties"].strip("{}").split(", "))
    # The client adds these two when it pulls.
    assert {key: value for key, value in properties.items() if key not in ("MIN_OFFSET", "MAX_OFFSET")} == item[
        "properties"
    ]


def test_a_unique_key_gives_what_mqadmin_gives(cluster: Cluster, rmqctl: Rmqctl, sent: Sent) -> None:
    told = _told(_mqadmin_process(cluster, "queryMsgByUniqueKey", "-t", sent.topic, "-i", sent.unique_key))
    (item,) = rmqctl.items("message", "get", sent.unique_key, "--topic", sent.topic)

    _same(item, told)
    assert (item["msgId"], item["offsetMsgId"]) == (sent.unique_key, sent.offset_id)
    assert (item["body"], item["bodySize"], item["bodyCrcOk"]) == ("second19", 8, True)


def test_a_brokers_id_gives_what_mqadmin_gives(cluster: Cluster, rmqctl: Rmqctl, sent: Sent) -> None:
    topic = () if cluster.version == "4.9.7" else ("-t", sent.topic)
    told = _told(cluster.java.mqadmin("queryMsgById", "-i", sent.offset_id, *topic))
    (item,) = rmqctl.items("message", "get", sent.offset_id)

    _same(item, told)
    assert item["msgId"] == sent.unique_key


def test_a_place_gives_what_mqadmin_gives(cluster: Cluster, rmqctl: Rmqctl, sent: Sent) -> None:
    told = _told(cluster.java.mqadmin("queryMsgByOffset", "-t", sent.topic, "-b", "broker-a", "-i", "1", "-o", "2"))
    words = ("message", "get", "--topic", sent.topic, "--queue", "broker-a:1", "--offset", "2")
    (item,) = rmqctl.items(*words)

    _same(item, told)
    assert [item["queueOffset"] for item in rmqctl.items(*words, "--count", "3")] == [2, 3, 4]


def test_a_key_gives_what_mqadmin_gives(cluster: Cluster, rmqctl: Rmqctl, sent: Sent) -> None:
    printed = cluster.java.mqadmin("queryMsgByKey", "-t", sent.topic, "-k", "k7")
    told = set(re.findall(r"^([0-9A-F]{32,56})\s+(\d+)\s+(\d+)", printed, re.MULTILINE))
    items = rmqctl.items("message", "get", "--topic", sent.topic, "--key", "k7")

    assert {(item["msgId"], str(item["queueId"]), str(item["queueOffset"])) for item in items} == told
    assert [item["body"] for item in items] == ["m7", "second7"]
    found = rmqctl.items("message", "find", sent.topic, "--key", "k7")
    assert [item["offsetMsgId"] for item in found] == [item["offsetMsgId"] for item in items]


def test_what_is_not_there_is_said(cluster: Cluster, rmqctl: Rmqctl, sent: Sent) -> None:
    gone = f"{sent.offset_id[:-8]}{int(sent.offset_id[-8:], 16) + 7:08X}"  # the middle of a message

    assert rmqctl("message", "get", gone).exit_code == 5
    assert rmqctl("message", "get", f"{sent.offset_id[:-8]}7FFFFFFF").exit_code == 5
    assert rmqctl("message", "get", sent.unique_key).exit_code == 2
    assert rmqctl("message", "get", sent.unique_key[:-1] + "_", "--topic", sent.topic).exit_code == 2
    far = "0A0000010000" + sent.offset_id[12:]  # a broker that is none of this cluster's is never called
    result = rmqctl("message", "get", far, "--topic", sent.topic)
    assert result.exit_code == 5
    assert result.seconds < 3
    result = rmqctl("message", "get", "--topic", sent.topic, "--queue", "broker-a:0", "--offset", "1000")
    assert (result.exit_code, "Use an offset from 0 to " in result.stderr) == (5, True)
    both = rmqctl("message", "get", sent.offset_id, gone, "-o", "json")
    assert (both.exit_code, len(both.document["items"]), len(both.document["errors"])) == (8, 1, 1)


def test_bodies_are_shown_as_what_they_are(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Bodies", queue_count=1, brokers=("broker-a",))
    bodies = {
        "json": b'{"order":17,"price":1.10,"to":"M\xc3\xbcnchen"}',
        "binary": bytes(range(256)),
        "evil": b"\x1b[2J\x1b]0;title\x07",
        "gzip": gzip.compress(b'{"zipped":true}'),
        "large": b"x" * 100_000,
    }
    for key, body in bodies.items():
        cluster.java.produce("Bodies", 1, key=key, body64=base64.b64encode(body).decode(), queue="broker-a:0")
    wait_indexed(cluster, "Bodies", "large", 1)

    def get(key: str, *more: str) -> str:
        result = rmqctl("message", "get", "--topic", "Bodies", "--key", key, *more)
        assert result.exit_code == 0, result.stderr
        assert "\x1b" not in result.stdout
        return result.stdout

    assert '  "price": 1.10,\n' in get("json")
    assert "\n00000010  10 11 12" in get("binary")
    assert "\n00000000  1b 5b 32 4a" in get("evil")
    assert "\n\\x1b[2J\\x1b]0;title\\x07\n" in get("evil", "--body", "text")
    assert '"zipped": true' in get("gzip", "--plugin", str(_PLUGIN), "--codec", "gzip-json")
    (item,) = rmqctl.items("message", "get", "--topic", "Bodies", "--key", "binary")
    assert (item["body"], base64.b64decode(item["bodyBase64"])) == (None, bodies["binary"])
    assert item["reasons"]["body"] == "NOT_UTF8"
    (item,) = rmqctl.items("message", "get", "--topic", "Bodies", "--key", "large", "--max-body", "10")
    assert (item["body"], item["bodySize"], item["bodyTruncated"]) == ("x" * 10, 100_000, True)
    assert item["sysFlag"] & 1  # Java compressed it


def test_the_groups_that_have_passed_a_message_are_those_of_mqadmin(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Passed", queue_count=1, brokers=("broker-a",))
    java = cluster.java
    for group, options in (
        ("PassedAll", {}), ("PassedStuck", {"stuck": "m"}), ("PassedOthers", {"expr": "TagB"}),
        ("PassedEach", {"broadcast": 1}),
    ):  # fmt: skip
        java.consume(group, group, "Passed", **options)
    _, offset_id = java.produce("Passed", 2, tag="TagA").split("\t")
    java.wait_consumed("PassedAll", 2)
    java.wait_started("PassedStuck", 2)

    def verdicts(message_id: str = offset_id) -> dict[str, str]:
        java.persist("PassedAll")
        (item,) = rmqctl.items("message", "get", message_id, "--topic", "Passed", "--consumed-by")
        return {each["group"]: each["verdict"] or each["reasons"]["verdict"] for each in item["consumedBy"]}

    expected = {
        "PassedAll": "PASSED",
        "PassedStuck": "NOT_YET",
        "PassedOthers": "FILTERED",
        "PassedEach": "BROADCASTING",
    }
    # Clients commit what their filter leaves out within 5 s.
    wait_until(lambda: verdicts() == expected, why=verdicts)
    topic = () if cluster.version == "4.9.7" else ("-t", "Passed")
    printed = java.mqadmin("queryMsgById", "-i", offset_id, *topic)
    told = dict(re.findall(r"consumerGroup=(\w+), trackType=(\w+)", printed))
    java.release("PassedStuck")
    for group in expected:
        java.stop(group)
    same = {"PASSED": "CONSUMED", "NOT_YET": "NOT_CONSUME_YET", "FILTERED": "CONSUMED_BUT_FILTERED"}
    # mqadmin looks for the members of a group by its retry topic, which a broadcasting group does not have on 4.9.
    assert told.pop("PassedEach") in ("CONSUME_BROADCASTING", "NOT_ONLINE")
    assert told == {group: same[verdict] for group, verdict in expected.items() if verdict in same}
