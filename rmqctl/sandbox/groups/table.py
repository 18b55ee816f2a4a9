"""A broker's consumer group configurations (SubscriptionGroupManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox.data_version import DataVersion
from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.request import FailureError, RefusalError
from rmqctl.sandbox.settings import ServerSettings
from rmqctl.sandbox.storage.state import StateStore
from rmqctl.sandbox.topics.attributes import altered, group_attributes
from rmqctl.sandbox.topics.name_rules import may_create_group

from .configs import default_config, read_config

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER",
)  # fmt: skip
# The broker's own consumer of half messages, whose offsets show how far it has checked them.
CHECKER = "CID_RMQ_SYS_TRANS"
_SYSTEM_GROUPS_5 = (CHECKER,)
# MixAll.CID_RMQ_SYS_PREFIX: groups that are always created on first use.
_SYSTEM_PREFIX = "CID_RMQ_SYS_"

_TABLE = "groups"
_FORBIDDEN_TABLE = "forbidden"
# PermName.INDEX_PERM_READ as a bit.
_FORBIDDEN_BITS = 4


class GroupTable:
    """Configurations by group, each a dict with RocketMQ's field names; `forbidden` has (group, topic) pairs."""

    def __init__(
        self, profile: Profile, now_ms: Callable[[], int], state: StateStore, settings: ServerSettings
    ) -> None:
        self.version = DataVersion(now_ms)
        self.forbidden: set[tuple[str, str]] = set()
        self._profile = profile
        self._state = state
        self._settings = settings
        system = SYSTEM_GROUPS + (_SYSTEM_GROUPS_5 if profile.is_5 else ())
        self.groups: dict[str, dict[str, Any]] = {group: self.default(group) for group in system}
        self.groups.update(state.load(_TABLE))
        for group, topics in state.load(_FORBIDDEN_TABLE).items():
            self.forbidden.update((group, topic) for topic in topics)

    def default(self, group: str) -> dict[str, Any]:
        """Return the configuration of a new group."""
        return default_config(self._profile, group)

    def find(self, group: str) -> dict[str, Any] | None:
        """Return the configuration of a group, None when it has none."""
        return self.groups.get(group)

    def find_or_create(self, group: str) -> dict[str, Any] | None:
        """Return a group's configuration, created with defaults if that is allowed (findSubscriptionGroupConfig).

        Returns None when there is none. Since 5.x, a group with an invalid name is never created.
        """
        found = self.groups.get(group)
        if (
            found is None
            and (self._settings.flag("autoCreateSubscriptionGroup") or group.startswith(_SYSTEM_PREFIX))
            and may_create_group(self._profile, group)
        ):
            found = self.default(group)
            self.put(found)
        return found

    def read(self, item: Any) -> dict[str, Any]:
        """Return the configuration in a request; its attributes are signed changes. Raises FailureError."""
        return read_config(self._profile, item)

    def update(self, config: dict[str, Any]) -> None:
        """Create or change a group by a request. Raises RefusalError for invalid attributes."""
        if not self._profile.is_5:
            self.put(config)
            return
        before = self.groups.get(config["groupName"])
        current = {} if before is None else before["attributes"]
        try:
            attributes = altered(group_attributes(self._profile), current, config["attributes"], is_new=before is None)
        except RefusalError as error:
            raise FailureError(f"java.lang.RuntimeException: {error.remark}") from None
        self.put({**config, "attributes": attributes})

    def put(self, config: dict[str, Any]) -> None:
        """Create or change a group; missing fields get their defaults."""
        group = str(config["groupName"])
        whole = {**self.default(group), **{name: value for name, value in config.items() if value is not None}}
        if self.groups.get(group) != whole:
            self._state.put(_TABLE, group, whole)
            self.groups[group] = whole
            self.version.next()

    def delete(self, group: str) -> None:
        """Delete a group and its forbidden topics; do nothing when it does not exist."""
        self._set_forbidden(group, ())
        if group in self.groups:
            self._state.delete(_TABLE, group)
            del self.groups[group]
            self.version.next()

    def set_readable(self, group: str, topic: str, is_readable: bool) -> None:
        """Allow or forbid a group to read a topic.

        As in RocketMQ, allowing one topic allows all forbidden topics of the group (clearForbidden).
        """
        if not is_readable:
            self._set_forbidden(group, {*self._forbidden_topics(group), topic})
        elif self._forbidden_topics(group):
            self._set_forbidden(group, ())

    def _forbidden_topics(self, group: str) -> set[str]:
        return {topic for each, topic in self.forbidden if each == group}

    def _set_forbidden(self, group: str, topics: Iterable[str]) -> None:
        after = set(topics)
        before = self._forbidden_topics(group)
        if before == after:
            return
        if after:
            self._state.put(_FORBIDDEN_TABLE, group, sorted(after))
        else:
            self._state.delete(_FORBIDDEN_TABLE, group)
        self.forbidden = {pair for pair in self.forbidden if pair[0] != group} | {(group, topic) for topic in after}
        self.version.next()

    def forbidden_table(self, groups: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the forbidden topics of groups as a JSON object; groups without any are omitted."""
        table = {group: dict.fromkeys(sorted(self._forbidden_topics(group)), _FORBIDDEN_BITS) for group in groups}
        return {group: topics for group, topics in table.items() if topics}


def require_group(config: dict[str, Any] | None, group: str) -> dict[str, Any]:
    """Return a configuration that must not be None. Raises RefusalError with SUBSCRIPTION_GROUP_NOT_EXIST."""
    if config is None:
        raise RefusalError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist")
    return config
