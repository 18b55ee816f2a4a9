"""PULL_MESSAGE: messages of one queue, now or when some arrive (PullMessageProcessor)."""

from __future__ import annotations

from typing import Any

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import Permission, PullFlag
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.groups.filters import EVERYTHING, EntryFilter, build_filter, tag_filter
from rmqctl.sandbox.groups.members import BROADCASTING, CONSUME_ACTIVELY
from rmqctl.sandbox.groups.subscription import SubscriptionData, parse_subscription
from rmqctl.sandbox.request import RefusalError, Request, answer
from rmqctl.sandbox.storage.store import GetMessageResult, GetStatus
from rmqctl.sandbox.topics.table import Topic

from .read_checks import find_topic, illegal_queue

# Values of the field forbiddenType: since 5.0, what a NO_PERMISSION is about (ForbiddenType).
BROKER_FORBIDDEN, GROUP_FORBIDDEN, TOPIC_FORBIDDEN, BROADCASTING_FORBIDDEN, SUBSCRIPTION_FORBIDDEN = 1, 2, 3, 4, 5

# How often PullRequestHoldService checks whether messages arrived that a pull does not want.
_RECHECK_S = 5.0

# MixAll.isSysConsumerGroupPullMessage: these pull without being members.
_TOOL_GROUPS = frozenset({
    "DEFAULT_CONSUMER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER",
    "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL",
})  # fmt: skip

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


def handle(broker: Broker, request: Request) -> Command | None:
    """Answer a pull, or hold it. Raises RefusalError."""
    return _Pull(broker, request).run(may_hold=True)


def _no_number(text: str) -> RefusalError:
    return RefusalError(ResponseCode.SYSTEM_ERROR, f'java.lang.NumberFormatException: For input string: "{text}"')


