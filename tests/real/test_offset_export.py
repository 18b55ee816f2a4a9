"""`offset export` against real brokers: what it writes is what they store, and reads back."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.changes.offsets.files import parse_offsets
from rmqctl.changes.offsets.given_offsets import resolve_brokers

from .harness.cluster import Cluster
from .harness.mqadmin import consumer_progress
from .harness.rmqctl import Rmqctl


@pytest.fixture(scope="session")
def exported_group(cluster: Cluster) -> str:
    """A group whose consumer has read a topic on two brokers and one on broker-a, and has gone."""
    cluster.create_topic("Exported")
    cluster.create_topic("ExportedAlone", queue_count=2, brokers=("broker-a",))
    for name, topic, count in (("exported", "Exported", 80), ("exported-alone", "ExportedAlone", 10)):
        cluster.java.produce(topic, count)
        cluster.java.consume(name, "ExportGroup", topic)
        cluster.java.wait_consumed(name, count)
        cluster.java.stop(name)
        cluster.java.produce(topic, 3)
    return "ExportGroup"


def test_an_export_is_what_mqadmin_and_offset_show_tell(cluster: Cluster, rmqctl: Rmqctl, exported_group: str) -> None:
    document = rmqctl("offset", "export", exported_group, "-o", "json").document
    expected = consumer_progress(cluster.java.mqadmin("consumerProgress", "-g", exported_group))
    shown = rmqctl.items("offset", "show", exported_group)

    keys = ("topic", "brokerName", "queueId", "minOffset", "maxOffset", "consumerOffset")
    assert document["group"] == exported_group
    assert [[item[key] for key in keys] for item in document["items"]] == [
        [item[key] for key in keys] for item in shown
    ]
    stored = {
        (item["topic"], item["brokerName"], item["queueId"], item["maxOffset"], item["consumerOffset"])
        for item in document["items"]
        if item["topic"].startswith("Exported")
    }
    assert stored == {row[:5] for row in expected if row.topic.startswith("Exported")}
    assert sum(row[4] for row in stored) == 90
    (broker_cluster,) = {item["clusterName"] for item in rmqctl.items("cluster", "list")}
    assert document["cluster"] == broker_cluster


def test_every_form_reads_back_to_what_is_stored(
    cluster: Cluster, rmqctl: Rmqctl, exported_group: str, tmp_path: Path
) -> None:
    items = rmqctl.items("offset", "show", exported_group)
    stored = {
        (item["topic"], item["brokerName"], item["queueId"]): item["consumerOffset"]
        for item in items
        if item["consumerOffset"] is not None
    }
    counts: dict[tuple[str, str], int] = {}
    for topic in {topic for topic, _, _ in stored}:
        for data in rmqctl("topic", "route", topic, "-o", "json").document["items"]:
            counts[topic, data["brokerName"]] = data["readQueueNums"]

    for form in (), ("-o", "csv"), ("--kafka",):
        path = tmp_path / f"offsets{'-'.join(form)}"
        result = rmqctl("offset", "export", exported_group, *form, "--file", str(path))
        assert (result.exit_code, result.stdout) == (0, ""), result.stderr
        read = resolve_brokers(parse_offsets(path.read_bytes()).entries, counts)
        assert {tuple(mq): entry.offset for mq, entry in read.items() if entry.offset is not None} == stored, form


def test_kafkas_form_names_brokers_only_where_there_are_two(rmqctl: Rmqctl, exported_group: str) -> None:
    lines = rmqctl("offset", "export", exported_group, "--kafka", "--topic", "Exported*").stdout.splitlines()
    places = {tuple(line.split(",")[:2]) for line in lines}
    assert {("ExportedAlone", "0"), ("ExportedAlone", "1")} <= places
    assert {place for topic, place in places if topic == "Exported"} == {
        f"{name}:{queue_id}" for name in ("broker-a", "broker-b") for queue_id in range(4)
    }


def test_a_broker_that_is_down_leaves_an_export_in_part(cluster: Cluster, rmqctl: Rmqctl, exported_group: str) -> None:
    result = rmqctl("offset", "export", exported_group, "--topic", "Exported", "--map-address", "broker-b=127.0.0.1:1")
    assert result.exit_code == 8
    assert "rmqctl: not read: broker-b: offsets: " in result.stderr
    by_broker = {(item["brokerName"], item["consumerOffset"] is None) for item in result.document["items"]}
    assert by_broker == {("broker-a", False), ("broker-b", True)}
    assert {tuple(item["reasons"].values()) for item in result.document["items"]} == {
        (),
        ("BROKER_UNREACHABLE",) * 3,
    }


def test_zero_and_none_are_told_apart(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("ExportZero", queue_count=2, brokers=("broker-a",))
    cluster.java.produce("ExportZero", 5, queue="broker-a:0")
    cluster.java.produce("ExportZero", 5, queue="broker-a:1")
    cluster.java.mqadmin("updateSubGroup", "-b", cluster.brokers["broker-a"].address, "-g", "ExportZeroGroup")
    none = rmqctl.items("offset", "export", "ExportZeroGroup", "--topic", "ExportZero")
    assert [(item["consumerOffset"], item["reasons"]) for item in none] == [
        (None, {"consumerOffset": "NEVER_COMMITTED"})
    ] * 2

    cluster.java.consume("export-zero", "ExportZeroGroup", "ExportZero", stuck="m")
    cluster.java.wait_started("export-zero", 1)
    cluster.java.persist("export-zero")
    zero = rmqctl.items("offset", "export", "ExportZeroGroup", "--topic", "ExportZero")
    assert [item["consumerOffset"] for item in zero] == [0, 0]
    cluster.java.release("export-zero")
    cluster.java.stop("export-zero")
