"""A change of the cluster by a request: its decision, its response, and the condition that the response waits for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

from purgatorio.broker.causes.cause import Cause
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode

R = TypeVar("R")
T = TypeVar("T")

DEFAULT_TIMEOUT_MS: Final = 30_000
"""The wait of requests without a timeout field; the default request timeout of Kafka's clients."""

ALL_TOPICS: Final = "all topics"
"""The watch key of requests that name no topics; checked at every new image."""

Decide = Callable[[ClusterImage], tuple[ClusterImage, Sequence[R]]]
"""Derives a new image and results of one slice of a change."""

SLICE_WEIGHT: Final = 150
"""The limit of one decision, unless a single change is larger: some milliseconds to make it, and again to follow it."""
WEIGHT_OF_PARTITIONS: Final = 8
"""As many partitions weigh as much as a topic."""


def slices(
    items: Iterable[T], key: Callable[[T], Hashable], weight: Callable[[T], int] = lambda item: 1
) -> list[list[T]]:
    """Cut the items of a request into slices for a decision each; repeated ones stay together, to be refused.

    Args:
        key: what an item names.
        weight: how much work it is; 1 is a change of a topic's configs.
    """
    by_key: dict[Hashable, list[T]] = {}
    for item in items:
        by_key.setdefault(key(item), []).append(item)
    cut: list[list[T]] = [[]]
    left = SLICE_WEIGHT
    for same in by_key.values():
        if left <= 0:
            cut.append([])
            left = SLICE_WEIGHT
        cut[-1] += same
        left -= weight(same[0])
    return cut


def only_tried(decisions: Iterable[Decide[R]]) -> list[Decide[R]]:
    """Return decisions that change nothing, each made as if those before were committed (validate_only)."""
    tried: dict[int, ClusterImage] = {}  # by number, since a decision may be made several times

    def trial(number: int, decide: Decide[R]) -> Decide[R]:
        def decide_as_if(image: ClusterImage) -> tuple[ClusterImage, Sequence[R]]:
            tried[number], results = decide(tried.get(number - 1, image))
            return image, results

        return decide_as_if

    return [trial(number, decide) for number, decide in enumerate(decisions)]


class ClusterChange(ABC, Generic[R]):
    """One request's change of the cluster; an API has a subclass, and passes an instance per request to `submit`.

    `R` is the decision's result for each topic, partition or resource that the request names.

    Attributes:
        purgatory: the purgatory in which the request waits: that of topics or that of elections.
        keys: the watch keys of the request.
        timeout_ms: the longest wait; then REQUEST_TIMED_OUT, though the change may still be committed. The store never
            decides within the call, so with 0 or less the request times out at once, as in Kafka.
    """

    purgatory: ClassVar[Literal["topics", "elections"]] = "topics"

    def __init__(self, keys: Sequence[Hashable], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        self.keys: Sequence[Hashable] = keys or (ALL_TOPICS,)
        self.timeout_ms = timeout_ms

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[R]]:
        """Derive the new image and the results; see `metadata.store.Decision`."""
        raise NotImplementedError(f"{type(self).__name__} overrides neither `decide` nor `decisions`")

    def decisions(self) -> Sequence[Decide[R]]:
        """Return the decisions that the change takes, each made when the one before is committed; one by default.

        A request that names thousands of things overrides it with `slices` of them, between which brokers do their
        other work. So a change that fails half-way has done its first slices: a client that asks again gets the rest.
        """
        return (self.decide,)

    @abstractmethod
    def respond(self, results: Sequence[R]) -> Any:
        """Make the response from the decision's results."""

    @abstractmethod
    def refuse(self, error_code: ErrorCode) -> Any:
        """Make the response with an error code, for a decision that is not known to be committed."""

    def unseen(self, image: ClusterImage, result: R) -> Cause | None:
        """Return a part of a result that the image does not show yet; None if it shows all. Override it to wait."""
        return None

    def timed_out(self, result: R, message: str) -> R:
        """Return the result with REQUEST_TIMED_OUT and this message; called for what is unseen at the deadline."""
        raise NotImplementedError(f"{type(self).__name__} overrides `unseen`, so it must override `timed_out`")

    def committed(self, results: Sequence[R]) -> None:
        """Called with the results when the decision is committed, even if the request has timed out."""
