#!/usr/bin/env python3
"""A mutation run: break replica, log, metadata, transactions and shares; see whether the unit tests notice.

Each mutant is one change of the source, made in a copy of the repository; then the unit tests of its folder run. A
mutant that they pass has survived: something that the code does is not tested. The simulator's own mutants, one for
each safety rule, are in ``simulation/mutants.py``.

    scripts/mutate.py              run all, and print the score
    scripts/mutate.py NAME ...     run these

``./scripts/test --all`` runs all of them, and CI some by turns.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mutant import Mutant
from mutants_of_shares import SHARE_MUTANTS

ROOT: Final = Path(__file__).resolve().parent.parent
COPIED: Final = (
    *("purgatory", "protocol", "broker", "admin", "pipeline", "plugins", "simulation", "purgatorio"),
    *("tests", "scripts", "pyproject.toml"),
)
TEST_SECONDS: Final = 300
"""The limit for one mutant's tests: a mutant may loop for ever, which counts as noticed."""
MUTANTS_A_TURN: Final = 4
"""How many a turn of CI runs: about half a minute."""
REPLICA: Final = "tests/broker/replica"
LOG: Final = "tests/broker/log"
METADATA: Final = "tests/broker/metadata"
TRANSACTIONS: Final = "tests/broker/txn"
SESSIONS: Final = "tests/broker/api/test_fetch_sessions_changed.py"


