"""The differences between two images, at a cost that follows the difference (Kafka: TopicsDelta and TopicDelta).

A broker applies images, and may skip some. An image remembers what its last commits touched (`ClusterImage.commits`):
the commits that a broker has not seen name the topics and rows that may differ. If they do not reach back far enough,
all topics are compared. Either way a row differs if it is another object, since images share unchanged rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, count
from operator import is_not
from typing import NamedTuple
from weakref import ReferenceType, ref

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage, Rows, Topic


class TopicDelta(NamedTuple):
    """The change of one topic, by name. A topic that was created anew under its name has another topic id.

    Attributes:
        before: the topic in the earlier image; None if it lacked the topic.
        after: the topic in the later image; None if it was deleted.
        partitions: the numbers of the partitions that were added, removed, or have another state, ascending; all of
            them if the topic was created, created anew or deleted, or if its configs differ.
    """

    name: str
    before: Topic | None
    after: Topic | None
    partitions: list[int]

    @property
    def changed_partitions(self) -> Iterator[TopicPartition]:
        """The names of the partitions."""
        return (TopicPartition(self.name, index) for index in self.partitions)


class _Found(NamedTuple):
    """The last computed difference, with a weak reference to the earlier image."""

    before: ReferenceType[ClusterImage]
    deltas: tuple[TopicDelta, ...]


def changed_topics(before: ClusterImage | None, after: ClusterImage) -> Sequence[TopicDelta]:
    """Return what differs between two images, topic by topic, deleted topics first.

    All parts of a broker ask this of each image, and the brokers of one process share the images: the later image keeps
    the last answer.

    Args:
        before: the image that was seen last; None: there was none, so all topics are new.
    """
    known = after.delta
    if before is not None and isinstance(known, _Found) and known.before() is before:
        return known.deltas
    deltas = tuple(_compared(before, after))
    if before is not None:
        object.__setattr__(after, "delta", _Found(ref(before), deltas))
    return deltas


def _compared(before: ClusterImage | None, after: ClusterImage) -> Iterator[TopicDelta]:
    earlier: Mapping[str, Topic] = {} if before is None else before.topics
    touched = None if before is None else _touched_since(before, after)
    names: Iterable[tuple[str, Rows | None]]
    if touched is None:
        names = [(name, None) for name in earlier if name not in after.topics]
        names += [(name, None) for name in after.topics]
    else:
        names = sorted(touched.items(), key=lambda item: item[0] in after.topics)
    for name, rows in names:
        old, new = earlier.get(name), after.topics.get(name)
        if old is not new and (indexes := _changed_rows(old, new, rows)):
            yield TopicDelta(name, old, new, indexes)


def _touched_since(before: ClusterImage, after: ClusterImage) -> Mapping[str, Rows | None] | None:
    """Return the topics and rows that the commits between two images touched; None if these are not known."""
    if before.edits or after.edits:
        return None
    unseen = [commit for commit in after.commits if commit.base >= before.version]
    if not unseen or unseen[0].base != before.version:
        return None
    if len(unseen) == 1:
        return unseen[0].topics
    touched: dict[str, Rows | None] = {}
    for commit in unseen:
        for name, rows in commit.topics.items():
            known = touched.get(name, rows)
            touched[name] = None if known is None or rows is None else known | rows
    return touched


def _changed_rows(old: Topic | None, new: Topic | None, rows: Rows | None) -> list[int]:
    """Return the numbers of the partitions that differ; `rows` has all candidates, None if any partition is one."""
    if old is None or new is None or old.topic_id != new.topic_id or old.configs != new.configs:
        return list(range(max(len(topic.partitions) for topic in (old, new) if topic is not None)))
    was, now = old.partitions, new.partitions
    if rows is not None and len(was) == len(now):
        return [index for index in sorted(rows) if was[index] is not now[index]]
    shared = min(len(was), len(now))
    return [*compress(count(), map(is_not, was, now)), *range(shared, max(len(was), len(now)))]
