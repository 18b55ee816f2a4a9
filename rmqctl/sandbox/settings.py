"""A server's configuration, under RocketMQ's own names (BrokerConfig, MessageStoreConfig, NamesrvConfig ...).

It has only the settings that the sandbox obeys or that tools need: mqadmin's exportConfigs fails without some. What it
does not obey is refused, at the start and at run time: a real broker would do something else than before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from rmqctl.errors import UsageError
from rmqctl.protocol.codes import ResponseCode
from rmqctl.text.names import hint_for

from .data_version import DataVersion
from .profile import Profile
from .request import RefusalError

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
    "maxTransferBytesOnMessageInMemory": str(256 * 1024),
    "maxTransferCountOnMessageInMemory": "32",
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
    "appendTopicForTimerDeleteKey": "false",
    "enableRetryTopicV2": "false",
    "popPollingSize": "1024",
    "popFromRetryProbability": "20",
    "popFromRetryProbabilityForPriority": "0",
    "priorityOrderAsc": "true",
    "useSeparateRetryQueue": "false",
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

# What tools read, and no part of the sandbox obeys: the first ones tell where and who the server is.
_REPORTED = frozenset({
    "brokerClusterName", "brokerId", "brokerIP1", "brokerName", "listenPort", "namesrvAddr",
    "bindAddress", "brokerRole", "cleanFileForciblyEnable", "clusterTest", "deleteWhen", "diskMaxUsedSpaceRatio",
    "diskSpaceCleanForciblyRatio", "filterServerNums", "offsetCheckInSlave", "popConsumerKVServiceEnable",
    "productEnvName", "serverChannelMaxIdleTimeSeconds", "useTLS",
})  # fmt: skip
# Where the sandbox differs from a broker that was started without a configuration, so that SQL92 works.
LIKE_DEFAULT = {"enablePropertyFilter": "false"}

_NUMBER = re.compile(r"-?[0-9]+")
# A broker does not start with other levels.
_DELAY_LEVELS = re.compile(r"[0-9]+[smhd]( [0-9]+[smhd])*")
# CommitLog.putMessage ignores a smaller maxMessageSize.
_SMALLEST_MESSAGE_BYTES = 10
# MessageStoreConfig.setTimerPrecisionMs takes the next smaller one.
_PRECISIONS_MS = (100, 200, 500, 1000)
_FLAG, _NUMERIC = "true or false", "a number"
_ENUMS = {"flushDiskType": {"ASYNC_FLUSH", "SYNC_FLUSH"}}
_KINDS = {
    **{name: " or ".join(sorted(values)) for name, values in _ENUMS.items()},
    "messageDelayLevel": "levels such as 1s 5m 2h", "timerPrecisionMs": "100, 200, 500 or 1000",
}  # fmt: skip


def obeyed_names(profile: Profile) -> set[str]:
    """Return the names of the settings that a broker of this release in the sandbox obeys."""
    return broker_settings(profile, {}, lambda: 0).as_dict().keys() - _REPORTED


def check_settings(profile: Profile, given: Mapping[str, str]) -> None:
    """Raise UsageError for a setting that a broker of this release in the sandbox does not obey, or for its value."""
    known, obeyed = broker_settings(profile, {}, lambda: 0), obeyed_names(profile)
    for name, value in given.items():
        if name not in obeyed:
            raise UsageError(
                f"{name} is not a setting that the sandbox obeys as {profile.name}.",
                hint=hint_for(name, obeyed, otherwise="docs/sandbox.md lists the settings."),
            )
        if known.read(name, value) != value or not _is_usable(name, value):
            raise UsageError(f"Invalid value '{value}' of the setting {name}.", hint=f"Use {known.kind(name)}.")


def _is_usable(name: str, value: str) -> bool:
    """Return whether a broker could work with this value of its kind."""
    if name == "messageDelayLevel":
        return _DELAY_LEVELS.fullmatch(value) is not None
    return name != "maxMessageSize" or not _NUMBER.fullmatch(value) or int(value) >= _SMALLEST_MESSAGE_BYTES


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
    """Names and their texts, with typed reads. `version` counts updates."""

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

    def transfer_limits(self) -> tuple[int, int]:
        """Return how many bytes and how many messages one read returns at most."""
        return self.number("maxTransferBytesOnMessageInMemory"), self.number("maxTransferCountOnMessageInMemory")

    def update(self, values: Mapping[str, str]) -> dict[str, str]:
        """Change settings; return the accepted ones with their new values.

        Invalid values are ignored; a boolean with an invalid value is set to false (Configuration.update,
        MixAll.properties2Object).
        """
        taken = {}
        for name, value in values.items():
            kept = self.read(name, value)
            if kept is not None:
                taken[name] = self._values[name] = kept
        self.version.next()
        return taken

    def check_obeyed(self, values: Mapping[str, str]) -> None:
        """Raise RefusalError for settings that have no effect here, and for values that no broker could work with."""
        ignored = [name for name in values if name not in self._values or name in _REPORTED]
        ignored += [f"{name}={value}" for name, value in values.items() if not _is_usable(name, value)]
        if ignored:
            remark = f"[sandbox] nothing was changed: it does not obey {', '.join(sorted(ignored))}"
            raise RefusalError(ResponseCode.INVALID_PARAMETER, remark)

    def read(self, name: str, value: str) -> str | None:
        """Return what a setting becomes with a value, None for a value that it cannot have."""
        kind = self.kind(name)
        if kind == _FLAG:
            return "true" if value.lower() == "true" else "false"
        if name in _ENUMS:
            return value if value in _ENUMS[name] else None
        if name == "timerPrecisionMs" and _NUMBER.fullmatch(value):
            return str(max([each for each in _PRECISIONS_MS if each <= int(value)], default=_PRECISIONS_MS[0]))
        if kind == _NUMERIC:
            return value if _NUMBER.fullmatch(value) else None
        return value

    def kind(self, name: str) -> str:
        """Return which values a setting can have, in words."""
        if name in _KINDS:
            return _KINDS[name]
        if self._values[name] in ("true", "false"):
            return _FLAG
        return _NUMERIC if _NUMBER.fullmatch(self._values[name]) else "a text"

    def is_forbidden(self, names: Mapping[str, str]) -> bool:
        """Return whether an update has a setting that cannot be changed remotely (configBlackList, since 5.x)."""
        return any(name in names for name in self.text("configBlackList").split(";") if name)

    def to_properties(self) -> bytes:
        """Return all settings in the format of GET_BROKER_CONFIG."""
        return "".join(f"{name}={value}\n" for name, value in self.as_dict().items()).encode()

    def as_dict(self) -> dict[str, str]:
        """Return all settings."""
        return dict(sorted(self._values.items()))