MUTANTS: Final = (
    Mutant(
        "truncate-to-the-leaders-answer",
        "broker/replica/following/follower.py",
        "return min(own_end_offset, diverging.end_offset)",
        "return diverging.end_offset",
        REPLICA,
    ),
    Mutant(
        "no-epoch-at-an-election",
        "broker/replica/partition.py",
        "            self.log.epochs.assign(state.leader_epoch, self.leader_epoch_start_offset)\n",
        "",
        REPLICA,
    ),
    Mutant(
        "a-marker-cancels-no-verification",
        "broker/replica/producing/transaction_guard.py",
        "        if partition.verifications.get(transaction.producer_id, transaction.producer_epoch)"
        " is not verification:\n"
        "            return ErrorCode.INVALID_TXN_STATE\n",
        "",
        REPLICA,
    ),
    Mutant(
        "a-marker-cancels-the-verification-about-the-next-transaction",
        "broker/replica/producing/verification.py",
        "if epoch < producer_epoch or (epoch == producer_epoch and not verification.adds_partitions):",
        "if epoch <= producer_epoch:",
        REPLICA,
    ),
    Mutant(
        "an-answer-outlives-its-leader-epoch",
        "broker/replica/producing/transaction_guard.py",
        " or partition.leader_epoch != verification.leader_epoch:\n            return",
        ":\n            return",
        REPLICA,
    ),
    Mutant(
        "a-batch-overtakes-one-that-was-refused-unverified",
        "broker/replica/producing/transactional_writes.py",
        "        partition.refused.note(batch.records, error.error_code, writes.clock.now_ms())\n",
        "",
        REPLICA,
    ),
    Mutant(
        "produce-is-not-woken",
        "broker/replica/events.py",
        "        self._produce_purgatory.check_and_complete(tp, cause)\n        watch = ",
        "        watch = ",
        REPLICA,
    ),
    Mutant(
        "fetch-is-not-woken",
        "purgatory/key_group.py",
        "                checked += operation.weight\n            self._purgatory.check(operation, cause, key)\n",
        "                checked += operation.weight\n",
        REPLICA,
    ),
    Mutant(
        "own-commit-is-not-known-again",
        "broker/metadata/etcd/store.py",
        "if writes and own is not None and own.value == token:",
        "if writes and own is None:",
        f"{METADATA}/etcd",
    ),
    Mutant(
        "silent-watch-is-not-noticed",
        "broker/metadata/etcd/store.py",
        "            except TimeoutError:\n                self._is_behind.set()",
        "            except TimeoutError:\n                pass",
        f"{METADATA}/etcd",
    ),
    Mutant(
        "commit-needs-no-lease",
        "broker/metadata/etcd/store.py",
        "            compare.append(exists(lease_key))",
        "            pass",
        f"{METADATA}/etcd",
    ),
    Mutant(
        "lease-held-again-is-not-told",
        "broker/metadata/broker_lifecycle.py",
        "            self.replicas.lease_resumed()\n",
        "",
        "tests/broker/test_lease_wiring.py",
    ),
    Mutant(
        "deletions-wake-no-fetch",
        "broker/log/log.py",
        "            self.producers.aborted.delete_before(offset)\n            self.on_cut()\n",
        "            self.producers.aborted.delete_before(offset)\n",
        REPLICA,
    ),
    Mutant(
        "follower-state-outlives-its-broker",
        "broker/replica/partition.py",
        "        if follower.broker_epoch != incarnation.broker_epoch:\n            follower = ",
        "        if False:\n            follower = ",
        REPLICA,
    ),
    Mutant(
        "stale-answer-is-applied",
        "broker/replica/following/follower.py",
        "            and partition.leader_epoch == leader_epoch\n",
        "",
        REPLICA,
    ),
    Mutant(
        "follower-watermark-past-its-end",
        "broker/replica/partition.py",
        "reached = min(leader_high_watermark, self.log.log_end_offset)",
        "reached = leader_high_watermark",
        REPLICA,
    ),
    Mutant(
        "join-without-the-high-watermark",
        "broker/replica/partition.py",
        "or follower.log_end_offset < max(self.high_watermark, self.leader_epoch_start_offset)",
        "or follower.log_end_offset < self.leader_epoch_start_offset",
        REPLICA,
    ),
    Mutant(
        "join-without-the-epochs-start",
        "broker/replica/partition.py",
        "or follower.log_end_offset < max(self.high_watermark, self.leader_epoch_start_offset)",
        "or follower.log_end_offset < self.high_watermark",
        REPLICA,
    ),
    Mutant(
        "append-below-min-isr",
        "broker/replica/partition.py",
        "if acks == -1 and not self.has_enough_in_sync_replicas:",
        "if False:",
        REPLICA,
    ),
    Mutant(
        "watermark-without-proposed-members",
        "broker/replica/partition.py",
        "maximal = dict.fromkeys((*self._in_sync, *proposed))",
        "maximal = dict.fromkeys(self._in_sync)",
        REPLICA,
    ),
    Mutant(
        "older-state-is-applied",
        "broker/replica/partition.py",
        "        if state.partition_epoch < self.partition_epoch:\n            return\n",
        "",
        REPLICA,
    ),
    Mutant(
        "window-of-one-batch",
        "broker/log/producer_state.py",
        "BATCHES_KEPT: Final = 5",
        "BATCHES_KEPT: Final = 1",
        LOG,
    ),
    Mutant(
        "sequence-gaps-are-taken",
        "broker/log/producer_state.py",
        "            if sequence != expected:\n",
        "            if sequence < expected:\n",
        LOG,
    ),
    Mutant(
        "producers-survive-a-truncation",
        "broker/log/log.py",
        "        self._segments.rebuild(self.producers)\n        self._recount_uncommitted()\n        self.on_cut()\n",
        "        self._recount_uncommitted()\n        self.on_cut()\n",
        LOG,
    ),
    Mutant(
        "epochs-survive-a-truncation",
        "broker/log/log.py",
        "        self._compaction.truncated(offset)\n        self.epochs.truncate_from_end(offset)\n",
        "        self._compaction.truncated(offset)\n",
        LOG,
    ),
    Mutant(
        "watermark-survives-a-truncation",
        "broker/log/log.py",
        "        self.high_watermark = min(self.high_watermark, offset)\n",
        "",
        LOG,
    ),
    Mutant(
        "read-skips-a-batch-at-a-segments-end",
        "broker/log/segments.py",
        "            if fit < count or number == len(segments):",
        "            if fit < count - 1 or number == len(segments):",
        LOG,
    ),
    Mutant(
        "retention-takes-uncommitted-records",
        "broker/log/segments.py",
        "            if not segment.size_bytes or segment.next_offset > high_watermark or not (expired or too_much):",
        "            if not segment.size_bytes or not (expired or too_much):",
        LOG,
    ),
    Mutant(
        "isr-change-without-partition-epoch",
        "broker/metadata/controller/in_sync.py",
        "if state.partition_epoch != proposal.partition_epoch:",
        "if False:",
        METADATA,
    ),
    Mutant(
        "isr-change-of-a-dead-member",
        "broker/metadata/controller/in_sync.py",
        "if not all(image.is_alive(incarnation) for incarnation in proposal.isr):",
        "if False:",
        METADATA,
    ),
    Mutant(
        "restarted-replica-stays-eligible",
        "broker/metadata/controller/elections.py",
        "return registration is not None and registration.broker_epoch == incarnation.broker_epoch",
        "return registration is not None",
        METADATA,
    ),
    Mutant(
        "late-heartbeat-renews-an-ended-lease",
        "broker/metadata/broker_lifecycle.py",
        "if lease_id != self._lease_id or not self.has_lease():",
        "if lease_id != self._lease_id:",
        METADATA,
    ),
    Mutant(
        "a-delta-trusts-commits-that-reach-not-back",
        "broker/metadata/delta.py",
        "if not unseen or unseen[0].base != before.version:",
        "if not unseen:",
        METADATA,
    ),
    Mutant(
        "a-delta-forgets-changes-before-the-commit",
        "broker/metadata/delta.py",
        "    if before.edits or after.edits:\n        return None\n",
        "",
        METADATA,
    ),
    Mutant(
        "merged-rows-forget-the-rest-of-the-topic",
        "broker/metadata/delta.py",
        "None if known is None or rows is None else known | rows",
        "None if rows is None else (known or frozenset()) | rows",
        METADATA,
    ),
    Mutant(
        "the-difference-to-another-image-is-told-again",
        "broker/metadata/delta.py",
        "isinstance(known, _Found) and known.before() is before",
        "isinstance(known, _Found)",
        METADATA,
    ),
    Mutant(
        "touched-rows-differ",
        "broker/metadata/delta.py",
        "for index in sorted(rows) if was[index] is not now[index]]",
        "for index in sorted(rows)]",
        METADATA,
    ),
    Mutant(
        "a-session-outlives-its-follower",
        "broker/replica/fetching/fetch_session.py",
        "return self.replica == (params.replica_id, params.replica_epoch)",
        "return self.replica[0] == params.replica_id",
        SESSIONS,
    ),
    Mutant(
        "a-session-keeps-what-another-isolation-could-read",
        "broker/replica/fetching/fetch_session.py",
        "return params.read_committed, params.",
        "return False, params.",
        SESSIONS,
    ),
    Mutant(
        "a-session-keeps-what-another-version-could-read",
        "broker/replica/fetching/fetch_session.py",
        "params.read_committed, params.may_read_followers\n",
        "params.read_committed, False\n",
        SESSIONS,
    ),
    Mutant(
        "events-are-lost-while-progress-is-noted",
        "broker/replica/fetching/fetches.py",
        "context.to_note = {**to_note, **context.to_note}",
        "context.to_note = to_note",
        SESSIONS,
    ),
    Mutant(
        "followers-in-sync-are-noted-for-ever",
        "broker/replica/fetching/fetches.py",
        "                to_note.pop(fetch, None)\n",
        "                pass\n",
        SESSIONS,
    ),
    Mutant(
        "of-three-partitions-two-get-their-markers",
        "broker/txn/completion.py",
        "is None and not unmarked:",
        "is None and len(unmarked) == max(0, len(value.partitions) - 2):",
        TRANSACTIONS,
    ),
    Mutant(
        "of-three-partitions-two-are-logged",
        "broker/txn/values.py",
        "partition_ids=ids)",
        "partition_ids=ids[:2])",
        TRANSACTIONS,
    ),
    Mutant(
        "of-three-partitions-two-are-loaded",
        "broker/txn/values.py",
        "            for partition in each.partition_ids\n",
        "            for partition in each.partition_ids[:2]\n",
        TRANSACTIONS,
    ),
    *SHARE_MUTANTS,
)


