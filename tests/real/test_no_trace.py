"""No read leaves a trace: what brokers and the name server hold is the same before and after."""

from __future__ import annotations

from .harness.cluster import Cluster
from .harness.held import held, held_when_quiet
from .harness.rmqctl import Rmqctl


def test_reading_messages_moves_and_creates_nothing(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("OnlyLookedAt", queue_count=1)
    unique_key, offset_id = cluster.java.produce("OnlyLookedAt", 8, keys="k").split("\t")
    cluster.java.consume("reader", "ReaderGroup", "OnlyLookedAt")
    cluster.java.wait_consumed("reader", 8)
    cluster.java.stop("reader")
    before = held_when_quiet(cluster.namesrv, ["ReaderGroup"])

    assert rmqctl("message", "get", offset_id).exit_code == 0
    assert rmqctl("message", "get", unique_key, "--topic", "TypoTopic").exit_code == 5
    assert rmqctl("message", "find", "OnlyLookedAt").exit_code == 0
    assert rmqctl("message", "find", "TypoTopic").exit_code == 5
    assert rmqctl("message", "find", "OnlyLookedAt", "--key", "k7").exit_code == 0
    assert rmqctl("message", "find", "OnlyLookedAt", "--tag", "TypoTag").exit_code == 0
    assert rmqctl("message", "find", "OnlyLookedAt", "--sql", "typo > 3").exit_code == 0
    assert rmqctl("message", "find", "OnlyLookedAt", "--sql", "typo >").exit_code == 2
    assert rmqctl("message", "tail", "OnlyLookedAt", "--from", "earliest", "--count", "3").exit_code == 0
    assert rmqctl("message", "trace", unique_key).exit_code == 5
    assert rmqctl("offset", "peek", "ReaderGroup", "--topic", "OnlyLookedAt").exit_code == 0
    assert rmqctl("offset", "peek", "TypoGroup", "--topic", "OnlyLookedAt").exit_code == 5

    assert held(cluster.namesrv, ["ReaderGroup"]) == before


def test_reading_what_does_not_exist_creates_nothing(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Untouched")
    cluster.java.produce("Untouched", 8)
    cluster.create_topic("Elsewhere")
    cluster.java.produce("Elsewhere", 8)
    cluster.java.consume("there", "ElsewhereGroup", "Elsewhere")
    cluster.java.wait_consumed("there", 8)
    cluster.java.stop("there")
    before = held_when_quiet(cluster.namesrv, ["ElsewhereGroup"])

    assert rmqctl("offset", "show", "TypoGroup").exit_code == 5
    assert rmqctl("offset", "show", "TypoGroup", "--topic", "Untouched").exit_code == 5
    assert rmqctl("offset", "show", "TypoGroup", "--topic", "TypoTopic").exit_code == 5
    # A group that has nothing in this topic: offsets, ages and retention are asked about all the same.
    assert rmqctl("offset", "show", "ElsewhereGroup", "--topic", "Untouched").exit_code == 0
    assert rmqctl("offset", "show", "ElsewhereGroup").exit_code == 0
    assert rmqctl("group", "list").exit_code == 0
    assert rmqctl("cluster", "list").exit_code == 0
    assert rmqctl("whatif", "allocate", "TypoGroup").exit_code == 5
    assert rmqctl("whatif", "allocate", "ElsewhereGroup").exit_code == 5
    assert rmqctl("whatif", "allocate", "ElsewhereGroup", "--topic", "TypoTopic").exit_code == 5
    # What is new to the group is thought of only.
    changes = ("--add-clients", "2", "--add-brokers", "1", "--queues", "+2")
    assert rmqctl("whatif", "allocate", "ElsewhereGroup", *changes).exit_code == 0
    assert rmqctl("whatif", "readonly", "--broker", "broker-a").exit_code == 0
    assert rmqctl("clean-expired", "TypoGroup", "--for", "1s").exit_code == 5
    assert rmqctl("clean-expired", "ElsewhereGroup", "--for", "1s").exit_code == 0
    assert rmqctl("diagnose", "TypoGroup").exit_code == 5
    assert rmqctl("diagnose", "ElsewhereGroup", "--settle", "0s").exit_code == 0
    assert rmqctl("diagnose", "--all", "--settle", "0s", "--for", "0s").exit_code == 0
    assert rmqctl("dlq", "list", "*").exit_code == 0
    for words in (("show",), ("stats",), ("export", "--to", "-"), ("show", "--fix-permission", "--dry-run")):
        assert rmqctl("dlq", words[0], "TypoGroup", *words[1:]).exit_code == 5
    for words in (("show",), ("stats",), ("export", "--to", "-")):
        assert rmqctl("dlq", words[0], "ElsewhereGroup", *words[1:]).exit_code == 0

    assert held(cluster.namesrv, ["ElsewhereGroup"]) == before
