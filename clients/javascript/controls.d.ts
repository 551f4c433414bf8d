// Written by scripts/client_operations.py of scripts/kit_names.py; do not edit.

import type { Operations } from "./operations.js";

/** A request, or another operation, that waits in a broker's purgatory. */
export interface Parked {
  broker: number;
  id: number;
  purgatory: string;
  client: string;
  keys: string[];
  missing: string;
  causes: Record<string, any>[];
  waitedMs: number;
  leftMs: number;
}

/** An operation whose time was over. */
export interface Ended {
  broker: number;
  purgatory: string;
  client: string;
  keys: string[];
  missing: string;
  waitedMs: number;
}

/** Neighbouring records of a partition that a share group has not done with. */
export interface InFlight {
  topic: string;
  partition: number;
  firstOffset: number;
  lastOffset: number;
  state: string;
  deliveryCount: number;
  member: string | null;
  lockLeftMs: number | null;
}

/** A member of a consumer group. */
export interface Member {
  id: string;
  client: string;
}

/** A consumer group. */
export interface Group {
  name: string;
  state: string;
  coordinator: number;
  epoch: number;
  members: Member[];
  waitsFor: string;
}

export declare class Controls {
  readonly operations: Operations;
  /** Return the id of the broker that leads a partition. */
  leader(topic: string, options?: { partition?: number }): Promise<number>;
  /** Have an in-sync replica lead a partition; return its id, when all brokers know. No record is lost. */
  moveLeader(topic: string, options?: { partition?: number; to?: number }): Promise<number>;
  /** Take a partition's leader away: clients get LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER. */
  noLeader(topic: string, options?: { partition?: number }): Promise<void>;
  /** Have the brokers delete now what is older than retention.ms or beyond retention.bytes. */
  applyRetention(): Promise<void>;
  /** Have the brokers compact now what is committed: each key keeps its newest record. */
  compact(options?: { topic?: string }): Promise<void>;
  /** Wait until all replicas of a topic are in sync. */
  untilInSync(topic: string, options?: { timeoutMs?: number }): Promise<boolean>;
  /** Have a broker fetch nothing from leaders: what it follows is not acknowledged, acks=all waits for it. */
  holdFollower(broker: number): Promise<void>;
  /** Let a held follower, or all of them, fetch again. */
  release(broker?: number): Promise<void>;
  /** End a broker as a crash would. The others notice when its lease runs out. */
  kill(broker: number): Promise<void>;
  /** Stop a broker in good order: the others take over its partitions first. */
  stop(broker: number): Promise<void>;
  /** Start a stopped or killed broker on the port that it had, with empty logs. */
  start(broker: number): Promise<void>;
  /** Start one more broker; return its id when all others know it. Clients learn of it by their metadata. */
  addBroker(options?: { rack?: string }): Promise<number>;
  /** Have a broker stand still until `resume`, as SIGSTOP does to a process. */
  pause(broker: number): Promise<void>;
  /** Let a broker that stands still, or all of them, go on: it gets a new lease and follows the new leaders. */
  resume(broker?: number): Promise<void>;
  /** Cut the network between groups of brokers until `heal`: `kafka.partition([1], [2, 3])`. */
  partition(...groups: number[][]): Promise<void>;
  /** End a partition: what was held on the way arrives. */
  heal(): Promise<void>;
  /** Return what waits in the brokers' purgatories. */
  parked(options?: { api?: string; topic?: string; client?: string }): Promise<Parked[]>;
  /** Wait until something of that description waits. */
  untilParked(options?: { api?: string; topic?: string; client?: string; timeoutMs?: number }): Promise<Parked[]>;
  /** Have the deadline of a parked operation come now: its client gets the answer of a request that timed out. */
  expire(operation: Parked): Promise<void>;
  /** Return a consumer group, as its coordinator has it; nothing if it does not exist. */
  group(name: string): Promise<Group | null>;
  /** Wait until a consumer group has a state and a number of members. */
  untilGroup(name: string, options?: { state?: string; members?: number; timeoutMs?: number }): Promise<Group>;
  /** End the session of a group's member now, as if its heartbeats had stayed away; return its member id. */
  expireMember(group: string, options?: { member?: string }): Promise<string>;
  /** End the time of an open transaction now (transaction.timeout.ms): its coordinator aborts it. */
  expireTransaction(transactionalId: string): Promise<void>;
  /** Move the coordinator of a group to another broker; return its id. */
  moveGroupCoordinator(group: string, options?: { to?: number }): Promise<number>;
  /** Move the coordinator of a transactional id to another broker; return its id. */
  moveTransactionCoordinator(transactionalId: string, options?: { to?: number }): Promise<number>;
  /** The client ids that are connected now, without the brokers' own. */
  clients(): Promise<string[]>;
  /** Add a fault rule: an action on matching requests. */
  fault(rule: Record<string, any>): Promise<Fault>;
  /** Make the network between clients and brokers bad, with a toxic. */
  network(toxic: string, toxicIs: Record<string, any>): Promise<Fault>;
  /** Leave a broker out of the answers to Metadata and DescribeCluster: clients that ask do not learn of it. */
  hide(broker: number): Promise<Fault>;
  /** The fault rules, oldest first. */
  faults(): Promise<Fault[]>;
  /** Remove all fault rules; requests that they hold go on. */
  clearFaults(): Promise<void>;
  /** Add access control lists; they are in effect then at all brokers. */
  addAcls(...acls: string[]): Promise<void>;
  /** Remove access control lists, as they are listed, at all brokers; all of them or none. */
  removeAcls(...acls: string[]): Promise<void>;
  /** Set client quotas by Kafka's names; return when all brokers apply them. */
  quota(quotas: Record<string, number | null>, options?: { user?: string; clientId?: string; ip?: string }): Promise<void>;
  /** Take a snapshot of what the cluster has now; return its name, for `restore`. */
  snapshot(): Promise<string>;
  /** Make the cluster as it was at a snapshot; takes milliseconds for a small one. It can be restored again. */
  restore(snapshot: string): Promise<void>;
  /** Make the cluster as it was at its start, at the same addresses; takes a few milliseconds. */
  reset(): Promise<void>;
  /** Return what the cluster waits for, as text of at most 50 lines; a failed test shows it. */
  report(): Promise<string>;
  /** Return why a group, a topic or a client gets nothing, as text: sentences first, then what there is of it. */
  explain(name?: string): Promise<string>;
}

