"""A change of the cluster by a request: its decision, its response, and the condition that the response waits for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode

R = TypeVar("R")

DEFAULT_TIMEOUT_MS: Final = 30_000
"""The wait of requests without a timeout field; the default request timeout of Kafka's clients."""

ALL_TOPICS: Final = "all topics"
"""The watch key of requests that name no topics; checked at every new image."""


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

    @abstractmethod
    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[R]]:
        """Derive the new image and the results; see `metadata.store.Decision`."""

    @abstractmethod
    def respond(self, results: Sequence[R]) -> Any:
        """Make the response from the decision's results."""

    @abstractmethod
    def refuse(self, error_code: ErrorCode) -> Any:
        """Make the response with an error code, for a decision that is not known to be committed."""

    def missing(self, image: ClusterImage, result: R) -> str:
        """Describe the part of a result that the image does not show yet; "" if it shows all. Override it to wait."""
        return ""

    def timed_out(self, result: R, missing: str) -> R:
        """Return the result with REQUEST_TIMED_OUT; called if a part is still missing at the deadline."""
        raise NotImplementedError(f"{type(self).__name__} overrides `missing`, so it must override `timed_out`")

    def committed(self, results: Sequence[R]) -> None:
        """Called with the results when the decision is committed, even if the request has timed out."""
