"""Makes the brokers of one process, and the metadata stores that they share."""

from __future__ import annotations

import base64
import random
import secrets
from collections.abc import Callable
from functools import cached_property

from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.authentication import first_credentials
from purgatorio.broker.metadata.embedded import DirectLink, EmbeddedStore
from purgatorio.broker.metadata.served import AnyStore
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.node.member import ProcessMember
from purgatorio.broker.security.broker_credentials import BrokerCredentials
from purgatorio.broker.server import open_files
from purgatorio.broker.server.turns import Turns
from purgatorio.broker.tier.claim import StoreClaim
from purgatorio.broker.tier.location import probe
from purgatorio.broker.tier.store import Store, StoreError, Unavailable
from purgatorio.broker.time.clocks import Clocks
from purgatorio.broker.time.event_loop import call_soon
from purgatorio.broker.time.long_work import LongWork
from purgatorio.broker.time.movable_clock import MemberClock
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)


class TierUnusable(ValueError):
    """There can be no tier at tier.location; the message says why, and what to do."""


class BrokerMaker:
    """Makes the brokers of one process, with all that they have in common.

    Args:
        seed: seeds the random choices (topic ids, replica assignments, jitter of retries); None: they differ each time.
        member: makes the broker part of a cluster of several processes; None: all brokers are in this one.
        cluster_id: the id of the cluster; None: a new one.

    Attributes:
        long_work: what takes long, of all brokers and of the cluster.
        lease_clock: `clock` without the times in which this process was suspended; it times leases.
        transaction_clock: `clock` without standstills; it times open transactions.
        member_clock: `transaction_clock` without the times that a test skipped; it times sessions of groups' members.
    """

    def __init__(
        self,
        config: ClusterConfig,
        clock: Clock,
        seed: int | None,
        member: ProcessMember | None,
        cluster_id: str | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._seed = seed
        self._member = member
        # A broker epoch must be a secret, and a client that sees some numbers of `random.Random` can compute the next.
        self._rng = random.SystemRandom() if seed is None else random.Random(seed)
        self.credentials = BrokerCredentials(member.secret if member else secrets.token_bytes())
        own_id = new_cluster_id(self._rng.randbytes)
        self.cluster_id = member.store.image.cluster_id if member else cluster_id or own_id
        self.lease_clock = RunningClock(clock)
        self.transaction_clock = RunningClock(clock, RunningClock.MAX_GAP_OF_CLIENTS_MS)
        self.member_clock = MemberClock(self.transaction_clock)
        self._first_credentials = {} if member else first_credentials(config.broker, self._rng.randbytes)
        self._turns = Turns(call_soon, clock.now_seconds)
        self.long_work = LongWork(call_soon)

    @cached_property
    def _tier(self) -> Store | None:
        """The object store of the tier, which the brokers share; raises TierUnusable if there can be none."""
        location = self._config.broker.tier_location
        if location is None:
            return None
        from purgatorio.broker.tier.obstore_store import open_store  # obstore is an extra

        try:
            return open_store(location)
        except StoreError as error:
            raise TierUnusable(f"tier.location: {error}") from error

    async def check_tier(self) -> None:
        """Check that the object store of the tier does its part, if there is one.

        A broker that joins others does without one that does not answer now: it may come back.

        Raises:
            TierUnusable: it does not.
        """
        if self._tier is None:
            return
        try:
            await probe(self._tier, self._clock, f"probe-{self._rng.randbytes(16).hex()}")
        except Unavailable as error:
            if self._member is None or not self._member.store.image.live_brokers:
                raise TierUnusable(f"tier.location: {error}") from error
            logger.warning("the tier cannot be used", location=self._tier.location, reason=str(error))
        except StoreError as error:
            raise TierUnusable(f"tier.location: {error}") from error

    @cached_property
    def claim(self) -> StoreClaim | None:
        """The claim to it of the brokers of this process; None: those of other processes have the same one."""
        if self._tier is None or self._member is not None:
            return None
        return StoreClaim(self._tier, self._clock, self.cluster_id, owner=self.credentials.derived(b"tier").hex())

    def store(self) -> EmbeddedStore:
        """Make a metadata store, which has nothing but the cluster's first users."""
        return EmbeddedStore(self.cluster_id, call_soon, self.lease_clock, credentials=self._first_credentials)

    def broker(self, config: BrokerConfig, store: AnyStore) -> tuple[Broker, DirectLink]:
        """Make a broker; return it with its link to the store."""
        rng = self._rng if self._seed is None else random.Random(self._rng.random())
        link = DirectLink(call_soon)
        broker = Broker(
            config,
            store.open(link),
            Clocks(
                self._clock,
                # A store in another process does not wait for this one, so that no standstill is excused.
                SystemClock() if self._member else self.lease_clock,
                self.transaction_clock,
                self.member_clock,
                self._member.SLOWEST_RATE if self._member else 1.0,
            ),
            rng=rng,
            credentials=self.credentials,
            connections_cap=open_files.connections_per_broker(self._config.brokers),
            turns=self._turns,
            long_work=self.long_work,
            tier=self._tier,
            claim=self.claim,
        )
        return broker, link


def new_cluster_id(random_bytes: Callable[[int], bytes]) -> str:
    """Return an id as Kafka makes them: 16 random bytes in base64."""
    return base64.urlsafe_b64encode(random_bytes(16)).decode().rstrip("=")
