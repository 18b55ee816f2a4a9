from __future__ import annotations

import pytest

from rmqctl.rules.broker_config import REDACTED, differing, redacted


@pytest.mark.parametrize(
    "name",
    [
        "innerClientAuthenticationCredentials",
        "initAuthenticationUser",
        "tls.server.keyPassword",
        "accessKey",
        "access_key",
        "secretKey",
        "securityToken",
        "metricsGrpcExporterHeader",
        "socksProxyConfig",
        "privateKey",
        "myPluginPassWord",
    ],
)
def test_a_setting_that_can_hold_a_secret_is_never_shown(name: str) -> None:
    assert redacted({name: "s3cret"}) == {name: REDACTED}
    assert redacted({name: ""}) == {name: ""}
    assert redacted({name: "{}"}) == {name: "{}"}


@pytest.mark.parametrize(
    "value",
    [
        '{"username":"rocketmq","password":"12345678"}',
        "accessKey=a;secretKey=b",
        "http://user:pass@proxy:8080",
        "redis://:pass@cache:6379",
        "{'secret_key': 'x'}",
    ],
)
def test_a_value_that_looks_like_a_secret_is_not_shown_whatever_its_name(value: str) -> None:
    assert redacted({"harmless": value}) == {"harmless": REDACTED}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("appendTopicForTimerDeleteKey", "false"),
        ("authenticationEnabled", "true"),
        ("aclEnable", "true"),
        ("namesrvAddr", "10.0.0.1:9876;10.0.0.2:9876"),
        ("fileReservedTime", "72"),
        ("useReentrantLockWhenPutMessage", "true"),
        ("messageDelayLevel", "1s 5s"),
    ],
)
def test_other_settings_are_shown_as_they_are(name: str, value: str) -> None:
    assert redacted({name: value}) == {name: value}


def test_a_slave_is_compared_with_its_master_without_what_makes_it_a_slave() -> None:
    master = {"brokerId": "0", "listenPort": "1", "storePathCommitLog": "/a", "fileReservedTime": "72", "onlyHere": "1"}
    slave = {"brokerId": "1", "listenPort": "2", "storePathCommitLog": "/b", "fileReservedTime": "48", "new": "x"}
    assert differing(master, slave) == {"fileReservedTime": ("72", "48"), "new": (None, "x"), "onlyHere": ("1", None)}
    assert differing(master, master) == {}


def test_secrets_that_differ_are_said_to_and_not_shown() -> None:
    assert differing({"secretKey": "a"}, {"secretKey": "b"}) == {"secretKey": (REDACTED, REDACTED)}
    assert differing({"secretKey": "a"}, {}) == {"secretKey": (REDACTED, None)}
