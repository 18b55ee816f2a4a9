"""A broker's configuration: which settings affect consumers, which are secret, which may differ in a replica."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rmqctl.model.topic import WRITE

REDACTED = "(redacted)"
PERMISSION = "brokerPermission"

# Settings that decide how groups are created, balanced, reset, delayed and kept; shown in this order.
CONSUMER_SETTINGS = (
    PERMISSION,
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
    "defaultTopicQueueNums",
    "messageDelayLevel",
    "timerWheelEnable",
    "timerMaxDelaySec",
    "longPollingEnable",
    "enablePropertyFilter",
    "filterSupportRetry",
    "useServerSideResetOffset",
    "rejectPullConsumerEnable",
    "notifyConsumerIdsChangedEnable",
    "disableConsumeIfConsumerReadSlowly",
    "enableRetryTopicV2",
    "popConsumerKVServiceEnable",
    "slaveReadEnable",
    "offsetCheckInSlave",
    "maxMessageSize",
    "flushDiskType",
    "traceTopicEnable",
    "aclEnable",
    "authenticationEnabled",
    "authorizationEnabled",
)
RETENTION_SETTINGS = (
    "fileReservedTime",
    "deleteWhen",
    "diskMaxUsedSpaceRatio",
    "diskSpaceCleanForciblyRatio",
    "diskSpaceWarningLevelRatio",
    "cleanFileForciblyEnable",
    "mappedFileSizeCommitLog",
)

# A broker answers GET_BROKER_CONFIG with its whole properties file, including any secret in it.
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|credential|token|accesskey|privatekey|apikey|signature"
    r"|initauthenticationuser|metricsgrpcexporterheader|socksproxyconfig"
)
_SECRET_VALUE = re.compile(
    r"(password|passwd|secret_?key|access_?key)[\"']?\s*[:=]|://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE
)

_NOTHING = ("", "{}")  # socksProxyConfig is {} when there is no proxy

# Settings that identify a replica and its location.
_OWN_SETTINGS = frozenset(
    {
        "brokerId",
        "brokerRole",
        "brokerIP1",
        "brokerIP2",
        "listenPort",
        "fastListenPort",
        "haListenPort",
        "haMasterAddress",
        "brokerConfigPath",
        "rocketmqHome",
        "bindAddress",
    }
)
_OWN_PREFIX = "storePath"


def redacted(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings, sorted, with the values of secret ones redacted."""
    return {name: _shown(name, settings[name]) for name in sorted(settings)}


def is_secret(name: str, value: str) -> bool:
    """Tell whether a setting can contain a secret, by its name or by the form of its value."""
    return (
        _SECRET_NAME.search(re.sub(r"[-_.]", "", name).lower()) is not None or _SECRET_VALUE.search(value) is not None
    )


def _shown(name: str, value: str) -> str:
    return REDACTED if value not in _NOTHING and is_secret(name, value) else value


def differing(master: Mapping[str, str], slave: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return the settings in which a slave differs from its master, except those that have to differ.

    None means that the setting is not set. Secrets are compared, but shown redacted.
    """
    found = {}
    for name in sorted({*master, *slave}):
        if name in _OWN_SETTINGS or name.startswith(_OWN_PREFIX) or master.get(name) == slave.get(name):
            continue
        values = [None if name not in side else _shown(name, side[name]) for side in (master, slave)]
        found[name] = (values[0], values[1])
    return found


def own_permission(settings: Mapping[str, str]) -> int | None:
    """Return a broker's own permission (brokerPermission, PermName bits), None where it is not reported."""
    text = settings.get(PERMISSION, "")
    return int(text) if text.isascii() and text.isdigit() else None


def may_write(settings: Mapping[str, str]) -> bool | None:
    """Tell whether a broker's own permission allows writes, None where it is not reported."""
    permission = own_permission(settings)
    return None if permission is None else bool(permission & WRITE)
