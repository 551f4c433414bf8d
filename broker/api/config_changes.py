"""The common part of AlterConfigs and IncrementalAlterConfigs: which configs are changed, and what is answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.api.config_listing import ConfigResourceType, static_configs
from purgatorio.broker.api.context import AdminContext, topic_keys
from purgatorio.broker.metadata.cluster_change import ClusterChange, Decide, slices
from purgatorio.broker.metadata.controller import (
    ConfigEdit,
    DecisionRefused,
    alter_broker_configs,
    alter_group_configs,
    alter_topic_configs,
)
from purgatorio.broker.metadata.image import ALL_BROKERS, ClusterImage
from purgatorio.broker.metadata.topic_name import topic_name_problem
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode

EDIT_WEIGHT: Final = 2
"""The weight of a resource's configs in a slice: a name that is no config is compared with all that are."""


@dataclass(frozen=True, slots=True)
class ResourceEdit:
    """A resource that a request names, and how it changes the resource's configs."""

    resource_type: int
    resource_name: str
    edit: ConfigEdit


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """The outcome for one resource."""

    resource_type: int
    resource_name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class ConfigsChange(ClusterChange[ResourceResult]):
    """Changes the configs of each resource independently of the others.

    The configs of a topic or a group are changed at any broker, the dynamic configs of one broker (KIP-226) at that
    broker, as in Kafka, and those of all brokers at any. A resource that is named twice is refused with
    INVALID_REQUEST.

    Args:
        edits: the resources of the request, in its order.
        validate_only: whether the change is only checked.
        respond: makes the response from one result per resource.
    """

    def __init__(
        self,
        admin: AdminContext,
        edits: Sequence[ResourceEdit],
        *,
        validate_only: bool,
        respond: Callable[[Iterable[ResourceResult]], Any],
    ) -> None:
        super().__init__(
            topic_keys(edit.resource_name for edit in edits if edit.resource_type == ConfigResourceType.TOPIC)
        )
        self._admin = admin
        self._edits = edits
        self._validate_only = validate_only
        self._respond = respond

    def decisions(self) -> Sequence[Decide[ResourceResult]]:
        """Return a decision for each slice of the resources."""
        cut = slices(self._edits, lambda edit: (edit.resource_type, edit.resource_name), lambda edit: EDIT_WEIGHT)
        return [partial(self._decide, edits) for edits in cut]

    def _decide(
        self, edits: Sequence[ResourceEdit], image: ClusterImage
    ) -> tuple[ClusterImage, Sequence[ResourceResult]]:
        """Derive the image, and one result per resource."""
        times = Counter((edit.resource_type, edit.resource_name) for edit in edits)
        results: dict[tuple[int, str], ResourceResult] = {}
        for edit in edits:
            key = edit.resource_type, edit.resource_name
            if key not in results:
                try:
                    if times[key] > 1:
                        raise DecisionRefused(
                            ErrorCode.INVALID_REQUEST, "The request names this resource more than once."
                        )
                    image, results[key] = self._alter(image, edit)
                except DecisionRefused as refusal:
                    results[key] = ResourceResult(*key, refusal.error, refusal.message)
        return image, list(results.values())

    def _alter(self, image: ClusterImage, edit: ResourceEdit) -> tuple[ClusterImage, ResourceResult]:
        kind, name = edit.resource_type, edit.resource_name
        if kind == ConfigResourceType.BROKER:
            return self._alter_broker(image, name, edit.edit), ResourceResult(kind, name)
        if kind == ConfigResourceType.GROUP:
            image = alter_group_configs(
                image, name, edit.edit, keys=self._admin.group_keys, validate_only=self._validate_only
            )
            return image, ResourceResult(kind, name)
        if kind != ConfigResourceType.TOPIC:
            raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"Resources of type {kind} have no configs here.")
        if problem := topic_name_problem(name):
            raise DecisionRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        image, result = alter_topic_configs(
            image, name, edit.edit, settings=self._admin.topics, validate_only=self._validate_only
        )
        return image, ResourceResult(kind, name, result.error, result.message)

    def _alter_broker(self, image: ClusterImage, name: str, edit: ConfigEdit) -> ClusterImage:
        if name not in (ALL_BROKERS, str(self._admin.broker_id)):
            raise DecisionRefused(
                ErrorCode.INVALID_REQUEST,
                f"This is broker {self._admin.broker_id}; it cannot change configs of '{name}'.",
            )
        return alter_broker_configs(
            image,
            name,
            edit,
            keys=self._admin.dynamic_keys,
            static=static_configs(self._admin),
            is_fixed=self._admin.is_fixed,
            settings=self._admin.topics,
            validate_only=self._validate_only,
        )

    def respond(self, results: Sequence[ResourceResult]) -> Any:
        """Return the response with these results."""
        return self._respond(results)

    def refuse(self, error_code: ErrorCode) -> Any:
        """Return the response with `error_code` for every resource."""
        return self._respond(ResourceResult(edit.resource_type, edit.resource_name, error_code) for edit in self._edits)
