"""Metadata that were saved, checked.

Brokers trust each value of the metadata, as the requests that set it were checked. So a value that no request could
have set is refused here, before a broker starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from purgatorio.admin.operations.control.damage import Damaged, one_line, require, shown, whole
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.dynamic import DynamicBrokerConfig
from purgatorio.broker.config.group_configs import group_keys
from purgatorio.broker.layers.quotas.naming import entity_of, parts_of, value_problem
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.setting import MAX_INT
from purgatorio.broker.metadata import keys
from purgatorio.broker.metadata.clients import QuotaEntity, ScramCredential, ScramUser
from purgatorio.broker.metadata.controller import create_acls
from purgatorio.broker.metadata.controller.settings import MAX_PARTITIONS
from purgatorio.broker.metadata.image import (
    ALL_BROKERS,
    NO_LEADER,
    BrokerIncarnation,
    ClusterImage,
    PartitionState,
    Topic,
)
from purgatorio.broker.metadata.topic_name import topic_name_problem
from purgatorio.broker.security.scram_users import stored_problem

_ID_BYTES: Final = 16
_EMPTY: Final = ClusterImage(version=0, cluster_id="")


def written(image: ClusterImage) -> dict[str, Any]:
    """Return the metadata of an image as JSON values, in the keys of `metadata.keys`."""
    return {key: json.loads(value) for key, value in keys.all_keys(image).items()}


def read(metadata: Any) -> ClusterImage:
    """Return the image, without brokers, that such values make.

    Raises:
        UnknownFormat: a newer version wrote them.
        Damaged: brokers cannot have such metadata.
    """
    require(isinstance(metadata, dict), f"its metadata are no object, but {shown(metadata)}")
    _check_size(metadata)
    try:
        image = keys.image_of({key: json.dumps(value).encode() for key, value in metadata.items()})
        _check(image)
        again = written(image)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, OverflowError) as error:
        raise Damaged(f"its metadata cannot be read: {type(error).__name__}: {one_line(error)}") from None
    head = metadata[keys.CLUSTER]
    again[keys.CLUSTER] = {name: value for name, value in again[keys.CLUSTER].items() if name in head}  # or more by now
    for key, value in metadata.items():
        require(key in again and again[key] == value, f"its metadata cannot have this at {shown(key)}")
    return image


def _check_size(metadata: Mapping[str, Any]) -> None:
    """Check the numbers of partitions, by which the work of reading the topics goes."""
    heads = [value for key, value in metadata.items() if key.startswith("topics/") and isinstance(value, dict)]
    counts = [whole(head["count"], "a topic's number of partitions", low=1) for head in heads if "count" in head]
    require(sum(counts) <= MAX_PARTITIONS, f"its topics have more than {MAX_PARTITIONS} partitions")


def _check(image: ClusterImage) -> None:
    require(not image.brokers, "its metadata name brokers")
    require(isinstance(image.cluster_id, str), "the cluster's id is no text")
    whole(image.next_producer_id, "the next producer id")
    for name in ("version", "controller_id", "controller_epoch", "next_broker_epoch"):
        whole(getattr(image, name), name, low=-1)
    ids = {topic.topic_id for topic in image.topics.values()}
    require(len(ids) == len(image.topics), "two topics have the same id")
    for topic in image.topics.values():
        _check_topic(topic)
    for name, configs in image.broker_configs.items():
        _check_configs(f"broker {shown(name)}", configs, _try_broker_configs)
    for group_id, configs in image.group_configs.items():
        _check_configs(f"group {shown(group_id)}", configs, _try_group_configs)
    for entity, quotas in image.client_quotas.items():
        _check_quotas(entity, quotas)
    _check_acls(image)
    for user, credential in image.scram_credentials.items():
        _check_credential(user, credential)


def _check_topic(topic: Topic) -> None:
    problem = topic_name_problem(topic.name)
    require(problem is None, f"it has a topic that cannot be: {problem}")
    require(len(topic.topic_id) == _ID_BYTES and any(topic.topic_id), f"topic {topic.name} has no id")
    _check_configs(f"topic {topic.name}", topic.configs, lambda texts: LogConfig.from_strings(texts).consistent())
    for index, state in enumerate(topic.partitions):
        _check_state(f"{topic.name}-{index}", state)


def _check_state(where: str, state: PartitionState) -> None:
    for name, value in (("leader epoch", state.leader_epoch), ("partition epoch", state.partition_epoch)):
        whole(value, f"the {name} of {where}", high=MAX_INT)
    replicas = _check_brokers(f"the replicas of {where}", state.replicas)
    require(bool(replicas), f"{where} has no replicas")
    in_sync = _check_incarnations(f"the in-sync replicas of {where}", state.isr)
    eligible = _check_incarnations(f"the eligible replicas of {where}", state.elr)
    adding = _check_brokers(f"the replicas that are added to {where}", state.adding)
    removing = _check_brokers(f"the replicas that {where} loses", state.removing)
    leader = {whole(state.leader, f"the leader of {where}", low=NO_LEADER, high=MAX_INT)} - {NO_LEADER}
    named = in_sync | eligible | adding | removing | leader
    require(named <= replicas, f"broker {min(named - replicas, default=None)} is no replica of {where}")
    require(adding < replicas, f"{where} has only replicas that are being added")


def _check_brokers(where: str, ids: Sequence[Any]) -> set[int]:
    found = {whole(each, f"each of {where}", high=MAX_INT) for each in ids}
    require(len(found) == len(ids), f"{where} name a broker twice")
    return found


def _check_incarnations(where: str, incarnations: Sequence[BrokerIncarnation]) -> set[int]:
    for each in incarnations:
        whole(each.broker_epoch, f"each broker epoch of {where}")
    return _check_brokers(where, [each.broker_id for each in incarnations])


def _check_configs(where: str, configs: Any, attempt: Callable[[Mapping[str, str]], object]) -> None:
    """Check configs by doing with them as a broker does."""
    require(isinstance(configs, dict), f"the configs of {where} are no object, but {shown(configs)}")
    for name, text in configs.items():
        require(isinstance(text, str), f"config {shown(name)} of {where} is no text, but {shown(text)}")
    try:
        attempt(configs)
    except (ValueError, KeyError) as error:
        raise Damaged(f"{where} has a config that cannot be: {one_line(error)}") from None


def _try_broker_configs(configs: Mapping[str, str]) -> None:
    image = ClusterImage(version=0, cluster_id="", broker_configs={ALL_BROKERS: configs})
    DynamicBrokerConfig(BrokerConfig()).image_changed(image)
    LogConfig().with_broker_configs(configs)


def _try_group_configs(configs: Mapping[str, str]) -> None:
    """Read each config. Whether it is within the bounds that a broker's settings give is not looked at: they may differ
    from those with which it was set."""
    known = group_keys(BrokerConfig())
    for name, text in configs.items():
        if name not in known:
            raise ValueError(f"{name}: there is no such group config")
        if known[name].low is not None:
            int(text)
        else:
            known[name].parse(text)


def _check_quotas(entity: QuotaEntity, quotas: Any) -> None:
    require(entity_of(parts_of(entity)) == entity, "it has quotas of an address that is none")
    require(isinstance(quotas, dict) and bool(quotas), f"the quotas of {shown(entity)} are none")
    for name, value in quotas.items():
        is_number = type(value) is float or (type(value) is int and abs(value) < 1 << 64)
        require(is_number, f"quota {shown(name)} of {shown(entity)} is no number, but {shown(value)}")
        problem = value_problem(name, value, of_ip=entity.ip is not None)
        require(not problem, f"it has a quota that cannot be: {problem}")


def _check_acls(image: ClusterImage) -> None:
    _, results = create_acls(_EMPTY, list(image.acls))
    refused = next((each.message for each in results if each.error), None)
    require(refused is None, f"it has an ACL that cannot be: {refused}")


def _check_credential(user: ScramUser, credential: ScramCredential) -> None:
    require(type(credential.iterations) is int, f"the iterations of user {shown(user.name)} are no whole number")
    problem = stored_problem(user, credential)
    require(problem is None, f"user {shown(user.name)} has a credential that cannot be: {problem}")
