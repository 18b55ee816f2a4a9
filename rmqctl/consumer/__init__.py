"""The local runtime: a push consumer that shares groups with RocketMQ's own clients."""

from __future__ import annotations

from rmqctl.model.consuming import ConsumeFromWhere, ConsumeStatus

from .batch import Batch, Listener
from .push_consumer import PushConsumer
from .settings import ConsumerSettings

__all__ = ["Batch", "ConsumeFromWhere", "ConsumeStatus", "ConsumerSettings", "Listener", "PushConsumer"]