class _Pull:
    """One pull request; after a hold it is checked and run again."""

    def __init__(self, broker: Broker, request: Request) -> None:
        self.broker = broker
        self.request = request
        self.group = request.text("consumerGroup")
        self.topic = request.text("topic")
        self.queue_id = self._int32("queueId")
        self.offset = self._number("queueOffset")
        self.max_count = self._int32("maxMsgNums")
        self.sys_flag = self._int32("sysFlag")
        self.sub_version_ms = self._number("subVersion", 0)
        self.commit_offset = self._number("commitOffset", 0)
        self.suspend_ms = self._number("suspendTimeoutMillis", 0)

    def _number(self, name: str, default: Any = None) -> Any:
        """Return a number; unlike in other requests, an invalid one is refused, not treated as missing."""
        number = self.request.number(name, None)
        if number is not None:
            return number
        text = self.request.text(name, None)
        if text is not None:
            raise _no_number(text)
        return self.request.number(name) if default is None else default

    def _int32(self, name: str) -> int:
        number: int = self._number(name)
        if not -(2**31) <= number < 2**31:
            raise _no_number(str(number))
        return number

    def run(self, *, may_hold: bool) -> Command | None:
        """Check, read, commit, answer or hold; after a hold, nothing more is committed."""
        config, topic, passing = self._check()
        got = self._read(passing)
        code = self._code(got)
        offsets = self.broker.offsets
        offsets.note_pulled(self.group, self.topic, self.queue_id, got.next_offset)
        if may_hold and self.sys_flag & PullFlag.COMMIT_OFFSET:
            # A pending reset was consumed by this pull, whose commit now overwrites it, as in RocketMQ.
            offsets.store(self.group, self.topic, self.queue_id, self.commit_offset)
        if code == ResponseCode.SUCCESS:
            self._count(got)
        elif code == ResponseCode.PULL_NOT_FOUND and may_hold and self.sys_flag & PullFlag.SUSPEND:
            self._hold(passing)
            return None
        return self._answer(code, got, config, topic)

    def _check(self) -> tuple[dict[str, Any], Topic, EntryFilter]:
        broker, request, group = self.broker, self.request, self.group
        settings, is_5 = broker.settings, broker.profile.is_5
        if not broker.permission & Permission.READ:
            remark = f"the broker[{broker.store_host_text}] pulling message is forbidden"
            raise self._forbidden(remark, BROKER_FORBIDDEN)
        if request.command.code == RequestCode.LITE_PULL_MESSAGE and not settings.flag("litePullMessageEnable"):
            remark = f"the broker[{broker.store_host_text}] for lite pull consumer is forbidden"
            raise self._forbidden(remark, BROKER_FORBIDDEN)
        config = broker.groups.find_or_create(group)
        if config is None:
            remark = f"subscription group [{group}] does not exist, {broker.profile.advice}"
            raise RefusalError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not config["consumeEnable"]:
            raise self._forbidden(f"subscription group no permission, {group}", GROUP_FORBIDDEN)
        topic = self._check_queue()
        if self.sys_flag & PullFlag.SUBSCRIPTION:
            subscription = self._own_subscription()
            passing = self._own_filter(subscription)
        else:
            subscription = self._group_subscription(config["consumeBroadcastEnable"])
            passing = self._group_filter(subscription)
        if not subscription.is_by_tag and not settings.flag("enablePropertyFilter"):
            raise no_property_filter(subscription.expression_type)
        if is_5 and settings.flag("rejectPullConsumerEnable"):
            self._check_is_member()
        return config, topic, passing

    def _check_queue(self) -> Topic:
        topic = find_topic(self.broker, self.topic)
        if not topic.perm & Permission.READ:
            raise self._forbidden(f"the topic[{topic.name}] pulling message is forbidden", TOPIC_FORBIDDEN)
        if not 0 <= self.queue_id < topic.read_queue_count:
            code = ResponseCode.INVALID_PARAMETER if self.broker.profile.is_5 else ResponseCode.SYSTEM_ERROR
            raise RefusalError(code, illegal_queue(self.request, topic, self.queue_id))
        return topic

    def _own_subscription(self) -> SubscriptionData:
        expression, kind = self.request.text("subscription", None), self.request.text("expressionType", None)
        try:
            subscription = parse_subscription(self.topic, expression, kind)
        except ValueError:
            remark = "parse the consumer's subscription failed"
            raise RefusalError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None
        self.broker.consumers.note_pulled(self.group, subscription, self.broker.now_ms())
        return subscription

    def _own_filter(self, subscription: SubscriptionData) -> EntryFilter:
        try:
            return build_filter(subscription, has_text_operators=self.broker.profile.is_5)
        except ValueError:
            return EVERYTHING  # brokers ignore an expression that they cannot compile

    def _group_subscription(self, may_broadcast: bool) -> SubscriptionData:
        broker, name = self.broker, self.group
        group, advice = broker.consumers.find(name), broker.profile.advice
        if group is None:
            remark = f"the consumer's group info not exist{advice}"
            raise RefusalError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if not may_broadcast and group.message_model == BROADCASTING:
            remark = f"the consumer group[{name}] can not consume by broadcast way"
            raise self._forbidden(remark, BROADCASTING_FORBIDDEN)
        if broker.groups.forbidden and (name, self.topic) in broker.groups.forbidden:
            remark = f"the consumer group[{name}] is forbidden for topic[{self.topic}]"
            raise self._forbidden(remark, SUBSCRIPTION_FORBIDDEN)
        subscription = group.subscriptions.get(self.topic)
        if subscription is None:
            remark = f"the consumer's subscription not exist{advice}"
            raise RefusalError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        # Only a broker whose subscription is older refuses; an older pull is served with the newest expression.
        if subscription.version_ms < self.sub_version_ms:
            raise RefusalError(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return subscription

    def _group_filter(self, subscription: SubscriptionData) -> EntryFilter:
        if subscription.is_by_tag:
            return tag_filter(subscription)
        found = self.broker.consumers.expressions.find(self.topic, self.group)
        if found is None:
            remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise RefusalError(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
        compiled, version_ms = found
        if version_ms < self.sub_version_ms:
            remark = "the consumer's consumer filter data not latest"
            raise RefusalError(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
        return EVERYTHING if subscription.class_filter_mode else EntryFilter(accepts_properties=compiled.matches)

    def _check_is_member(self) -> None:
        group = self.broker.consumers.find(self.group)
        if group is not None and (group.consume_type != CONSUME_ACTIVELY or self.request.channel in group.members):
            return
        if self.group not in _TOOL_GROUPS:
            remark = "the consumer's group info not exist, or the pull consumer is rejected by server."
            raise RefusalError(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"{remark}{self.broker.profile.advice}")

    def _read(self, passing: EntryFilter) -> GetMessageResult:
        broker, topic, queue_id = self.broker, self.topic, self.queue_id
        reset = broker.offsets.take_reset(self.group, topic, queue_id)
        if reset is not None and broker.settings.flag("useServerSideResetOffset"):
            low, high = broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)
            return GetMessageResult(GetStatus.OFFSET_RESET, reset, low, high)
        if self.max_count < 0 and not broker.profile.is_5:
            remark = f"java.lang.IllegalArgumentException: Illegal Capacity: {self.max_count}"
            raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
        return broker.store.get(
            topic, queue_id, self.offset, self.max_count,
            accepts_code=passing.accepts_code, accepts_message=passing.accepts_message,
        )  # fmt: skip

    def _code(self, got: GetMessageResult) -> ResponseCode:
        code = _CODES.get(got.status)
        if code is None:  # nothing was ever stored in the queue
            return ResponseCode.PULL_NOT_FOUND if self.offset == 0 else ResponseCode.PULL_OFFSET_MOVED
        return code

    def _answer(self, code: ResponseCode, got: GetMessageResult, config: dict[str, Any], topic: Topic) -> Command:
        broker = self.broker
        fields: dict[str, object] = {
            "suggestWhichBrokerId": config["brokerId"] if broker.settings.flag("slaveReadEnable") else 0,
            "nextBeginOffset": got.next_offset, "minOffset": got.min_offset, "maxOffset": got.max_offset,
        }  # fmt: skip
        if broker.profile.is_5:
            fields["topicSysFlag"], fields["groupSysFlag"] = topic.sys_flag, config["groupSysFlag"]
        return answer(code, got.status, got.body, **fields)

    def _count(self, got: GetMessageResult) -> None:
        key, stats = f"{self.topic}@{self.group}", self.broker.stats
        stats.add("GROUP_GET_NUMS", key, len(got.offsets))
        stats.add("GROUP_GET_SIZE", key, len(got.body))
        stats.add("BROKER_GET_NUMS", self.broker.cluster, len(got.offsets), 0)

    def _hold(self, passing: EntryFilter) -> None:
        settings = self.broker.settings
        held_ms, recheck_s = self.suspend_ms, _RECHECK_S
        if not settings.flag("longPollingEnable"):
            held_ms = settings.number("shortPollingTimeMills")
            recheck_s = held_ms / 1000
        self.broker.holds.hold(
            [(self.topic, self.queue_id)], max(0, held_ms) / 1000, self._wake, owner=self.request.channel,
            accepts_code=passing.accepts_code, accepts_properties=passing.accepts_properties, recheck_s=recheck_s,
        )  # fmt: skip

    def _wake(self, _: bool) -> None:
        self.broker.server.resume(self.request, lambda: self.run(may_hold=False))

    def _forbidden(self, remark: str, forbidden_type: int) -> RefusalError:
        fields = {"forbiddenType": forbidden_type} if self.broker.profile.is_5 else {}
        return RefusalError(ResponseCode.NO_PERMISSION, remark, **fields)


def no_property_filter(kind: str) -> RefusalError:
    """Return the refusal of a broker that is configured to filter by tags only."""
    remark = f"The broker does not support consumer to filter message by {kind}"
    return RefusalError(ResponseCode.SYSTEM_ERROR, remark)
