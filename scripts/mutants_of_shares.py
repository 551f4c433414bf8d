"""The mutants of share groups: of share partitions, their states, and the membership of groups."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

ACKNOWLEDGING: Final = "tests/broker/share/test_acknowledging.py"
ACQUIRING: Final = "tests/broker/share/test_acquiring.py"
LOCKS: Final = "tests/broker/share/test_acquisition_lock.py"
IN_FLIGHT: Final = "tests/broker/share/test_in_flight.py"
SESSIONS: Final = "tests/broker/share/test_share_session.py"
FETCHES: Final = "tests/broker/share/test_share_fetches.py"
READER: Final = "tests/broker/share/test_share_reader.py"
PARTITION: Final = "tests/broker/share/test_share_partition.py"
HOLDINGS: Final = "tests/broker/share/test_holdings.py"
BATCHES: Final = "tests/broker/share/state/test_batches.py"
COORDINATOR: Final = "tests/broker/share/state/test_coordinator.py"
UPKEEP: Final = "tests/broker/share/state/test_upkeep.py"
SHARE_GROUPS: Final = "tests/broker/group/share"

SHARE_MUTANTS: Final = (
    Mutant(
        "another-member-acknowledges",
        "broker/share/acknowledging.py",
        "and lock is not None and lock.member_id == member_id",
        "and lock is not None",
        ACKNOWLEDGING,
    ),
    Mutant(
        "acknowledged-twice-at-a-time",
        "broker/share/acknowledging.py",
        "batch.state is ACQUIRED and batch.target is None and lock",
        "batch.state is ACQUIRED and lock",
        ACKNOWLEDGING,
    ),
    Mutant(
        "a-range-is-acknowledged-twice-in-a-request",
        "broker/share/acknowledging.py",
        "if not len(records) or each.first_offset == previous:",
        "if not len(records):",
        ACKNOWLEDGING,
    ),
    Mutant(
        "one-delivery-more-than-the-limit",
        "broker/share/share_partition.py",
        "if batch.delivery_count < self._settings().delivery_count_limit:",
        "if batch.delivery_count <= self._settings().delivery_count_limit:",
        ACKNOWLEDGING,
    ),
    Mutant(
        "a-failed-write-after-the-lock-frees-nothing",
        "broker/share/share_partition.py",
        "if batch.lock is not None and batch.lock.ran_out:",
        "if batch.lock is not None and False:",
        LOCKS,
    ),
    Mutant(
        "a-fenced-write-does-not-fence",
        "broker/share/share_partition.py",
        "            if error in FENCING:\n                self.fence(error)\n            elif error:",
        "            if error:",
        ACKNOWLEDGING,
    ),
    Mutant(
        "a-lock-that-runs-out-is-not-written",
        "broker/share/share_partition.py",
        "        self._commit(batches)\n        self._persist(stored, self._noted)",
        "        self._commit(batches)",
        LOCKS,
    ),
    Mutant(
        "nobody-hears-of-released-records",
        "broker/share/share_partition.py",
        "if records.advance() or released:",
        "if records.advance():",
        FETCHES,
    ),
    Mutant(
        "an-acquired-hole",
        "broker/share/acquiring.py",
        "                records.append(hole_end, ARCHIVED, 0)",
        "                records.append(hole_end, AVAILABLE, 0)",
        ACQUIRING,
    ),
    Mutant(
        "record-limit-is-soft",
        "broker/share/acquiring.py",
        "if self._mode is AcquireMode.BATCH_OPTIMIZED:\n            within",
        "if True:\n            within",
        ACQUIRING,
    ),
    Mutant(
        "more-locks-than-the-limit",
        "broker/share/acquiring.py",
        "room = min(self._records_left, self._max_locks - records.record_count)",
        "room = self._records_left",
        ACQUIRING,
    ),
    Mutant(
        "a-poison-record-has-company",
        "broker/share/acquiring.py",
        "            if self._acquired:\n                return None\n            self._isolated_left = 1",
        "            self._isolated_left = 1",
        ACQUIRING,
    ),
    Mutant(
        "a-renewed-part-shares-its-lock",
        "broker/share/lock_table.py",
        "if sum(batch.count for batch in held) == lock.held_count:",
        "if True:",
        LOCKS,
    ),
    Mutant(
        "acquired-records-are-joined",
        "broker/share/in_flight.py",
        "or state is ACQUIRED or one.target",
        "or one.target",
        IN_FLIGHT,
    ),
    Mutant(
        "a-lower-count-wins",
        "broker/share/state/batches.py",
        "rank = max(a_rank, b_rank)",
        "rank = b_rank if b_rank >= 0 else a_rank",
        BATCHES,
    ),
    Mutant(
        "an-earlier-leader-writes",
        "broker/share/state/coordinator.py",
        "if NO_EPOCH != leader_epoch < state.leader_epoch:",
        "if False:",
        COORDINATOR,
    ),
    Mutant(
        "a-state-is-begun-again",
        "broker/share/state/coordinator.py",
        "elif state_epoch == state.state_epoch and start_offset == NO_START_OFFSET:",
        "elif False:",
        COORDINATOR,
    ),
    Mutant(
        "pruned-before-it-is-committed",
        "broker/share/state/upkeep.py",
        "        self._services.log.when_committed(shard.tp, committed)",
        "        committed(ErrorCode.NONE)",
        UPKEEP,
    ),
    Mutant(
        "a-session-goes-on-on-another-connection",
        "broker/share/share_session.py",
        "            self._leave_connection(before)\n        session",
        "        session",
        SESSIONS,
    ),
    Mutant(
        "a-group-keeps-what-it-fetches-without-members",
        "broker/share/session_endings.py",
        "        if is_last:\n",
        "        if False:\n",
        FETCHES,
    ),
    Mutant(
        "a-member-of-any-epoch-beats",
        "broker/group/modern/modern_groups.py",
        "if epoch not in (JOINS, current.epoch) and not self._missed_an_answer(current, request):",
        "if False:",
        SHARE_GROUPS,
    ),
    Mutant(
        "a-member-that-missed-an-answer-joins-again",
        "broker/group/modern/modern_groups.py",
        "return bool(epoch == current.previous_epoch and epoch < current.epoch)",
        "return False",
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
    Mutant(
        "an-abort-hides-what-its-producer-commits-later",
        "broker/share/share_reader.py",
        "            begun.discard(header.producer_id)",
        "            pass",
        READER,
    ),
    Mutant(
        "each-partition-gives-as-many-records-as-the-fetch-wants",
        "broker/share/share_reader.py",
        "            left_records -= sum(each.last_offset - each.first_offset + 1 for each in acquired.records)",
        "            pass",
        READER,
    ),
    Mutant(
        "each-partition-gives-a-batch-beyond-the-bytes",
        "broker/share/share_reader.py",
        "            is_first = is_first and not acquired.parts",
        "            pass",
        READER,
    ),
    Mutant(
        "the-fetch-of-a-session-that-was-opened-again-waits-on",
        "broker/share/share_session.py",
        "            before.operation.force_complete()",
        "            pass",
        FETCHES,
    ),
    Mutant(
        "a-start-offset-is-not-written",
        "broker/share/share_partition.py",
        "            self._persist([], lambda error: self._began(done, client_error(error)))",
        "            self._began(done, ErrorCode.NONE)",
        PARTITION,
    ),
    Mutant(
        "locks-are-not-counted",
        "broker/share/holdings.py",
        "        self._holdings.count(more)",
        "",
        HOLDINGS,
    ),
    Mutant(
        "sessions-of-a-connection-are-not-weighed",
        "broker/share/share_session.py",
        "        self._of_connection[session.connection].session_bytes += more",
        "",
        HOLDINGS,
    ),
)
