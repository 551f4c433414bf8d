"""The decision of AlterClientQuotas: a pure function from an image to the next one (KIP-546)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from purgatorio.broker.layers.quotas.naming import BadEntity, EntityPart, entity_of, value_problem
from purgatorio.broker.metadata.clients import QuotaEntity
from purgatorio.broker.metadata.controller import DecisionRefused
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode

MAX_ENTITIES: Final = 10_000
"""Entities with quotas in a cluster: every change copies the table, and every broker holds it."""


class QuotaEdit(NamedTuple):
    """A quota to set; None removes it."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class EntityEdit:
    """The edits of one entity's quotas."""

    parts: Sequence[EntityPart]
    edits: Sequence[QuotaEdit]


@dataclass(frozen=True, slots=True)
class EntityResult:
    """The outcome for one entity."""

    parts: Sequence[EntityPart]
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_client_quotas(
    image: ClusterImage, edits: Sequence[EntityEdit], *, validate_only: bool = False
) -> tuple[ClusterImage, list[EntityResult]]:
    """Edit each entity independently of the others; an entity that is named twice is refused both times."""
    times = Counter(frozenset(edit.parts) for edit in edits)
    quotas = dict(image.client_quotas)
    results = []
    for edit in edits:
        try:
            if times[frozenset(edit.parts)] > 1:
                raise DecisionRefused(ErrorCode.INVALID_REQUEST, "The request names this entity more than once.")
            _edit(quotas, edit)
        except DecisionRefused as refusal:
            results.append(EntityResult(edit.parts, refusal.error, refusal.message))
        else:
            results.append(EntityResult(edit.parts))
    if validate_only or quotas == image.client_quotas:
        return image, results
    return image.with_client_quotas(quotas), results


def _edit(quotas: dict[QuotaEntity, Mapping[str, float]], edit: EntityEdit) -> None:
    try:
        entity = entity_of(edit.parts)
    except BadEntity as error:
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
    values = dict(quotas.get(entity, {}))
    edited = set()
    for key, value in edit.edits:
        if key in edited:
            raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"The request names {key} of this entity more than once.")
        edited.add(key)
        problem = value_problem(key, 1.0 if value is None else value, of_ip=entity.ip is not None)
        if problem:
            raise DecisionRefused(ErrorCode.INVALID_REQUEST, problem)
        if value is None:
            values.pop(key, None)  # removing what is not there is no error
        else:
            values[key] = value
    if not values:
        quotas.pop(entity, None)
    elif entity not in quotas and len(quotas) >= MAX_ENTITIES:
        raise DecisionRefused(
            ErrorCode.POLICY_VIOLATION, f"The cluster has quotas of {MAX_ENTITIES} entities, its limit."
        )
    else:
        quotas[entity] = values
