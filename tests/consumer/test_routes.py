from __future__ import annotations

from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.consumer.routes import Routes
from rmqctl.errors import NotFoundError
from rmqctl.protocol.codes import RequestCode as Q
from tests.consumer.group import ScriptedGroup
from tests.scripted_peer import SILENCE, passing


async def test_a_route_is_fetched_again_when_it_is_old_and_the_addresses_follow() -> None:
    group = ScriptedGroup(replica_count=2)
    async with group.client() as client:
        routes = Routes(FreshRoutes(client, 30.0))
        assert routes.route("T") is None
        assert routes.address("broker-a") is None
        await routes.refresh(["T"])
        assert (routes.address("broker-a"), routes.address("broker-a", 1)) == ("broker-a-0:1", "broker-a-1:1")
        assert routes.address("broker-a", 2) is None
        group.topics["T"] = 9
        group.brokers[0].addresses[0] = "elsewhere:1"
        await group.clock.advance(29.9)
        await routes.refresh(["T"])
        assert group.asked_routes() == ["T"]
        await group.clock.advance(0.1)
        await routes.refresh(["T"])
        assert group.asked_routes() == ["T", "T"]
        route = routes.route("T")
        assert route is not None
        assert len(route.readable_queues()) == 9
        assert routes.address("broker-a") == "elsewhere:1"


async def test_what_can_not_be_fetched_anew_stays_as_it_was_and_no_other_topic_suffers() -> None:
    group = ScriptedGroup()
    async with group.client() as client:
        routes = Routes(FreshRoutes(client, 30.0))
        await routes.refresh(["T", "%RETRY%G", "Missing"])
        assert [type(error) for error in routes.errors.values()] == [NotFoundError]
        assert routes.route("Missing") is None
        del group.topics["T"]
        await group.clock.advance(30)
        await routes.refresh(["T", "%RETRY%G", "Missing"])
        assert set(routes.errors) == {"Missing"}
        assert routes.route("T") is not None
        # A topic without a route is asked for each time, for it may come at any moment.
        group.topics |= {"T": 8, "Missing": 1}
        await routes.refresh(["T", "%RETRY%G", "Missing"])
        assert routes.errors == {}
        assert group.asked_routes()[-2:] == ["T", "Missing"]


async def test_a_name_server_that_is_silent_takes_nothing_away() -> None:
    group = ScriptedGroup()
    async with group.client() as client:
        routes = Routes(FreshRoutes(client, 30.0))
        await routes.refresh(["T"])
        group.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = SILENCE
        await group.clock.advance(30)
        before_s = group.clock.monotonic_s()
        await passing(group.clock, routes.refresh(["T"]))
        assert group.clock.monotonic_s() - before_s == 1
        assert routes.address("broker-a") == "broker-a-0:1"
        assert routes.errors == {}


async def test_topics_and_brokers_that_are_not_asked_for_any_more_are_forgotten() -> None:
    group = ScriptedGroup()
    async with group.client() as client:
        routes = Routes(FreshRoutes(client, 30.0))
        await routes.refresh(["T", "Missing"])
        await routes.refresh([])
        assert routes.route("T") is None
        assert (list(routes.brokers()), routes.errors) == ([], {})
        # What is still to be stored there needs its address.
        assert (routes.address("broker-a"), routes.address("broker-b")) == ("broker-a-0:1", None)
