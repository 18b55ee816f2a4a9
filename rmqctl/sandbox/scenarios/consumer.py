"""A consumer of a scenario: it heartbeats, rebalances, pulls, commits and reports like a Java consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.net.tasks import stop_tasks
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.rules.allocate.averagely import allocate_averagely
from rmqctl.rules.message_filters.tags import parse_tags, tag_code
from rmqctl.sandbox.sandbox import Sandbox
from rmqctl.sandbox.topics.table import retry_topic

from .client import ScriptedClient
from .scenario_queue import ScenarioQueue, running_info

_HEARTBEAT_S = 30.0
_REBALANCE_S = 20.0
_RETRY_PAUSE_S = 1.0
_HOLD_MS = 15_000
_PULL_COUNT = 32
_COMMIT_AND_SUSPEND = 1 | 2
_SUSPEND = 2


class ScenarioConsumer:
    """One member of a group in clustering mode, on one topic and the group's retries.

    `work_s` is the processing time of a message; one whose body `sticks()` never finishes, one whose body `fails()` is
    sent back. `clock_ahead_ms` is the offset of the member's clock, visible in the version of its subscription.
    """

    def __init__(
        self, sandbox: Sandbox, client_id: str, group: str, topic: str, expression: str = "*", *, work_s: float = 0.0,
        sticks: Callable[[str], bool] = lambda _: False, fails: Callable[[str], bool] = lambda _: False,
        max_reconsume_times: int = 16, clock_ahead_ms: int = 0,
    ) -> None:  # fmt: skip
        self.client_id, self.group, self.topic, self.expression = client_id, group, topic, expression
        # Of messages whose offsets are committed.
        self.consumed_count = 0
        self._sandbox = sandbox
        self._clock = sandbox.clock
        self._work_s, self._sticks, self._fails = work_s, sticks, fails
        self._max_reconsume_times = max_reconsume_times
        self._clock_ahead_ms = clock_ahead_ms
        self._client = ScriptedClient(sandbox.clock, sandbox.profile.version, self._pushed)
        self._subscribed_at_ms = self._now_ms()
        self._started_at_ms = self._now_ms()
        self._held: dict[MessageQueue, ScenarioQueue] = {}
        self._pulling: dict[MessageQueue, asyncio.Task[None]] = {}
        self._rebalance_now = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []

    def _now_ms(self) -> int:
        return self._clock.now_ms() + self._clock_ahead_ms

    async def start(self) -> None:
        """Join the group and begin to consume. Raises RmqctlError."""
        await self._heartbeat()
        await self._rebalance()
        self._running = [asyncio.ensure_future(self._every(_HEARTBEAT_S, self._heartbeat)),
                         asyncio.ensure_future(self._rebalance_loop())]  # fmt: skip

    def catch_up(self) -> None:
        """Set the clock right. What was consumed so far stays in the past; pulls that wait for messages are new."""
        self._clock_ahead_ms = 0
        for queue in self._held.values():
            queue.pulled_at_ms = self._now_ms()

    async def aclose(self) -> None:
        """Leave the group."""
        await stop_tasks([*self._running, *self._pulling.values()])
        await self._client.aclose()

    def _addresses(self) -> dict[str, str]:
        brokers = self._sandbox.brokers.values()
        return {broker.name: broker.address for broker in brokers if broker.is_running}

    def _address(self, queue: MessageQueue) -> str:
        """Return the address of a queue's broker. Raises UnreachableError when the broker is stopped."""
        address = self._addresses().get(queue.broker_name)
        if address is None:
            raise UnreachableError(queue.broker_name, "the broker is stopped")
        return address

    def _subscriptions(self) -> list[dict[str, Any]]:
        return [self._subscription(self.topic, self.expression), self._subscription(retry_topic(self.group), "*")]

    def _subscription(self, topic: str, expression: str) -> dict[str, Any]:
        tags = sorted(parse_tags(expression))
        return {
            "classFilterMode": False, "codeSet": [tag_code(tag) for tag in tags], "expressionType": "TAG",
            "subString": expression, "subVersion": self._subscribed_at_ms, "tagsSet": tags, "topic": topic,
        }  # fmt: skip

    async def _heartbeat(self) -> None:
        body = {
            "clientID": self.client_id,
            "consumerDataSet": [{
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
                "groupName": self.group, "messageModel": "CLUSTERING", "subscriptionDataSet": self._subscriptions(),
                "unitMode": False,
            }],
            "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}],
        }  # fmt: skip
        for address in self._addresses().values():
            await self._client.ask(address, RequestCode.HEART_BEAT, body)

    async def _every(self, seconds: float, work: Callable[[], Any]) -> None:
        while True:
            await pause(self._clock, seconds)
            try:
                await work()
            except RmqctlError:
                pass  # the broker is stopped; it may return

    async def _rebalance_loop(self) -> None:
        timer = None
        while True:
            timer = self._clock.call_later(_REBALANCE_S, self._rebalance_now.set)
            await self._rebalance_now.wait()
            timer.cancel()
            self._rebalance_now.clear()
            try:
                await self._rebalance()
            except RmqctlError:
                pass

    async def _rebalance(self) -> None:
        address = next(iter(self._addresses().values()), None)
        if address is None:
            return
        fields = {"consumerGroup": self.group}
        answer = await self._client.ask_json(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, **fields)
        if answer is None or self.client_id not in answer["consumerIdList"]:
            return
        mine = set[MessageQueue]()
        for topic in (self.topic, retry_topic(self.group)):
            queues = await self._readable_queues(topic)
            if queues:
                mine |= set(allocate_averagely(queues, sorted(answer["consumerIdList"]))[self.client_id])
            else:
                mine |= {queue for queue in self._held if queue.topic == topic}
        for queue in self._held.keys() - mine:
            self._pulling.pop(queue).cancel()
            await self._commit(queue, self._held.pop(queue))
        for queue in sorted(mine - self._held.keys()):
            held = self._held[queue] = ScenarioQueue(await self._start_position(queue))
            self._pulling[queue] = asyncio.ensure_future(self._consume(queue, held))

    async def _readable_queues(self, topic: str) -> list[MessageQueue]:
        request = RequestCode.GET_ROUTEINFO_BY_TOPIC
        route = await self._client.ask_json(self._sandbox.addr, request, topic=topic)
        if route is None:
            return []
        return sorted(
            MessageQueue(topic, data["brokerName"], queue_id)
            for data in route["queueDatas"] for queue_id in range(data["readQueueNums"]) if data["perm"] & 4
        )  # fmt: skip

    async def _start_position(self, queue: MessageQueue) -> int:
        answer = await self._client.ask(
            self._address(queue), RequestCode.QUERY_CONSUMER_OFFSET,
            consumerGroup=self.group, topic=queue.topic, queueId=queue.queue_id,
        )  # fmt: skip
        return int(answer.ext_fields.get("offset", 0))

    async def _consume(self, queue: MessageQueue, held: ScenarioQueue) -> None:
        while True:
            held.pulled_at_ms = self._now_ms()  # even if nothing arrives (DefaultMQPushConsumerImpl.pullMessage)
            try:
                answer = await self._pull(queue, held)
                if answer.code == ResponseCode.SUCCESS:
                    held.cached += list(iter_messages(answer.body))
                    await self._work(queue, held)
            except RmqctlError:
                answer = Command(ResponseCode.SYSTEM_ERROR)
                held.cached.clear()  # unfinished messages are pulled again
            if "nextBeginOffset" not in answer.ext_fields:
                await pause(self._clock, _RETRY_PAUSE_S)
                continue
            held.position = int(answer.ext_fields["nextBeginOffset"])

    async def _pull(self, queue: MessageQueue, held: ScenarioQueue) -> Command:
        return await self._client.ask(
            self._address(queue), RequestCode.PULL_MESSAGE, consumerGroup=self.group,
            topic=queue.topic, queueId=queue.queue_id, queueOffset=held.position, maxMsgNums=_PULL_COUNT,
            sysFlag=_COMMIT_AND_SUSPEND if held.position > 0 else _SUSPEND, commitOffset=held.position,
            suspendTimeoutMillis=_HOLD_MS, subVersion=self._subscribed_at_ms,
        )  # fmt: skip

    async def _work(self, queue: MessageQueue, held: ScenarioQueue) -> None:
        while held.cached:
            message = held.cached[0]
            body = message.body.decode(errors="replace")
            if self._sticks(body):
                break
            if self._work_s:
                await pause(self._clock, self._work_s)
            if self._fails(body):
                await self._send_back(queue, message)
                held.failed_count += 1
            held.cached.pop(0)
            held.position = message.queue_offset + 1
            held.consumed_at_ms = self._now_ms()
            held.done_count += 1
            if self._work_s:
                await self._commit(queue, held)
        await self._commit(queue, held)
        if held.cached:
            await asyncio.Event().wait()

    async def _send_back(self, queue: MessageQueue, message: StoredMessage) -> None:
        await self._client.ask(
            self._address(queue), RequestCode.CONSUMER_SEND_MSG_BACK,
            offset=message.commit_log_offset, group=self.group, delayLevel=0, originMsgId=message.message_id,
            originTopic=queue.topic, unitMode=False, maxReconsumeTimes=self._max_reconsume_times,
        )  # fmt: skip

    async def _commit(self, queue: MessageQueue, held: ScenarioQueue) -> None:
        if held.position <= 0:
            return
        done_count = held.done_count
        try:
            await self._client.ask(
                self._address(queue), RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=self.group, topic=queue.topic,
                queueId=queue.queue_id, commitOffset=held.position,
            )  # fmt: skip
        except RmqctlError:
            return  # as when a client dies: the next one starts a little earlier
        self.consumed_count += done_count
        held.done_count -= done_count

    def _pushed(self, command: Command) -> Command | None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._rebalance_now.set()
            return None
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            info = running_info(self._held, self._subscriptions(), self._properties())
            return Command(ResponseCode.SUCCESS, body=dumps(info))
        remark = f" request type {command.code} not supported"
        return Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)

    def _properties(self) -> dict[str, str]:
        version = "V" + self._sandbox.profile.name.replace(".", "_")
        return {
            "PROP_CLIENT_VERSION": version, "PROP_CONSUMEORDERLY": "false", "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_at_ms),
            "PROP_NAMESERVER_ADDR": f"{self._sandbox.addr};", "PROP_THREADPOOL_CORE_SIZE": "1",
            "allocateMessageQueueStrategy": "org.apache.rocketmq.client.consumer.rebalance."
            "AllocateMessageQueueAveragely@0",
            "consumeMessageBatchMaxSize": "1", "consumeThreadMax": "1", "consumeThreadMin": "1", "consumeTimeout": "15",
            "maxReconsumeTimes": str(self._max_reconsume_times), "messageModel": "CLUSTERING",
        }  # fmt: skip
