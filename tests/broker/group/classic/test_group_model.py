"""Random members join, sync, beat, leave, fall silent and come back, while appends fail and coordinators change.

Each seed is one history. At each step the invariants hold: every request is answered once, generations ascend, each has
one leader, no two members own a partition in one generation, and what is parked fits the state of the group.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass

import pytest

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.classic.member import GroupState
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.classic.harness import GROUP, OK, SESSION_MS, Answer, Clients, Joined, Synced
from tests.broker.group.counted import check_counts
from tests.histories import seeds

PARTITIONS = 6
STEPS = 250
REJOIN = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
LOST = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


@dataclass(eq=False)
class Client:
    """A consumer, as it follows the protocol."""

    instance_id: str | None = None
    version: int = 9
    member_id: str = ""
    generation: int = -1
    joining: Joined | None = None
    syncing: Synced | None = None
    owns: frozenset[int] = frozenset()
    is_silent: bool = False

    def lose(self) -> None:
        self.member_id, self.generation, self.owns = "", -1, frozenset()


class World:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.broker = Clients(
            replicas=(1, 2), initial_rebalance_delay_ms=self.rng.choice([0, 0, 3_000]), max_size=self.rng.choice([3, 9])
        )
        self.clients = [Client(version=self.rng.choice([3, 5, 9])) for _ in range(4)]
        self.clients += [Client(f"static-{nth}", self.rng.choice([5, 9])) for nth in range(2)]
        self.answers: list[Answer] = []
        self.leaders: dict[int, str] = {}
        self.owners: dict[int, dict[int, str]] = {}
        self.newest = 0
        self.epoch = 1

    # --- steps ---

    def step(self) -> None:
        client = self.rng.choice(self.clients)
        action = self.rng.choices(
            [self.go_on, self.replicate, self.wait, self.leave, self.fall_silent, self.restart, self.fail_over],
            [60, 20, 10, 3, 3, 3, 1],
        )[0]
        action(client)
        for each in self.clients:
            self.hear(each)
        self.check()

    def replicate(self, _: Client) -> None:
        self.broker.replicate()
        self.broker.work()

    def wait(self, _: Client) -> None:
        self.broker.advance_ms(self.rng.choice([1, 500, 3_000, 3_000, SESSION_MS - 1]))

    def go_on(self, client: Client) -> None:
        """Send the request that the client's protocol has next."""
        if client.is_silent or client.joining is not None or client.syncing is not None:
            return
        if client.generation < 0:
            self.join(client)
        else:
            error = self.broker.beat(client.member_id, client.generation, instance_id=client.instance_id)
            self.refused(client, error)

    def join(self, client: Client) -> None:
        subscription = self.rng.choice([b"topics", b"topics", b"other topics"])
        client.joining = self.broker.join(
            client.member_id,
            instance_id=client.instance_id,
            version=client.version,
            protocols=(("range", subscription),),
        )
        self.answers.append(client.joining)

    def leave(self, client: Client) -> None:
        if client.member_id and not client.is_silent:
            # While no broker coordinates the group, the client goes without the farewell.
            with contextlib.suppress(CoordinatorError):
                self.broker.leave(client.member_id, instance_id=client.instance_id)
            self.forget(client)

    def fall_silent(self, client: Client) -> None:
        client.is_silent = not client.is_silent

    def restart(self, client: Client) -> None:
        """The process is killed, and begins anew: nobody hears the answers of its requests."""
        self.forget(client)
        client.is_silent = False

    def forget(self, client: Client) -> None:
        client.lose()
        client.joining = client.syncing = None

    def fail_over(self, _: Client) -> None:
        """Another broker coordinates the group for a while, without any change to it."""
        self.epoch += 2
        self.broker.elect(2, self.epoch - 1)
        self.broker.work()
        if self.rng.random() < 0.5:
            self.broker.advance_ms(100)
        self.broker.reload(self.epoch)
        # Generations that were not committed are lost, and their numbers are used again.
        group = self.group
        self.newest = 0 if group is None else group.generation
        self.leaders = {number: leader for number, leader in self.leaders.items() if number < self.newest}
        self.owners = {number: owners for number, owners in self.owners.items() if number < self.newest}

    # --- answers ---

    def hear(self, client: Client) -> None:
        if client.joining is not None and not client.joining.is_parked:
            joined, client.joining = client.joining, None
            self.joined(client, joined)
        if client.syncing is not None and not client.syncing.is_parked:
            synced, client.syncing = client.syncing, None
            self.synced(client, synced)

    def joined(self, client: Client, joined: Joined) -> None:
        if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = joined.member_id
            return
        if joined.error != OK:
            self.refused(client, joined.error)
            return
        response = joined.response
        client.member_id, client.generation = response.member_id, response.generation_id
        self.newest = max(self.newest, client.generation)
        assignments = None
        if response.leader == client.member_id and not response.skip_assignment:
            assert client.member_id in joined.listed
            known = self.leaders.setdefault(client.generation, client.member_id)
            if client.instance_id is None:
                assert known == client.member_id, f"two leaders of generation {client.generation}"
            assignments = {
                member_id: bytes(range(nth, PARTITIONS, len(joined.listed)))
                for nth, member_id in enumerate(joined.listed)
            }
        client.syncing = self.broker.sync(
            client.member_id, client.generation, assignments, instance_id=client.instance_id
        )
        self.answers.append(client.syncing)
        self.hear(client)

    def synced(self, client: Client, synced: Synced) -> None:
        if synced.error != OK:
            self.refused(client, synced.error)
            return
        client.owns = frozenset(synced.assignment)
        owners = self.owners.setdefault(client.generation, {})
        name = client.instance_id or client.member_id
        for partition in client.owns:
            owner = owners.setdefault(partition, name)
            assert owner == name, f"{owner} and {name} own {partition} in generation {client.generation}"

    def refused(self, client: Client, error: ErrorCode) -> None:
        if error in LOST:
            client.lose()
        elif error in REJOIN:
            client.generation, client.owns = -1, frozenset()
        elif error == ErrorCode.GROUP_MAX_SIZE_REACHED:
            client.lose()
        else:
            assert error == OK, error.name

    # --- invariants ---

    @property
    def group(self):  # type: ignore[no-untyped-def]  # as Clients.group; None while there is none
        shard = next(iter(self.broker.groups.coordinator.shards), None)
        return None if shard is None else shard.groups.get(GROUP)

    def check(self) -> None:
        check_counts(self.broker.groups)
        group = self.group
        if group is None or not group.is_alive:
            return
        parked = [str(key).split()[0] for each in self.broker.rebalance_purgatory.operations() for key in each.keys]
        assert parked.count("join") == (group.state is GroupState.PREPARING_REBALANCE)
        assert group.joined_count == sum(member.join is not None for member in group.members.values())
        assert self.broker.heartbeat_purgatory.num_delayed == len(group.members) + len(group.pending)
        assert len(group.members) <= self.broker.groups.config.max_size + 3  # joined at once when it was P
        assert (group.leader_id in group.members) == bool(group.members)
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert not group.joined_count
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert not any(member.sync for member in group.members.values())
        if group.members and group.state is not GroupState.PREPARING_REBALANCE:
            assert bool(group.unsynced) <= parked.count("sync")
        assert {member.instance_id: member.member_id for member in group.members.values() if member.instance_id} == (
            group.instances
        )

    def settle(self) -> None:
        """Let all clients live and follow the protocol: the group becomes stable, and all partitions are owned."""
        for client in self.clients:
            client.is_silent = False
        for _ in range(200):
            for client in self.clients:
                self.go_on(client)
                self.broker.replicate()
                self.broker.work()
            for client in self.clients:
                self.hear(client)
            self.broker.advance_ms(1_000)
            self.check()
        group = self.group
        assert group.state is GroupState.STABLE
        owned = sorted(partition for client in self.clients for partition in client.owns)
        assert owned == list(range(PARTITIONS))


@pytest.mark.parametrize("seed", seeds(40, quick=3))
def test_every_history_keeps_the_invariants_and_ends_stable(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    world.broker.elect(2, world.epoch + 1)
    world.broker.work()
    assert not any(answer.is_parked for answer in world.answers), "every request is answered"
    assert world.broker.heartbeat_purgatory.num_delayed == world.broker.rebalance_purgatory.num_delayed == 0
