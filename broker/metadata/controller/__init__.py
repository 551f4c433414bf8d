"""The controller's decisions: pure functions from an image to a new image and a result.

Any broker may make any decision; the metadata store's compare-and-set serializes them. A decision that changes nothing
returns the image that it was given. The caller passes in randomness.
"""

from purgatorio.broker.metadata.controller.acls import AclResult, FilterResult, create_acls, delete_acls
from purgatorio.broker.metadata.controller.brokers import (
    DuplicateBrokerId,
    allocate_producer_ids,
    fence_broker,
    random_epoch_step,
    register_broker,
    resume_broker,
    unregister_broker,
)
from purgatorio.broker.metadata.controller.configs import (
    ConfigChange,
    ConfigEdit,
    ConfigOperation,
    alter_broker_configs,
    alter_group_configs,
    alter_topic_configs,
    changing,
    replacing,
    topic_log_config,
)
from purgatorio.broker.metadata.controller.elections import (
    ElectionResult,
    ElectionType,
    PreferredElections,
    elect_leaders,
)
from purgatorio.broker.metadata.controller.in_sync import InSyncProposal, change_in_sync_sets
from purgatorio.broker.metadata.controller.partitions import MorePartitions, create_partitions
from purgatorio.broker.metadata.controller.reassignments import Reassignment, ReassignmentResult, reassign_partitions
from purgatorio.broker.metadata.controller.result import DecisionRefused, TopicResult
from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.controller.topics import NewTopic, TopicReference, create_topics, delete_topics

__all__ = [
    "AclResult",
    "ConfigChange",
    "ConfigEdit",
    "ConfigOperation",
    "DecisionRefused",
    "DuplicateBrokerId",
    "ElectionResult",
    "ElectionType",
    "FilterResult",
    "InSyncProposal",
    "MorePartitions",
    "NewTopic",
    "PreferredElections",
    "Reassignment",
    "ReassignmentResult",
    "TopicReference",
    "TopicResult",
    "TopicSettings",
    "allocate_producer_ids",
    "alter_broker_configs",
    "alter_group_configs",
    "alter_topic_configs",
    "change_in_sync_sets",
    "changing",
    "create_acls",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_topics",
    "elect_leaders",
    "fence_broker",
    "random_epoch_step",
    "reassign_partitions",
    "register_broker",
    "replacing",
    "resume_broker",
    "topic_log_config",
    "unregister_broker",
]
