"""A change of the cluster that a request asks for: what is decided, what is answered, and what is waited for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode

R = TypeVar("R")

DEFAULT_TIMEOUT_MS: Final = 30_000
"""For requests that do not say how long they wait; the default request timeout of Kafka's clients."""

ALL_TOPICS: Final = "all topics"
"""Watched by requests that name no topics; checked at every new image."""


class ClusterChange(ABC, Generic[R]):
    """One request's change of the cluster; an API makes one of each request and gives it to `submit`.

    `R` is what the decision says of each thing that the request names: a topic, a partition, a resource.

    Attributes:
        purgatory: where the request waits: with those that change topics, or with elections.
        keys: what the request is about, and so what it is watched under.
        timeout_ms: how long the client waits; REQUEST_TIMED_OUT after that, though the change may still come. The store
            decides nothing within the call, so a client that does not wait (0, or less) is told so at once, as by
            Kafka.
    """

    purgatory: ClassVar[Literal["topics", "elections"]] = "topics"

    def __init__(self, keys: Sequence[Hashable], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        self.keys: Sequence[Hashable] = keys or (ALL_TOPICS,)
        self.timeout_ms = timeout_ms

    @abstractmethod
    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[R]]:
        """Derive the image that the store is to commit, and the results; see `metadata.store.Decision`."""

    @abstractmethod
    def respond(self, results: Sequence[R]) -> Any:
        """Make the response from the decision's results."""

    @abstractmethod
    def refuse(self, error_code: ErrorCode) -> Any:
        """Make the response that says that nothing is known to have changed, and why."""

    def missing(self, image: ClusterImage, result: R) -> str:
        """What of a result an image does not show yet, in words; "" if nothing. A change that waits overrides it."""
        return ""

    def timed_out(self, result: R, missing: str) -> R:
        """The result with REQUEST_TIMED_OUT, for one that is still missing when the time is over."""
        raise NotImplementedError(f"{type(self).__name__} overrides `missing`, so it must override `timed_out`")

    def committed(self, results: Sequence[R]) -> None:
        """Told of the results as soon as they are certain, even if the client has stopped waiting."""
