"""What the right requests of the draws are about: topics, groups, transactions; made before draws that need them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    create_acls,
    create_topics,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    join_group,
    list_offsets,
    metadata,
    offset_commit,
    produce,
    share_fetch,
    share_group_heartbeat,
    sync_group,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.compat.same_answers.talk import PATIENCE_SECONDS, subscription

BATCH_MS: Final = 1_700_000_000_000
"""The time of the records; both clusters keep them for ever."""
MOST_ATTEMPTS, FETCHES = 20, 10
TOPIC: Final = "drawn"
MADE: Final = "made-"
"""Names of what is made for one draw begin so."""


class Prepared:
    """Has things made in a cluster, so that the right request of an API has something to be about.

    Args:
        ask: sends a request, of an API and a version, as one that may do everything.
        prefix: the names of what is made for one draw begin with it.
    """

    def __init__(self, ask: Callable[[Message, int], Any], prefix: str) -> None:
        self._ask = ask
        self._prefix = prefix
        self._count = 0
        self._names: dict[str, Any] = {
            "subscription": subscription(TOPIC),
            "batch": build_batch([Record(0, BATCH_MS, None, b"drawn", ())]),
        }
        self._topic(TOPIC, 2)
        for _ in range(3):
            self._produce(TOPIC, self._names["batch"])
        self._commit("drawn-group")
        quota = alter_client_quotas
        entity = [quota.AlteredEntityPart(entity_type="user", entity_name="drawn-user")]
        ops = [
            quota.ClientQuotasOp(key="consumer_byte_rate", value=1e9),
            quota.ClientQuotasOp(key="request_percentage", value=1e4),
        ]
        entry = quota.AlterClientQuotasEntry(entity=entity, ops=ops)
        self._ask(quota.AlterClientQuotasRequest(entries=[entry]), 1)
        self._credential("drawn-user")
        self._names |= self._transaction("drawn-txn")
        producer = self._producer(None)
        batch = build_batch(
            [Record(0, BATCH_MS, None, b"drawn", ())],
            producer_id=producer["producer_id"],
            producer_epoch=0,
            base_sequence=0,
        )
        self._produce(TOPIC, batch)
        self._names["topic_id"] = self._topic_id(TOPIC)

    def names(self, key: ApiKey) -> dict[str, Any]:
        """Return the names for the next draw of an API, and have made what they name."""
        self._count += 1
        fresh = f"{self._prefix}-{self._count}"
        names = self._names | {
            "topic": TOPIC,
            "group": "drawn-group",
            "user": "drawn-user",
            "transactional_id": "drawn-txn",
            "new_topic": f"{fresh}-topic",
            "new_transactional_id": f"{fresh}-txn",
            "new_member": f"{fresh}-member",
            "share_member": "drawn-member",
            "member_id": "nobody",
            "unknown": f"{fresh}-unknown",
            "odd": f"{fresh} odd/\n",
            "long": fresh.ljust(300, "x"),
        }
        making = MAKING.get(key)
        return names | making(self, fresh) if making else names

    def _topic(self, name: str, partitions: int = 1) -> None:
        new = create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        self._ask(create_topics.CreateTopicsRequest(topics=[new], timeout_ms=10_000), 5)
        asked = [list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        ends = list_offsets.ListOffsetsRequest(topics=[list_offsets.ListOffsetsTopic(name=name, partitions=asked)])
        self._until(lambda: not any(each.error_code for each in self._ask(ends, 7).topics[0].partitions))

    def _topic_id(self, name: str) -> bytes:
        asked = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
        return bytes(self._ask(asked, 10).topics[0].topic_id)

    @staticmethod
    def _until(reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def _done(self, request: Message, version: int) -> Any:
        """Ask until there is no error, as coordinators are still loading, or busy with the transaction before."""
        found: list[Any] = []

        def reached() -> bool:
            found[:] = [self._ask(request, version)]
            return not found[0].error_code

        self._until(reached)
        return found[0]

    def _produce(self, topic: str, batch: Any) -> None:
        data = produce.TopicProduceData(
            name=topic, partition_data=[produce.PartitionProduceData(index=0, records=batch)]
        )
        request = produce.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
        answer = self._ask(request, 9)
        assert not answer.responses[0].partition_responses[0].error_code, answer

    def own_topic(self, fresh: str) -> dict[str, Any]:
        self._topic(f"{fresh}-topic", 2)
        return {"topic": f"{fresh}-topic", "topic_id": self._topic_id(f"{fresh}-topic")}

    def produced(self, fresh: str) -> dict[str, Any]:
        """A topic that all requests to produce share; what they append is not fetched."""
        if "produced" not in self._names:
            self._names["produced"] = self.own_topic(fresh)
        found: dict[str, Any] = self._names["produced"]
        return found

    def _commit(self, group: str) -> None:
        partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        request = offset_commit.OffsetCommitRequest(group_id=group, topics=[topic])
        self._until(lambda: not self._ask(request, 2).topics[0].partitions[0].error_code)

    def own_group(self, fresh: str) -> dict[str, Any]:
        self._commit(f"{fresh}-group")
        return {"group": f"{fresh}-group"}

    def new_group(self, fresh: str) -> dict[str, Any]:
        return {"group": f"{fresh}-group"}

    def joined(self, fresh: str) -> dict[str, Any]:
        protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=self._names["subscription"])
        request = join_group.JoinGroupRequest(
            group_id=f"{fresh}-group",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = self._done(request, 2)
        return {"group": f"{fresh}-group", "member_id": answer.member_id, "generation": answer.generation_id}

    def member(self, fresh: str) -> dict[str, Any]:
        names = self.joined(fresh)
        given = sync_group.SyncGroupRequestAssignment(member_id=names["member_id"])
        request = sync_group.SyncGroupRequest(
            group_id=names["group"],
            generation_id=names["generation"],
            member_id=names["member_id"],
            assignments=[given],
        )
        self._done(request, 1)
        return names

    def _producer(self, transactional_id: str | None) -> dict[str, Any]:
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=600_000
        )
        answer = self._done(request, 1)
        return {
            "transactional_id": transactional_id,
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
        }

    def producer(self, fresh: str) -> dict[str, Any]:
        return self._producer(f"{fresh}-txn")

    def _transaction(self, transactional_id: str) -> dict[str, Any]:
        names = self._producer(transactional_id)
        topic = add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[1])
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=names["producer_id"],
            v3_and_below_producer_epoch=names["producer_epoch"],
            v3_and_below_topics=[topic],
        )
        self._until(
            lambda: (
                not self._ask(request, 1).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            )
        )
        return names

    def transaction(self, fresh: str) -> dict[str, Any]:
        return self._transaction(f"{fresh}-txn")

    def marked(self, fresh: str) -> dict[str, Any]:
        """A transaction, and a topic that all requests to end one share."""
        return self.transaction(fresh) | self.produced(fresh)

    def with_offsets(self, fresh: str) -> dict[str, Any]:
        names = self.producer(fresh)
        request = add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=names["transactional_id"],
            producer_id=names["producer_id"],
            producer_epoch=names["producer_epoch"],
            group_id="drawn-group",
        )
        self._done(request, 0)
        return names

    def _credential(self, user: str) -> None:
        one = alter_user_scram_credentials.ScramCredentialUpsertion(
            name=user, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
        )
        request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=[one])
        self._ask(request, 0)

    def own_user(self, fresh: str) -> dict[str, Any]:
        self._credential(f"{fresh}-user")
        return {"user": f"{fresh}-user"}

    def acl(self, fresh: str) -> dict[str, Any]:
        one = create_acls.AclCreation(
            resource_type=2,
            resource_name=f"{fresh}-topic",
            principal="User:ann",
            host="*",
            operation=3,
            permission_type=3,
        )
        self._ask(create_acls.CreateAclsRequest(creations=[one]), 1)
        return {"topic": f"{fresh}-topic"}

    def share_session(self, fresh: str) -> dict[str, Any]:
        """Open a session of a new group, with the first record acquired.

        A broker may begin a group at the latest record, as it does not know the group's config yet: take another group.
        """
        for attempt in range(MOST_ATTEMPTS):
            group = f"{fresh}-share-{attempt}"
            configs = incremental_alter_configs
            change = configs.AlterableConfig(name="share.auto.offset.reset", value="earliest")
            resource = configs.AlterConfigsResource(resource_type=32, resource_name=group, configs=[change])
            self._ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)
            if any(self._acquires(group) for _ in range(FETCHES)):
                return {"group": group}
        raise AssertionError(f"no record for {fresh}")

    def _acquires(self, group: str) -> bool:
        self._heartbeat(group, 0)  # has the state made, again if a busy broker could not
        partition = share_fetch.FetchPartition(partition_index=0)
        request = share_fetch.ShareFetchRequest(
            group_id=group,
            member_id="drawn-member",
            max_bytes=1_000_000,
            max_records=1,
            batch_size=1,
            max_wait_ms=500,
            min_bytes=1,
            topics=[share_fetch.FetchTopic(topic_id=self._names["topic_id"], partitions=[partition])],
        )
        answer = self._ask(request, 1)
        return any(each.acquired_records for topic in answer.responses for each in topic.partitions)

    def _heartbeat(self, group: str, epoch: int) -> None:
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=group, member_id="drawn-member", member_epoch=epoch, subscribed_topic_names=[TOPIC]
        )
        self._done(request, 1)

    def share_group(self, fresh: str) -> dict[str, Any]:
        """A share group that knows where it begins, and has no member."""
        for epoch in (0, -1):
            self._heartbeat(f"{fresh}-share", epoch)
        offsets = alter_share_group_offsets
        partition = offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
        topic = offsets.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[partition])
        alter = offsets.AlterShareGroupOffsetsRequest(group_id=f"{fresh}-share", topics=[topic])
        self._done(alter, 0)
        return {"group": f"{fresh}-share"}

    def share_state(self, fresh: str) -> dict[str, Any]:
        state = initialize_share_group_state
        partition = state.InitializeStatePartition(partition=0, state_epoch=0, start_offset=0)
        topic = state.InitializeStateTopic(topic_id=self._names["topic_id"], partitions=[partition])
        request = state.InitializeShareGroupStateRequest(group_id=f"{fresh}-share", topics=[topic])
        self._until(
            lambda: (
                self._ask(request, 0).results[0].partitions[0].error_code
                in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)  # a secured cluster's brokers alone may
            )
        )
        return {"group": f"{fresh}-share"}


MAKING: Final[dict[ApiKey, Callable[[Prepared, str], dict[str, Any]]]] = {
    ApiKey.PRODUCE: Prepared.produced,
    ApiKey.OFFSET_COMMIT: Prepared.new_group,
    ApiKey.JOIN_GROUP: Prepared.new_group,
    ApiKey.SYNC_GROUP: Prepared.joined,
    ApiKey.HEARTBEAT: Prepared.member,
    ApiKey.LEAVE_GROUP: Prepared.member,
    ApiKey.DELETE_TOPICS: Prepared.own_topic,
    ApiKey.DELETE_RECORDS: Prepared.own_topic,
    ApiKey.CREATE_PARTITIONS: Prepared.own_topic,
    ApiKey.ADD_PARTITIONS_TO_TXN: Prepared.producer,
    ApiKey.ADD_OFFSETS_TO_TXN: Prepared.producer,
    ApiKey.END_TXN: Prepared.transaction,
    ApiKey.WRITE_TXN_MARKERS: Prepared.marked,
    ApiKey.TXN_OFFSET_COMMIT: Prepared.with_offsets,
    ApiKey.DESCRIBE_ACLS: Prepared.acl,
    ApiKey.DELETE_ACLS: Prepared.acl,
    ApiKey.DELETE_GROUPS: Prepared.own_group,
    ApiKey.OFFSET_DELETE: Prepared.own_group,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Prepared.own_user,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Prepared.new_group,
    ApiKey.SHARE_GROUP_HEARTBEAT: Prepared.new_group,
    ApiKey.SHARE_FETCH: Prepared.share_session,
    ApiKey.SHARE_ACKNOWLEDGE: Prepared.share_session,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Prepared.share_group,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Prepared.share_group,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Prepared.share_group,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Prepared.new_group,
    ApiKey.READ_SHARE_GROUP_STATE: Prepared.share_state,
    ApiKey.WRITE_SHARE_GROUP_STATE: Prepared.share_state,
    ApiKey.DELETE_SHARE_GROUP_STATE: Prepared.share_state,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Prepared.share_state,
}
"""What is made anew for each draw of an API."""
