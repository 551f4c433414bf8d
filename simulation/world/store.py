"""The simulated metadata store, and its links to the brokers' nodes, which faults delay and cut."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Final

from purgatorio.broker.metadata.embedded import EmbeddedStore, EmbeddedView, StoreChannel
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.keys import KeyChanges, all_keys, applied, changes, committed, image_of, last_values
from purgatorio.purgatory.clock import Clock
from purgatorio.simulation.world.loop import Node, SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork

STORE_LATENCY_MS: Final = (0.1, 2.0)


class StoreLink:
    """The link between a broker's node and the metadata store: it delays messages, and holds them while it is cut.

    Args:
        store: the node that the store runs on, whose turns carry messages to it; None: the store has time for each.

    Attributes:
        healed_at: the loop's time at which it was healed or resumed last.
    """

    def __init__(self, network: SimulatedNetwork, rng: random.Random, node: Node, store: Node | None = None) -> None:
        self._network = network
        self._rng = rng
        self._node = node
        self._store = store
        self.latency_ms = STORE_LATENCY_MS
        self.healed_at = -math.inf
        self._suspended = False
        self._to_store: deque[Callable[[], None]] = deque()
        self._to_broker: deque[Callable[[], None]] = deque()
        self._cut: list[deque[Callable[[], None]]] = []
        self._free_at = {id(self._to_store): 0.0, id(self._to_broker): 0.0}

    def to_store(self, deliver: Callable[[], None]) -> None:
        store = self._store
        self._send(self._to_store, deliver if store is None else lambda: store.call(deliver))

    def to_broker(self, deliver: Callable[[], None]) -> None:
        self._send(self._to_broker, lambda: self._node.call(deliver))

    def cut(self, *, to_store: bool = True, to_broker: bool = True) -> None:
        """Hold every message of these directions, and go on holding those of a direction that is cut already."""
        for queue, cut in ((self._to_store, to_store), (self._to_broker, to_broker)):
            if cut and not any(queue is each for each in self._cut):
                self._cut.append(queue)

    def heal(self) -> None:
        """Undo all faults: deliver the held messages, with new delays, unless the process is suspended."""
        self.latency_ms = STORE_LATENCY_MS
        held, self._cut = self._cut, []
        self._deliver_held(held)

    def suspend(self) -> None:
        """Hold every message: neither the store nor the broker runs."""
        self._suspended = True

    def resume(self) -> None:
        """Deliver the held messages, with new delays, unless the link is cut."""
        if self._suspended:
            self._suspended = False
            self._deliver_held([self._to_store, self._to_broker])

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.latency_ms == STORE_LATENCY_MS and not self._cut and not self._suspended

    def _holds(self, queue: deque[Callable[[], None]]) -> bool:
        return self._suspended or any(queue is cut for cut in self._cut)

    def _deliver_held(self, queues: list[deque[Callable[[], None]]]) -> None:
        self.healed_at = self._network.loop.time()
        for queue in queues:
            if not self._holds(queue):
                for _ in range(len(queue)):
                    self._schedule(queue)

    def _send(self, queue: deque[Callable[[], None]], deliver: Callable[[], None]) -> None:
        if self._node.alive:
            queue.append(deliver)
            if not self._holds(queue):
                self._schedule(queue)

    def _schedule(self, queue: deque[Callable[[], None]]) -> None:
        when = self._network.loop.time() + self._rng.uniform(*self.latency_ms) / 1000
        self._free_at[id(queue)] = when = max(self._free_at[id(queue)], when)
        self._network.loop.call_at(when, lambda: self._arrive(queue), context=self._network.loop.world)

    def _arrive(self, queue: deque[Callable[[], None]]) -> None:
        if not self._holds(queue) and queue:
            queue.popleft()()


class WatchedStore(EmbeddedStore):
    """A metadata store that reports its changes, may skip images, and whose answers may be lost.

    Args:
        skips_images: whether a broker is notified with the image of the time at which the notification arrives, and
            misses those before it; else it sees each image.
        keyed: whether the store holds the image as keys, as one outside of the process does: each broker makes its
            images of the keys that commits and notifications bring. Notifications may come twice.

    Attributes:
        lost_answers: the probability that the answer to a commit is lost: as the client of a remote store has to, the
            broker then reads the image, and decides again.
        committed: called with the images before and after each committed change.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        rng: random.Random,
        clock: Clock,
        *,
        skips_images: bool = False,
        keyed: bool = False,
    ) -> None:
        super().__init__("simulated", loop.call_soon, clock)
        self._keyed = keyed
        self._keys = all_keys(self.image)
        self._unread: dict[EmbeddedView, dict[str, bytes | None]] = {}
        self._rng = rng
        self._skips_images = skips_images
        self._notified: set[EmbeddedView] = set()  # the views whose notification is under way; never walked
        self.lost_answers = 0.0
        self.committed: list[Callable[[ClusterImage, ClusterImage], None]] = []

    def _commit(self, expected: ClusterImage, proposed: ClusterImage, lease_id: int) -> tuple[bool, Exception | None]:
        done, error = super()._commit(expected, proposed, lease_id)
        if done and proposed is not expected and self.lost_answers and self._rng.random() < self.lost_answers:
            return self.lose_answer(), None
        return done, error

    def lose_answer(self) -> bool:
        """Return the answer that the broker gets instead of that to a committed change: a failure."""
        return False

    def open(self, link: StoreChannel | None = None) -> EmbeddedView:
        """Open a view; with keys it has an image of its own."""
        view = super().open(link)
        if self._keyed:
            view._image = image_of(self._keys)
            self._unread[view] = {}
        return view

    def _notify(self, view: EmbeddedView) -> None:
        if not self._skips_images:
            image, changed, lost = self.image, self._read(view), self.lost_leases()
            view._link.to_broker(lambda: self._notify_view(view, image, changed, lost))
        elif view not in self._notified:
            self._notified.add(view)
            view._link.to_broker(lambda: self._arrive(view))

    def _arrive(self, view: EmbeddedView) -> None:
        self._notified.discard(view)
        self._notify_view(view, self.image, self._read(view), self.lost_leases())

    def _notify_view(
        self, view: EmbeddedView, image: ClusterImage, changed: KeyChanges, lost_leases: tuple[int, ...]
    ) -> None:
        """Notify a view, with keys twice: a store outside of the process may repeat a message."""
        for _ in range(2 if self._keyed else 1):
            view._receive(self._shown(view, image, changed), lost_leases)

    def _read(self, view: EmbeddedView) -> KeyChanges:
        """Return the keys that changed since this view's last notification."""
        unread = self._unread.get(view, {})
        changed = last_values(unread)
        unread.clear()
        return changed

    def _shown(self, view: EmbeddedView, image: ClusterImage, changed: KeyChanges) -> ClusterImage:
        """Return the image that a view sees: the store's, or with keys what it makes of them itself."""
        if not self._keyed:
            return image
        return applied(view.image, changed) if changed.puts else view.image

    def _compare_and_set(self, expected: ClusterImage, proposed: ClusterImage) -> bool:
        before = self.image
        done = self._compare_and_set_keys if self._keyed else super()._compare_and_set
        is_committed = done(expected, proposed)
        if self.image is not before:
            for look in self.committed:
                look(before, self.image)
        return is_committed

    def _compare_and_set_keys(self, expected: ClusterImage, proposed: ClusterImage) -> bool:
        if expected.version != self.image.version:
            return False
        if proposed is not expected:
            changed = committed(changes(expected, proposed), expected.version + 1)
            self._image = applied(self.image, changed)
            self._write(changed)
            for view in self._views:
                self._notify(view)
        return True

    def _write(self, changed: KeyChanges) -> None:
        for key in changed.deletes:
            del self._keys[key]
        self._keys.update(changed.puts)
        for unread in self._unread.values():
            unread.update(dict.fromkeys(changed.deletes) | dict(changed.puts))

    def _forget(self, view: EmbeddedView) -> None:
        super()._forget(view)
        self._unread.pop(view, None)