def broken(mutant: Mutant, root: Path = ROOT) -> str:
    """Return the mutant's file with its change.

    Raises:
        ValueError: the text to replace is not there once; the code has changed, and the mutant has not.
    """
    text = (root / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: its text is {text.count(mutant.old)} times in {mutant.file}, not once")
    return text.replace(mutant.old, mutant.new)


def copy(target: Path) -> None:
    """Copy the repository's files that the tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(source, target / name)


def tests_pass(tests: str, root: Path) -> bool:
    """Run tests in a copy of the repository; returns whether they pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout", "20", tests]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=TEST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{tests} could not be run:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def survivors(mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, bool]]:
    """Run each mutant's tests; yield it, and whether it has survived."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        root = Path(folder)
        copy(root)
        for mutant in mutants:
            path = root / mutant.file
            whole = path.read_text(encoding="utf-8")
            path.write_text(broken(mutant, root), encoding="utf-8")
            yield mutant, tests_pass(mutant.tests, root)
            path.write_text(whole, encoding="utf-8")


def of_turn(turn: int) -> list[Mutant]:
    """Return the mutants of a turn of CI: each comes up once in len(MUTANTS) / MUTANTS_A_TURN turns."""
    first = turn * MUTANTS_A_TURN % len(MUTANTS)
    return [*MUTANTS, *MUTANTS][first : first + MUTANTS_A_TURN]


def main(argv: Sequence[str] | None = None) -> int:
    """Run mutants, and print which survive; returns 1 if one does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant; by default all")
    names = parser.parse_args(argv).names
    unknown = set(names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"there is no mutant {sorted(unknown)[0]!r}")
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    survived = 0
    for mutant, passed in survivors(chosen):
        survived += passed
        print(f"{'SURVIVED' if passed else 'noticed ':<9} {mutant.name}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutants were noticed.")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
