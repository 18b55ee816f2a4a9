"""A service with two consumers and a producer that share one client: orders are billed, and bills are mailed.

python example_service.py 127.0.0.1:9876 ends at Ctrl-C or SIGTERM, once pulled messages are consumed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rmqctl.client import Client
from rmqctl.consumer import (
    Batch,
    ConsumeFromWhere,
    ConsumerSettings,
    ConsumeStatus,
    ListenerError,
    MessageQueue,
    PushConsumer,
    RebalanceListener,
    StoredMessage,
)
from rmqctl.producer import Producer

LOG = logging.getLogger("service")
SETTINGS = ConsumerSettings(consume_from=ConsumeFromWhere.FIRST_OFFSET, max_reconsume_times=5)


class Billing:
    """Makes bills of orders. An order that cannot be billed comes again after 10 s, 30 s, 1 min, ..."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def __call__(self, messages: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus:
        """Send a bill for each order; a coroutine function runs in the event loop, so it must not block."""
        for number, message in enumerate(messages):
            order = json.loads(message.body)
            if order["amount"] <= 0:
                raise ListenerError(f"order {order['id']} has no amount yet")
            bill = json.dumps({"order": order["id"], "amount": order["amount"]}).encode()
            await self._producer.send("bills", bill, keys=[order["id"]], sharding_key=order["customer"])
            batch.ack_index = number  # if the next one fails, this one does not come again
        return ConsumeStatus.CONSUME_SUCCESS


def mail(messages: Sequence[StoredMessage], _: Batch) -> ConsumeStatus:
    """Mail bills; a plain function runs in threads, so it may block."""
    for message in messages:
        LOG.info("mailed %s", json.loads(message.body)["order"])
    return ConsumeStatus.CONSUME_SUCCESS


class Queues(RebalanceListener):
    """Logs which queues come and go."""

    async def assigned(self, starts: Mapping[MessageQueue, int]) -> None:
        """Load the state of queues here."""
        LOG.info("queues %s", ", ".join(f"{mq} from {offset}" for mq, offset in starts.items()))

    async def revoked(self, mqs: Sequence[MessageQueue]) -> None:
        """Store the state of queues here."""
        LOG.info("queues %s are given up", ", ".join(map(str, mqs)))


def serve_probes(consumer: PushConsumer) -> ThreadingHTTPServer:
    """Answer liveness probes, from another thread; port 0 is any free one."""

    class Probe(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            health = consumer.health()
            is_well = health.is_member and not health.stuck(300)
            self.send_response(200 if is_well else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Probe)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


async def serve(name_servers: str) -> int:
    """Serve until a signal; return the number of messages that are left for the next start."""
    async with Client(name_servers) as client, Producer(client, "billing-producer") as producer:
        mailing = PushConsumer(client, group="mailing", topics=["bills"], listener=mail, settings=SETTINGS)
        billing = PushConsumer(
            client, group="billing", topics=["orders"], listener=Billing(producer), settings=SETTINGS,
            rebalance_listener=Queues(),
        )  # fmt: skip
        probes = serve_probes(billing)
        LOG.info("probes at http://127.0.0.1:%d", probes.server_port)
        try:
            async with mailing:  # ends after the billing, whose bills it mails
                left = await billing.serve()
        finally:
            probes.shutdown()
    return sum(each.count for each in [*left, *mailing.unfinished()])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    sys.exit(1 if asyncio.run(serve(sys.argv[1])) else 0)
