"""ShareGroupDescribe (key 77): share groups with their members and assignments (KIP-932). Version 1.

A group that does not exist, or is of another kind, is answered with GROUP_ID_NOT_FOUND. A long answer is made in steps,
between which groups may change; a group that is named twice is described once.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.answers import NUMBER_BYTES, PIECE_BYTES, EntryPieces, answer_each
from purgatorio.broker.api.listing import GROUP_OPERATIONS, NO_OPERATIONS
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.share.assignor import NAME as ASSIGNOR
from purgatorio.broker.group.share.share_group import ShareGroup, ShareGroupMember
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.layers.access.guards.groups import hide_topics
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


def handle(groups: Groups, ctx: RequestContext, request: ShareGroupDescribeRequest, reply: Reply) -> None:
    """Answer with the state and members of each group, or its error."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NO_OPERATIONS
    answer_each(
        groups.listings,
        ctx,
        request.group_ids,
        partial(_describe, groups, operations),
        _refused,
        lambda described: reply(ShareGroupDescribeResponse(groups=described)),
    )


def _describe(groups: Groups, operations: int, group_id: str) -> EntryPieces[DescribedGroup]:
    try:
        group = groups.find(group_id, ShareGroup, "share")
    except CoordinatorError as error:
        return DescribedGroup(group_id=group_id, error_code=error.error_code, error_message=str(error))
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR,
        members=[],
        authorized_operations=operations,
    )
    image = groups.image
    for member in [group.members[member_id] for member_id in sorted(group.members)]:
        member_result = _member(image, member)
        described.members.append(member_result)
        yield _size_bytes(member_result)
    return described


def _size_bytes(member: Member) -> int:
    size_bytes = PIECE_BYTES + sum(map(len, member.subscribed_topic_names))
    for topic in member.assignment.topic_partitions:
        size_bytes += PIECE_BYTES + NUMBER_BYTES * len(topic.partitions)
    return size_bytes


def _refused(group_id: str, error_code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error_code)


def _member(image: ClusterImage, member: ShareGroupMember) -> Member:
    """Return a member with the names of its topics; those of deleted topics have none, and are left out."""
    assigned = member.current.assigned
    found = [(topic, assigned[topic_id]) for topic_id in assigned if (topic := image.topic_by_id(topic_id))]
    return Member(
        member_id=member.member_id,
        rack_id=member.subscription.rack_id,
        member_epoch=member.current.epoch,
        client_id=member.subscription.client_id,
        client_host=member.subscription.client_host,
        subscribed_topic_names=member.subscription.subscribed_topic_names,
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(numbers))
                for topic, numbers in sorted(found, key=lambda each: each[0].name)
            ]
        ),
    )


API: Final = ApiHandler(
    key=ApiKey.SHARE_GROUP_DESCRIBE,
    min_version=1,
    max_version=1,
    needs=EachOne(ApiKey.SHARE_GROUP_DESCRIBE, AclOperation.DESCRIBE, ResourceType.GROUP, change=hide_topics),
    bind=lambda services: partial(handle, services.groups),
)
