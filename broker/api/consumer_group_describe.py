"""ConsumerGroupDescribe (key 69): consumer groups with their members and assignments (KIP-848).

Versions 0–1; v1 adds the protocol of each member. A group that does not exist, or uses the classic protocol, is
answered with GROUP_ID_NOT_FOUND: tools then ask DescribeGroups. A long answer is made in steps, between which groups
may change; a group that is named twice is described once.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.answers import NUMBER_BYTES, PIECE_BYTES, EntryPieces, answer_each
from purgatorio.broker.api.listing import GROUP_OPERATIONS, NO_OPERATIONS
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.consumer.consumer_group import ConsumerGroup
from purgatorio.broker.group.consumer.member import ConsumerGroupMember
from purgatorio.broker.group.consumer.records import choose_assignor
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.modern.partitions import NO_PARTITIONS, Partitions
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.layers.access.guards.groups import hide_topics
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def handle(groups: Groups, ctx: RequestContext, request: ConsumerGroupDescribeRequest, reply: Reply) -> None:
    """Answer with the state and members of each group, or its error."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NO_OPERATIONS
    answer_each(
        groups.listings,
        ctx,
        request.group_ids,
        partial(_describe, groups, operations),
        _refused,
        lambda described: reply(ConsumerGroupDescribeResponse(groups=described)),
    )


def _describe(groups: Groups, operations: int, group_id: str) -> EntryPieces[DescribedGroup]:
    try:
        group = groups.find(group_id, ConsumerGroup, "consumer")
    except CoordinatorError as error:
        return DescribedGroup(group_id=group_id, error_code=error.error_code, error_message=str(error))
    members = [group.members[member_id] for member_id in sorted(group.members)]
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=choose_assignor(member.subscription for member in members),
        members=[],
        authorized_operations=operations,
    )
    image, target = groups.image, group.target
    for member in members:  # as they were when the description began, though others may come and go between two
        member_result = _member(image, member, target.get(member.member_id, NO_PARTITIONS))
        described.members.append(member_result)
        yield _size_bytes(member_result)
    return described


def _size_bytes(member: Member) -> int:
    size_bytes = PIECE_BYTES + len(member.subscribed_topic_regex or "") + sum(map(len, member.subscribed_topic_names))
    for assignment in (member.assignment, member.target_assignment):
        for topic in assignment.topic_partitions:
            size_bytes += PIECE_BYTES + NUMBER_BYTES * len(topic.partitions)
    return size_bytes


def _refused(group_id: str, error_code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error_code)


def _member(image: ClusterImage, member: ConsumerGroupMember, target: Partitions) -> Member:
    subscription = member.subscription
    return Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.current.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=subscription.subscribed_topic_names,
        subscribed_topic_regex=subscription.subscribed_topic_regex or "",
        assignment=_assignment(image, member.current.held),
        target_assignment=_assignment(image, target),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(image: ClusterImage, partitions: Partitions) -> Assignment:
    """Return partitions with the names of their topics; those of deleted topics have none, and are left out."""
    found = [(topic, partitions[topic_id]) for topic_id in partitions if (topic := image.topic_by_id(topic_id))]
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(numbers))
            for topic, numbers in sorted(found, key=lambda each: each[0].name)
        ]
    )


API: Final = ApiHandler(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    min_version=0,
    max_version=1,
    needs=EachOne(ApiKey.CONSUMER_GROUP_DESCRIBE, AclOperation.DESCRIBE, ResourceType.GROUP, change=hide_topics),
    bind=lambda services: partial(handle, services.groups),
)
