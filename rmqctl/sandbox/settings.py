"""A server's configuration, under RocketMQ's own names (BrokerConfig, MessageStoreConfig, NamesrvConfig ...).

It has only the settings that the sandbox obeys or that tools need: mqadmin's exportConfigs fails without some.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .data_version import DataVersion
from .profile import Profile

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_BOTH = {
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "defaultTopicQueueNums": "8",
    "brokerPermission": "6",
    "brokerRole": "ASYNC_MASTER",
    "flushDiskType": "ASYNC_FLUSH",
    "flushIntervalCommitLog": "500",
    "flushConsumerOffsetInterval": "5000",
    "messageDelayLevel": DELAY_LEVELS,
    "fileReservedTime": "72",
    "deleteWhen": "04",
    "diskMaxUsedSpaceRatio": "75",
    "maxMessageSize": str(4 * 1024 * 1024),
    "longPollingEnable": "true",
    "shortPollingTimeMills": "1000",
    "enablePropertyFilter": "true",
    "traceTopicEnable": "false",
    "traceOn": "true",
    "regionId": "DefaultRegion",
    "brokerIP1": "",
    "listenPort": "0",
    "namesrvAddr": "",
    "registerNameServerPeriod": "30000",
    "cleanFileForciblyEnable": "true",
    "useTLS": "false",
    "offsetCheckInSlave": "false",
    "msgTraceTopicName": "RMQ_SYS_TRACE_TOPIC",
    "slaveReadEnable": "false",
    "rejectTransactionMessage": "false",
    "notifyConsumerIdsChangedEnable": "true",
    "maxMsgsNumBatch": "64",
    "storeReplyMessageEnable": "true",
    "transactionTimeOut": "6000",
    "transactionCheckMax": "15",
}
_SINCE_5 = {
    "useServerSideResetOffset": "true",
    "timerWheelEnable": "true",
    "timerMaxDelaySec": str(3 * 24 * 3600),
    "timerPrecisionMs": "1000",
    "recallMessageEnable": "false",
    "enableRetryTopicV2": "false",
    "popPollingSize": "1024",
    "popFromRetryProbability": "20",
    "retrieveMessageFromPopRetryTopicV1": "true",
    "initPopOffsetByCheckMsgInMem": "true",
    "reviveQueueNum": "8",
    "litePullMessageEnable": "true",
    "defaultMessageRequestMode": "PULL",
    "defaultPopShareQueueNum": "-1",
    "splitMetadataSize": "2000",
    "configBlackList": "configBlackList;brokerConfigPath",
    "enableMixedMessageType": "false",
    "clearRetryTopicWhenDeleteTopic": "true",
    "popConsumerKVServiceEnable": "false",
    "diskSpaceCleanForciblyRatio": "85",
    "rejectPullConsumerEnable": "false",
    "transactionCheckInterval": "30000",
    "transactionOpBatchInterval": "3000",
    "transactionOpMsgMaxSize": "4096",
}
_ONLY_4 = {"filterServerNums": "0", "transactionCheckInterval": "60000"}

_NAME_SERVER = {
    "listenPort": "0",
    "clusterTest": "false",
    "orderMessageEnable": "false",
    "productEnvName": "center",
    "serverChannelMaxIdleTimeSeconds": "120",
}
_NAME_SERVER_SINCE_5 = {
    "bindAddress": "0.0.0.0",  # noqa: S104 - what RocketMQ says; the sandbox listens where it is told to
    "configBlackList": "configBlackList;configStorePath;kvConfigPath",
    "enableAllTopicList": "true",
    "enableTopicList": "true",
    "returnOrderTopicConfigToBroker": "true",
    "scanNotActiveBrokerInterval": "5000",
}

_NUMBER = re.compile(r"-?[0-9]+")
_ENUMS = {
    "flushDiskType": {"SYNC_FLUSH", "ASYNC_FLUSH"}, "brokerRole": {"ASYNC_MASTER", "SYNC_MASTER", "SLAVE"},
}  # fmt: skip


def broker_settings(profile: Profile, own: Mapping[str, str], now_ms: Callable[[], int]) -> ServerSettings:
    """Return a broker's configuration: RocketMQ's defaults, overridden by `own`."""
    return ServerSettings({**_BOTH, **(_SINCE_5 if profile.is_5 else _ONLY_4), **own}, now_ms)


def name_server_settings(profile: Profile, now_ms: Callable[[], int]) -> ServerSettings:
    """Return a name server's configuration."""
    return ServerSettings({**_NAME_SERVER, **(_NAME_SERVER_SINCE_5 if profile.is_5 else {})}, now_ms)


def parse_properties(body: bytes) -> dict[str, str]:
    """Return the names and values of a Java properties file (MixAll.string2Properties)."""
    found: dict[str, str] = {}
    for line in body.decode(errors="replace").splitlines():
        text = line.strip()
        if text and text[0] not in "#!":
            name, _, value = text.replace(":", "=", 1).partition("=") if "=" not in text else text.partition("=")
            found[name.strip()] = value.strip()
    return found


class ServerSettings:
    """Names and their texts, with typed reads. Unknown names are not kept. `version` counts updates."""

    def __init__(self, values: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        self.version = DataVersion(now_ms)
        self._values = dict(values)

    def text(self, name: str) -> str:
        """Return the text of a setting, or an empty text when this release does not have it."""
        return self._values.get(name, "")

    def flag(self, name: str) -> bool:
        """Return a boolean setting, or False when this release does not have it."""
        return self._values.get(name) == "true"

    def number(self, name: str) -> int:
        """Return a number, or 0 when this release does not have the setting or it is not a number."""
        try:
            return int(self._values[name])
        except (KeyError, ValueError):
            return 0

    def update(self, values: Mapping[str, str]) -> dict[str, str]:
        """Change settings; return the accepted ones with their new values.

        Unknown names and invalid values are ignored; a boolean with an invalid value is set to false
        (Configuration.update, MixAll.properties2Object).
        """
        taken = {}
        for name, value in values.items():
            kept = self._read(name, value)
            if kept is not None:
                taken[name] = self._values[name] = kept
        self.version.next()
        return taken

    def _read(self, name: str, value: str) -> str | None:
        before = self._values.get(name)
        if before is None:
            return None
        if before in ("true", "false"):
            return "true" if value.lower() == "true" else "false"
        if name in _ENUMS:
            return value if value in _ENUMS[name] else None
        if _NUMBER.fullmatch(before):
            return value if _NUMBER.fullmatch(value) else None
        return value

    def is_forbidden(self, names: Mapping[str, str]) -> bool:
        """Return whether an update has a setting that cannot be changed remotely (configBlackList, since 5.x)."""
        return any(name in names for name in self.text("configBlackList").split(";") if name)

    def to_properties(self) -> bytes:
        """Return all settings in the format of GET_BROKER_CONFIG."""
        return "".join(f"{name}={value}\n" for name, value in self.as_dict().items()).encode()

    def as_dict(self) -> dict[str, str]:
        """Return all settings."""
        return dict(sorted(self._values.items()))
