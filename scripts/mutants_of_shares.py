"""The mutants of share groups: of share partitions, their states, and the membership of groups."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

SHARES: Final = "tests/broker/share"
SHARE_GROUPS: Final = "tests/broker/group/share"

SHARE_MUTANTS: Final = (
    Mutant(
        "another-member-acknowledges",
        "broker/share/acknowledging.py",
        "and lock is not None and lock.member_id == member_id",
        "and lock is not None",
        SHARES,
    ),
    Mutant(
        "acknowledged-twice-at-a-time",
        "broker/share/acknowledging.py",
        "batch.state is ACQUIRED and batch.target is None and lock",
        "batch.state is ACQUIRED and lock",
        SHARES,
    ),
    Mutant(
        "a-range-is-acknowledged-twice-in-a-request",
        "broker/share/acknowledging.py",
        "if not len(records) or each.first_offset == previous:",
        "if not len(records):",
        SHARES,
    ),
    Mutant(
        "one-delivery-more-than-the-limit",
        "broker/share/share_partition.py",
        "if batch.delivery_count < self._settings().delivery_count_limit:",
        "if batch.delivery_count <= self._settings().delivery_count_limit:",
        SHARES,
    ),
    Mutant(
        "a-failed-write-after-the-lock-frees-nothing",
        "broker/share/share_partition.py",
        "if batch.lock is not None and batch.lock.ran_out:",
        "if batch.lock is not None and False:",
        SHARES,
    ),
    Mutant(
        "a-fenced-write-does-not-fence",
        "broker/share/share_partition.py",
        "            if error in FENCING:\n                self.fence(error)\n            elif error:",
        "            if error:",
        SHARES,
    ),
    Mutant(
        "a-lock-that-runs-out-is-not-written",
        "broker/share/share_partition.py",
        "        self._commit(batches)\n        self._persist(stored, self._noted)",
        "        self._commit(batches)",
        SHARES,
    ),
    Mutant(
        "nobody-hears-of-released-records",
        "broker/share/share_partition.py",
        "if records.advance() or released:",
        "if records.advance():",
        SHARES,
    ),
    Mutant(
        "an-acquired-hole",
        "broker/share/acquiring.py",
        "                records.append(hole_end, ARCHIVED, 0)",
        "                records.append(hole_end, AVAILABLE, 0)",
        SHARES,
    ),
    Mutant(
        "record-limit-is-soft",
        "broker/share/acquiring.py",
        "if self._mode is AcquireMode.BATCH_OPTIMIZED:\n            within",
        "if True:\n            within",
        SHARES,
    ),
    Mutant(
        "more-locks-than-the-limit",
        "broker/share/acquiring.py",
        "room = min(self._records_left, self._max_locks - records.record_count)",
        "room = self._records_left",
        SHARES,
    ),
    Mutant(
        "a-poison-record-has-company",
        "broker/share/acquiring.py",
        "            if self._acquired:\n                return None\n            self._isolated_left = 1",
        "            self._isolated_left = 1",
        SHARES,
    ),
    Mutant(
        "a-renewed-part-shares-its-lock",
        "broker/share/lock_table.py",
        "if sum(batch.count for batch in held) == lock.held_count:",
        "if True:",
        SHARES,
    ),
    Mutant(
        "acquired-records-are-joined",
        "broker/share/in_flight.py",
        "or state is ACQUIRED or one.target",
        "or one.target",
        SHARES,
    ),
    Mutant(
        "a-lower-count-wins",
        "broker/share/state/batches.py",
        "rank = max(a_rank, b_rank)",
        "rank = b_rank if b_rank >= 0 else a_rank",
        SHARES,
    ),
    Mutant(
        "an-earlier-leader-writes",
        "broker/share/state/coordinator.py",
        "if NO_EPOCH != leader_epoch < state.leader_epoch:",
        "if False:",
        SHARES,
    ),
    Mutant(
        "a-state-is-begun-again",
        "broker/share/state/coordinator.py",
        "elif state_epoch == state.state_epoch and start_offset == NO_START_OFFSET:",
        "elif False:",
        SHARES,
    ),
    Mutant(
        "pruned-before-it-is-committed",
        "broker/share/state/upkeep.py",
        "        self._services.log.when_committed(shard.tp, committed)",
        "        committed(ErrorCode.NONE)",
        SHARES,
    ),
    Mutant(
        "a-session-goes-on-on-another-connection",
        "broker/share/share_session.py",
        "        else:\n            self._forget_connection(before)",
        "",
        SHARES,
    ),
    Mutant(
        "a-group-keeps-what-it-fetches-without-members",
        "broker/share/share_fetches.py",
        "            if is_last:\n                self.shares.drop_group(session.group_id)",
        "",
        SHARES,
    ),
    Mutant(
        "a-member-of-any-epoch-beats",
        "broker/group/share/identification.py",
        "if epoch not in (JOINS, current.epoch) and not has_missed_answer:",
        "if False:",
        SHARE_GROUPS,
    ),
    Mutant(
        "a-member-that-missed-an-answer-joins-again",
        "broker/group/share/identification.py",
        "has_missed_answer = epoch == current.previous_epoch and epoch < current.epoch",
        "has_missed_answer = False",
        SHARE_GROUPS,
    ),
    Mutant(
        "a-failed-state-counts-as-begun",
        "broker/group/share/state_partitions.py",
        "if (rest := numbers - failed.get(key, frozenset()))",
        "if (rest := numbers)",
        SHARE_GROUPS,
    ),
    Mutant(
        "members-are-shared-out-unevenly",
        "broker/group/share/assignor.py",
        "if len(own) >= self._quota + (self._larger > 0):",
        "if len(own) > self._quota + 1:",
        SHARE_GROUPS,
    ),
)