/** The brokers' time, moved by hand. */
export declare class Clock {
  readonly operations: Operations;
  /** Move the brokers' clock forward; return what ended by it, without fetches of followers. */
  advance(seconds: number, options?: { sessions?: boolean }): Promise<Ended[]>;
  /** Return the brokers' time: milliseconds since 1970-01-01 UTC. */
  nowMs(): Promise<number>;
  /** Stop the brokers' time until `unfreeze`; only `advance` moves it. */
  freeze(): Promise<void>;
  /** Let the brokers' time go on from where it stood. */
  unfreeze(): Promise<void>;
}

/** A share group, which need not exist yet. */
export declare class ShareGroup {
  readonly id: string;
  readonly operations: Operations;
  /** Let the time of all acquisition locks be over now, or of one member's; return how many there were. */
  expireLocks(options?: { member?: string }): Promise<number>;
  /** The ids of the members that fetch. */
  members(): Promise<string[]>;
  /** Return the records from each partition's start offset to its end offset, by partition and offset. */
  inFlight(): Promise<InFlight[]>;
}

/** A fault rule of a cluster. */
export declare class Fault {
  readonly id: number;
  readonly operations: Operations;
  /** The requests that matched, whether or not the rule acted on them. */
  matched(): Promise<number>;
  /** The requests that the rule acted on, or for one that observes, counted. */
  fired(): Promise<number>;
  /** The requests that the rule holds now. */
  held(): Promise<number>;
  /** Wait until the rule has fired so often; return how often it has. */
  untilFired(options?: { times?: number; timeoutMs?: number }): Promise<number>;
  /** Hold no more: the requests that the rule holds go on, and it is removed. */
  release(): Promise<void>;
  /** Remove the rule; requests that it holds go on. May be called again. */
  remove(): Promise<void>;
}
