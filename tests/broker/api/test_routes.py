"""Tests of the routes: every advertised version is answered, and every answered version has a codec."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker import api
from purgatorio.broker.api import api_versions, init_producer_id
from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.features import FeatureLevels
from purgatorio.broker.api.registry import ApiHandler, Services
from purgatorio.broker.api.routes import APIS as REGISTERED
from purgatorio.broker.api.routes import own_routes, versions_as
from purgatorio.broker.group.config import GroupConfig
from purgatorio.broker.metadata.delayed_decision import MetadataPurgatories
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.releases import LATEST
from purgatorio.broker.routing.request import Routes
from purgatorio.broker.txn.marker_writer import MarkerWriter
from purgatorio.broker.txn.producer_ids import ProducerIds
from purgatorio.protocol.api import APIS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.purgatory import ActionQueue, Purgatory, Timer
from tests.broker.api.harness import Replies, context
from tests.broker.group.harness import GroupHarness
from tests.broker.routing.harness import route as made
from tests.broker.share import fetching
from tests.broker.share.state.harness import ShareHarness
from tests.broker.txn.harness import TransactionHarness


class Store:
    """A metadata store that commits when the test says so."""

    def __init__(self) -> None:
        self.image = ClusterImage(0, "test")
        self.submitted: list[tuple[Any, Any, Any]] = []

    def submit(self, decide: Any, done: Any, failed: Any = None) -> None:
        self.submitted.append((decide, done, failed))

    def deliver(self) -> None:
        decide, done, _ = self.submitted.pop(0)
        self.image, result = decide(self.image)
        done(result)


@pytest.fixture
def routes() -> Routes:
    store = Store()
    purgatory = Purgatory("topic", Timer(lambda: 0), actions=ActionQueue())
    purgatories = MetadataPurgatories(purgatory, purgatory, store.image)
    admin = AdminContext(1, store, random.Random(0), purgatories)  # type: ignore[arg-type]
    broker = fetching.ShareHarness()
    return own_routes(
        Services(
            admin=admin,
            replicas=broker.replicas,
            fetch_sessions=broker.fetch_sessions,
            groups=GroupHarness().groups,
            markers=MarkerWriter(broker.replicas, broker.clock, timeout_ms=5_000),
            transactions=TransactionHarness().transactions,
            shares=ShareHarness().shares,
            share_version=2,
            led_shares=broker.shares,
            fetch_max_bytes=1_000_000,
            versions=versions_as(LATEST),
        )
    )


def test_every_module_that_registers_an_api_is_listed_once_by_key() -> None:
    modules = [importlib.import_module(f"{api.__name__}.{each.name}") for each in pkgutil.iter_modules(api.__path__)]
    registered = [module.API for module in modules if hasattr(module, "API")]
    assert sorted(registered, key=lambda each: each.key) == list(REGISTERED)
    assert len({each.key for each in REGISTERED}) == len(REGISTERED)


@pytest.mark.slow
@pytest.mark.parametrize("key", [ApiKey.LIST_CONFIG_RESOURCES, ApiKey.LIST_PARTITION_REASSIGNMENTS])
def test_an_api_without_peculiarities_is_three_files_and_its_number(key: ApiKey) -> None:
    """What layers, routes and codecs have to know of an API, they find in its messages and its registration."""
    root = Path(api.__path__[0]).resolve().parents[1]
    files = {
        str(path.relative_to(root))
        for folder in ("broker", "protocol")
        for path in (root / folder).rglob("*.py")
        if re.search(rf"\b{key.name}\b", path.read_text(), re.IGNORECASE)
    }
    name = key.name.lower()
    wanted = {"protocol/api_key.py", "protocol/api.py", f"protocol/messages/{name}.py", f"broker/api/{name}.py"}
    assert files == wanted


@pytest.mark.parametrize("registered", REGISTERED, ids=lambda each: each.key.name)
def test_a_handlers_docstring_begins_with_its_api_and_names_the_answered_versions(
    registered: ApiHandler,
) -> None:
    source = Path(api.__path__[0], registered.bind.__module__.rpartition(".")[2] + ".py")
    docstring = ast.get_docstring(ast.parse(source.read_text()))  # compiled modules keep none
    name, key, versions = re.match(
        r"(\w+) \(key (\d+)\)[:,].*?Versions? (\d+(?:–\d+)?)", docstring or "", re.DOTALL
    ).groups()  # type: ignore[union-attr]
    answered = registered.answered_versions
    assert (name.lower(), int(key)) == (registered.key.name.replace("_", "").lower(), registered.key)
    assert versions == (f"{answered[0]}–{answered[-1]}" if len(answered) > 1 else str(answered[0]))


def test_every_advertised_version_has_a_codec(routes: Routes) -> None:
    for api_key in routes.versions:
        route = made(routes, api_key)
        lowest = max(route.min_version, route.min_answered_version)
        assert set(range(lowest, route.max_version + 1)) <= set(APIS[api_key].versions)


def test_every_route_has_an_error_response(routes: Routes) -> None:
    for api_key in routes.versions:
        route = made(routes, api_key)
        assert (
            isinstance(
                route.error_response(APIS[api_key].request(), ErrorCode.UNKNOWN_SERVER_ERROR), APIS[api_key].response
            )
            or api_key == ApiKey.PRODUCE
        )


def test_kafka_18659_produce_is_advertised_from_version_0_and_answered_from_3(routes: Routes) -> None:
    assert made(routes, ApiKey.PRODUCE).min_answered_version == 3
    assert routes.versions[ApiKey.PRODUCE].lowest == 0


def test_api_versions_lists_exactly_the_routes(routes: Routes) -> None:
    replies = Replies()
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    api_versions.handle(routes.versions, FeatureLevels(1, 2), context(ApiKey.API_VERSIONS, 3), request, replies)
    told = {row.api_key: (row.min_version, row.max_version) for row in replies.only.api_keys}
    assert told == {key: (made(routes, key).min_version, made(routes, key).max_version) for key in routes.versions}


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 10 + "\n"])
def test_kip_511_an_invalid_client_software_name_is_refused(routes: Routes, name: str) -> None:
    replies = Replies()
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    api_versions.handle(routes.versions, FeatureLevels(1, 2), context(ApiKey.API_VERSIONS, 3), request, replies)
    assert replies.only.error_code == ErrorCode.INVALID_REQUEST


def test_a_refusal_of_the_store_is_answered_with_a_retriable_error() -> None:
    store = Store()
    replies = Replies()
    transactions: Any = SimpleNamespace(producer_ids=ProducerIds(store))  # type: ignore[arg-type]
    init_producer_id.handle(
        transactions, context(ApiKey.INIT_PRODUCER_ID, 4), InitProducerIdRequest(transactional_id=None), replies
    )
    _, _, failed = store.submitted.pop()
    failed(RuntimeError("closed"))
    assert ErrorCode(replies.only.error_code).retriable


@pytest.mark.parametrize(
    ("request_", "error_of"),
    [
        (ConsumerGroupHeartbeatRequest(group_id="a"), lambda answer: answer.error_code),
        (ConsumerGroupDescribeRequest(group_ids=["a"]), lambda answer: answer.groups[0].error_code),
    ],
)
def test_groups_of_the_consumer_protocol_that_are_switched_off_get_unsupported_version(
    request_: Any, error_of: Any
) -> None:
    """By group.coordinator.rebalance.protocols."""
    (key,) = (each.key for each in APIS.values() if each.request is type(request_))
    (registered,) = (each for each in REGISTERED if each.key == key)
    groups = SimpleNamespace(config=GroupConfig(serves_consumers=False))
    off = SimpleNamespace(share_version=2, groups=groups, versions={key: registered.versions})
    replies = Replies()
    registered.route(off).handler(context(key, 0), request_, replies)  # type: ignore[arg-type]
    assert error_of(replies.only) == ErrorCode.UNSUPPORTED_VERSION
