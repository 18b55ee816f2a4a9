"""Lite topics (RIP-83) on the release that brought them, with the gRPC client's lite consumers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.jars import RELEASES
from .harness.proxy import Proxy, behind_a_proxy
from .harness.rmqctl import Rmqctl

_SETTINGS = {"enableLmq": "true", "enableMultiDispatch": "true"}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with behind_a_proxy(Cluster(RELEASES[-1], tmp_path_factory.mktemp("lite") / "home", settings=_SETTINGS)) as proxy:
        yield proxy


def test_lite_topics_are_named_and_no_offset_of_theirs_is_changed(proxy: Proxy) -> None:
    cluster, rmqctl = proxy.cluster, Rmqctl(proxy.cluster.namesrv)
    (address,) = cluster.addresses.values()
    cluster.java.mqadmin("updateTopic", "-b", address, "-t", "Parent", "-a", "+message.type=LITE")
    cluster.java.mqadmin("updateSubGroup", "-b", address, "-g", "lite", "--attributes", "+lite.bind.topic=Parent")
    cluster.wait_for_route("Parent", 1)
    proxy.consumers.consume_lite("one", "lite", "Parent", "a,b")
    for name in ("a", "b", "nobody-reads-it"):
        proxy.consumers.produce_lite("Parent", name, 5)
    proxy.consumers.wait_consumed("one", 10)

    (group,) = rmqctl.items("group", "list", "lite")
    assert group["liteBindTopic"] == "Parent"
    (topic,) = rmqctl.items("topic", "list", "Parent")
    assert topic["messageType"] == "LITE"
    assert rmqctl("topic", "status", "Parent", "-o", "json").document["summary"]["liteGroups"] == ["lite"]

    def rows() -> dict[str, tuple[int, int]]:
        items = rmqctl.items("offset", "show", "lite")
        return {item["topic"]: (item["consumerOffset"], item["lag"]) for item in items}

    wait_until(lambda: rows() == {"%LMQ%$Parent$a": (5, 0), "%LMQ%$Parent$b": (5, 0)}, why=rows)
    shown = rmqctl("offset", "show", "lite")
    assert "lite topic NAME of Parent" in shown.stderr
    for words in (
        ("offset", "reset", "lite", "--topic", "Parent", "--to-earliest"), ("offset", "skip", "lite"),
        ("whatif", "allocate", "lite"),
    ):  # fmt: skip
        refused = rmqctl(*words)
        assert (refused.exit_code, "lite topics of Parent" in refused.stderr) == (1, True), refused.stderr
