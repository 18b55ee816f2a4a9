"""CHECK_CLIENT_CONFIG: whether a subscription can be served (ClientManageProcessor.checkClientConfig)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.groups.filters import compile_expression
from rmqctl.sandbox.groups.subscription import SubscriptionData
from rmqctl.sandbox.request import RefusalError, Request, ok

from .r011_pull_message import no_property_filter


def handle(broker: Broker, request: Request) -> Command:
    """Compile the expression; tags are always valid."""
    if not request.command.body and broker.profile.is_5:
        return ok()
    item = request.json().get("subscriptionData")
    if item is None:
        return ok()
    subscription = SubscriptionData.from_wire({"topic": "", **item}, broker.now_ms())
    if subscription.is_by_tag:
        return ok()
    if not broker.settings.flag("enablePropertyFilter"):
        raise no_property_filter(subscription.expression_type)
    expression, kind = subscription.expression or "", subscription.expression_type
    try:
        compile_expression(expression, kind, has_text_operators=broker.profile.is_5)
    except ValueError as error:
        remark = f"org.apache.rocketmq.filter.parser.ParseException: {error}"
        raise RefusalError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None
    return ok()
