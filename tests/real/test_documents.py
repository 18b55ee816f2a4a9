"""What every command prints as JSON of a real cluster, held against the shipped schemas."""

from __future__ import annotations

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl


def test_every_document_is_as_its_schema_says(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Documents", queue_count=2)
    cluster.java.consume("reader", "DocumentsGroup", "Documents", expr="TagA || TagB")
    cluster.java.produce("Documents", 8, tag="TagA")
    cluster.java.wait_consumed("reader", 8)
    words = {
        "OffsetList": "offset show DocumentsGroup",
        "GroupList": "group list --system",
        "GroupDetails": "group describe DocumentsGroup TOOLS_CONSUMER",
        "MemberList": "group members DocumentsGroup",
        "SubscriptionList": "group subscriptions DocumentsGroup",
        "GroupConfigList": "group config DocumentsGroup",
        "BrokerList": "cluster list",
        "TopicList": "topic list --system --with-stats",
        "TopicRoute": "topic route Documents",
        "TopicStatus": "topic status Documents",
        "ProducerList": "topic producers Documents --system",
        "Broker": "broker show broker-a --config --runtime",
        "MessageList": "message find Documents",
        "Doctor": "doctor",
    }
    for kind, line in words.items():
        result = rmqctl(*line.split(), "-o", "json")
        assert result.exit_code == 0, (line, result.stderr)
        document = result.document
        assert (document["kind"], bool(document["items"])) == (kind, True), line
    cluster.java.stop("reader")
    for line in ("group describe DocumentsGroup", "group members DocumentsGroup", "offset show DocumentsGroup"):
        assert rmqctl(*line.split(), "-o", "json").document["errors"] == []


def test_a_member_and_its_subscription_in_the_clients_own_words(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Worded", queue_count=2)
    cluster.java.consume("worded", "WordedGroup", "Worded", expr="TagB||TagA")
    cluster.java.produce("Worded", 4, tag="TagA")
    cluster.java.wait_consumed("worded", 4)
    cluster.java.persist("worded")
    (member,) = rmqctl.items("group", "members", "WordedGroup")
    (subscription,) = rmqctl.items("group", "subscriptions", "WordedGroup")
    (details,) = rmqctl.items("group", "describe", "WordedGroup")
    configs = rmqctl.items("group", "config", "WordedGroup")
    cluster.java.stop("worded")

    too_old = {"consumeMessageOrderly", "consumeTimeoutMinute"} if cluster.version == "4.9.7" else set()
    assert [set(config["reasons"]) for config in configs] == [too_old, too_old]
    # Beside those of its retry topic, where brokers have it already.
    own = [queue for queue in member["queues"] if queue.startswith("Worded@")]
    assert own == ["Worded@broker-a:0", "Worded@broker-a:1", "Worded@broker-b:0", "Worded@broker-b:1"]
    assert (member["queueCount"], member["unseenAt"], member["isIdShared"]) == (len(member["queues"]), [], False)
    assert (member["strategy"], member["isOrderly"], member["clientVersion"]) == ("averagely", False, cluster.version)
    assert (subscription["subString"], subscription["tagsSet"]) == ("TagB||TagA", ["TagA", "TagB"])
    assert (subscription["agrees"], subscription["brokerNames"]) == (True, ["broker-a", "broker-b"])
    # What may be a rebalance is not confirmed: this member has started the moment before.
    confirmed = [finding["sentence"] for finding in details["findings"] if finding["isConfirmed"]]
    assert (confirmed, details["lag"], details["deadLetterCount"]) == ([], 0, 0)
    assert {topic["topic"]: topic["ownedQueueCount"] for topic in details["topics"]}["Worded"] == 4
