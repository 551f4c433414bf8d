"""Tests of the cluster image as keys: any chain of changes, read in any split, gives the image that was committed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatorio.broker.metadata import keys
from purgatorio.broker.metadata.acls import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from purgatorio.broker.metadata.clients import QuotaEntity, ScramCredential, ScramMechanism, ScramUser
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import (
    BrokerIncarnation,
    BrokerRegistration,
    ClusterImage,
    Endpoint,
    PartitionState,
    Topic,
)
from purgatorio.broker.metadata.keys import (
    CLUSTER,
    KeyChanges,
    UnknownFormat,
    all_keys,
    applied,
    changes,
    image_of,
    last_values,
)

EMPTY = ClusterImage(version=0, cluster_id="test")
Change = Callable[[ClusterImage], ClusterImage]

NAMES = st.sampled_from(("a", "b", "orders", "__consumer_offsets"))
CLIENT_NAMES = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(("a/b", "x&y=z", "%2F", "*"))
IDS = st.integers(1, 4)
EPOCHS = st.integers(0, 2**31 - 1)
INCARNATIONS = st.lists(st.builds(BrokerIncarnation, IDS, EPOCHS), max_size=3).map(tuple)
BROKER_IDS = st.lists(IDS, max_size=3).map(tuple)
STATES = st.builds(
    PartitionState,
    leader=st.integers(-1, 4),
    leader_epoch=EPOCHS,
    replicas=BROKER_IDS,
    isr=INCARNATIONS,
    partition_epoch=EPOCHS,
    elr=INCARNATIONS,
    adding=BROKER_IDS,
    removing=BROKER_IDS,
)
CONFIGS = st.dictionaries(st.sampled_from(("retention.ms", "cleanup.policy")), CLIENT_NAMES, max_size=2)
TOPICS = st.builds(
    Topic, NAMES, st.binary(min_size=16, max_size=16), st.lists(STATES, min_size=1, max_size=7).map(tuple), CONFIGS
)
REGISTRATIONS = st.builds(
    BrokerRegistration,
    broker_id=IDS,
    broker_epoch=EPOCHS,
    endpoints=st.lists(st.builds(Endpoint, CLIENT_NAMES, CLIENT_NAMES, EPOCHS), max_size=2).map(tuple),
    rack=st.none() | CLIENT_NAMES,
    lease_id=st.integers(-1, 9),
    fenced=st.booleans(),
)
ACLS = st.builds(
    AclBinding,
    st.sampled_from(ResourceType),
    CLIENT_NAMES,
    st.sampled_from(PatternType),
    CLIENT_NAMES,
    CLIENT_NAMES,
    st.sampled_from(AclOperation),
    st.sampled_from(PermissionType),
)
MAYBE = st.none() | CLIENT_NAMES
QUOTAS = st.dictionaries(
    st.builds(QuotaEntity, user=CLIENT_NAMES, client_id=MAYBE) | st.builds(QuotaEntity, ip=CLIENT_NAMES),
    st.dictionaries(st.sampled_from(("producer_byte_rate",)), st.floats(0.1, 1e12), min_size=1),
    max_size=3,
)
CREDENTIALS = st.dictionaries(
    st.builds(ScramUser, CLIENT_NAMES, st.sampled_from(ScramMechanism)),
    st.builds(ScramCredential, st.binary(max_size=3), st.binary(max_size=3), st.binary(max_size=3), EPOCHS),
    max_size=3,
)


def moved(name: str, index: int, state: PartitionState) -> Change:
    """Change one partition, if there is one."""

    def change(image: ClusterImage) -> ClusterImage:
        topic = image.topics.get(name)
        if topic is None or not topic.partitions:
            return image
        return image.with_partitions({(name, index % len(topic.partitions)): state})

    return change


def with_acls(image: ClusterImage, acls: list[AclBinding]) -> ClusterImage:
    """Delete the oldest ACL, and create others."""
    kept = list(image.acls)[1:]
    return image.with_acls([*kept, *(acl for acl in acls if acl not in image.acls)])


CHANGES = st.one_of(
    st.lists(TOPICS, max_size=3).map(lambda topics: lambda image: image.with_topics(topics)),
    st.lists(NAMES, max_size=2).map(
        lambda names: lambda image: image.without_topics([name for name in names if name in image.topics])
    ),
    st.builds(moved, NAMES, st.integers(0, 7), STATES),
    REGISTRATIONS.map(lambda broker: lambda image: image.with_broker(broker)),
    IDS.map(lambda broker_id: lambda image: image.without_broker(broker_id)),
    st.tuples(CLIENT_NAMES, CONFIGS).map(lambda each: lambda image: image.with_broker_configs(*each)),
    st.tuples(CLIENT_NAMES, CONFIGS).map(lambda each: lambda image: image.with_group_configs(*each)),
    QUOTAS.map(lambda quotas: lambda image: image.with_client_quotas(quotas)),
    st.lists(ACLS, max_size=3).map(lambda acls: lambda image: with_acls(image, acls)),
    CREDENTIALS.map(lambda users: lambda image: image.with_scram_credentials(users)),
    EPOCHS.map(lambda number: lambda image: replace(image, next_producer_id=number)),
)


class Store:
    """Keys as a store outside of the process would hold them, and what was committed since a reader looked."""

    def __init__(self) -> None:
        self.image = EMPTY
        self.keys = all_keys(EMPTY)
        self.unread: dict[str, bytes | None] = {}

    def commit(self, change: Change) -> None:
        """Commit a change; one that changes nothing is no commit."""
        proposed = change(self.image)
        if proposed is self.image:
            return
        version = self.image.version + 1
        changed = keys.committed(changes(self.image, proposed), version)
        self.image = proposed.with_version(version)
        self.keys = {key: value for key, value in self.keys.items() if key not in changed.deletes} | changed.puts
        self.unread |= dict.fromkeys(changed.deletes) | dict(changed.puts)

    def read(self) -> KeyChanges:
        """Return the last values of all keys that changed since this was called last."""
        unread, self.unread = self.unread, {}
        return last_values(unread)


@pytest.fixture(autouse=True, scope="module")
def short_pages() -> Iterator[None]:
    """Make pages of three partitions: topics have several."""
    with patch.object(keys, "PAGE_PARTITIONS", 3):
        yield


def same(read: ClusterImage, written: ClusterImage) -> None:
    assert read == written
    assert list(read.acls) == list(written.acls), "ACLs are listed in the order of their creation"
    assert list(read.brokers) == list(written.brokers)
    assert read.topic_names == written.topic_names


@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=8))
@settings(max_examples=100)
def test_any_chain_of_changes_read_in_any_split_gives_the_committed_image(
    steps: list[tuple[Change, bool]],
) -> None:
    store, reader = Store(), EMPTY
    for change, reads in steps:
        store.commit(change)
        if reads and store.unread:
            before, reader = reader, applied(reader, store.read())
            same(reader, store.image)
            deltas = {delta.name: delta for delta in changed_topics(before, reader)}
            for name, topic in reader.topics.items():
                known = before.topics.get(name)
                if name not in deltas:
                    assert topic == known, "a reader is told of each topic that differs"
                elif known is not None and known.topic_id == topic.topic_id and known.configs == topic.configs:
                    indexes = range(max(len(known.partitions), len(topic.partitions)))
                    differs = [i for i in indexes if before.partition(name, i) != reader.partition(name, i)]
                    assert deltas[name].partitions == differs, "and of no partition that is as it was"
    same(image_of(store.keys), store.image)
    # A key that is left behind would come to life again with a name that is used again.
    assert store.keys.keys() == all_keys(store.image).keys()


def many(count: int) -> Topic:
    state = PartitionState(1, 5, (1, 2, 3), tuple(BrokerIncarnation(i, 1_000_000 + i) for i in (1, 2, 3)), 77)
    return Topic("wide", bytes(16), (state,) * count)


def test_the_change_of_one_partition_writes_one_page() -> None:
    before = EMPTY.with_topics([many(10)]).with_version(1)
    state = replace(before.topics["wide"].partitions[7], leader=2)
    changed = changes(before, before.with_partitions({("wide", 7): state}))
    assert changed.deletes == ()
    assert set(changed.puts) == {"topics/wide/2", CLUSTER}


def test_an_isr_change_of_a_topic_of_ten_thousand_partitions_writes_at_most_64_kilobytes() -> None:
    with patch.object(keys, "PAGE_PARTITIONS", 500):
        before = EMPTY.with_topics([many(10_000)]).with_version(1)
        state = replace(before.topics["wide"].partitions[4_321], isr=(BrokerIncarnation(1, 1_000_001),))
        changed = changes(before, before.with_partitions({("wide", 4_321): state}))
        assert sum(map(len, changed.puts.values())) <= 64 * 1024


def test_rows_that_did_not_change_are_the_same_objects() -> None:
    store = Store()
    store.commit(lambda image: image.with_topics([many(10)]))
    reader = applied(EMPTY, store.read())
    store.commit(lambda image: moved("wide", 7, replace(image.topics["wide"].partitions[7], leader=2))(image))
    rows = applied(reader, store.read()).topics["wide"].partitions
    assert [i for i in range(10) if rows[i] is not reader.topics["wide"].partitions[i]] == [7]


def test_what_the_first_version_wrote_can_be_read() -> None:
    """Never change these values: clusters on etcd have them."""
    written = {
        "cluster": '{"format":1,"version":9,"cluster_id":"c","controller_id":1,"controller_epoch":2,'
        '"next_producer_id":3000,"next_broker_epoch":5}',
        "brokers/1": '{"epoch":4,"endpoints":[["PLAINTEXT","10.0.0.1",9092]],"rack":"r1","lease":7,"fenced":false}',
        "topics/orders": '{"id":"000102030405060708090a0b0c0d0e0f","configs":{"retention.ms":"1000"},"count":4,'
        '"rows":[[1,0,0,[1],[[1,4]]],[-1,3,8,[1,2],[],[[2,3]]],[1,0,0,[1],[[1,4]]]]}',
        "topics/orders/1": '{"rows":[[1,0,0,[1,2],[[1,4]],[],[2]]]}',
        "configs/broker/": '{"log.retention.ms":"5"}',
        "configs/group/a%2Fb": '{"consumer.session.timeout.ms":"6000"}',
        "quotas/user=&client-id=x": '{"producer_byte_rate":1024.0}',
        "acls/2/orders/3/User:alice/*/3/3": "[8,0]",
        "scram/1/alice": '["c2FsdA==","c2tleQ==","dmtleQ==",4096]',
    }
    image = image_of({key: value.encode() for key, value in written.items()})
    lone = PartitionState(1, 0, (1,), (BrokerIncarnation(1, 4),))
    rows = (
        lone,
        PartitionState(-1, 3, (1, 2), (), 8, (BrokerIncarnation(2, 3),)),
        lone,
        PartitionState(1, 0, (1, 2), (BrokerIncarnation(1, 4),), adding=(2,)),
    )
    acl = AclBinding(
        ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, PermissionType.ALLOW
    )
    user = ScramUser("alice", ScramMechanism.SCRAM_SHA_256)
    assert image == ClusterImage(
        version=9,
        cluster_id="c",
        controller_id=1,
        brokers={1: BrokerRegistration(1, 4, (Endpoint("PLAINTEXT", "10.0.0.1", 9092),), "r1", 7)},
        topics={"orders": Topic("orders", bytes(range(16)), rows, {"retention.ms": "1000"})},
        next_producer_id=3000,
        next_broker_epoch=5,
        broker_configs={"": {"log.retention.ms": "5"}},
        client_quotas={QuotaEntity(user="", client_id="x"): {"producer_byte_rate": 1024.0}},
        acls={acl: None},
        scram_credentials={user: ScramCredential(b"salt", b"skey", b"vkey", 4096)},
        controller_epoch=2,
        group_configs={"a/b": {"consumer.session.timeout.ms": "6000"}},
    )
    assert {key: value.decode() for key, value in all_keys(image).items() if not key.startswith("acls")} == {
        key: value for key, value in written.items() if not key.startswith("acls")
    }


def test_keys_of_a_newer_version_are_refused_with_both_versions() -> None:
    head = {**json.loads(all_keys(EMPTY)[CLUSTER]), "format": 2}
    with pytest.raises(UnknownFormat, match="have format 2; this version knows formats up to 1"):
        image_of({CLUSTER: json.dumps(head).encode()})


def test_keys_without_a_cluster_are_refused() -> None:
    with pytest.raises(UnknownFormat, match="holds no cluster"):
        image_of({})
