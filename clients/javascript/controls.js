"use strict";
// Written by scripts/client_operations.py of scripts/kit_names.py; do not edit.

const { counts, needed, named, unlessRefused, until } = require("./calls.js");

const asParked = (row) => ({ broker: row.broker, id: row.id, purgatory: row.purgatory, client: row.client, keys: row.keys, missing: row.missing, causes: row.causes, waitedMs: row.waited_ms, leftMs: row.remaining_ms });
const asEnded = (row) => ({ broker: row.broker, purgatory: row.purgatory, client: row.client, keys: row.keys, missing: row.missing, waitedMs: row.waited_ms });
const asInFlight = (row) => ({ topic: row.topic, partition: row.partition, firstOffset: row.first_offset, lastOffset: row.last_offset, state: row.state, deliveryCount: row.delivery_count, member: row.member, lockLeftMs: row.lock_left_ms });
const asMember = (row) => ({ id: row.member_id, client: row.client });
const asGroup = (row) => ({ name: row.id, state: row.state, coordinator: row.coordinator, epoch: row.epoch, members: row.members.map(asMember), waitsFor: row.waits_for });

class Fault {
  constructor(kafka, id) {
    this.operations = kafka.operations;
    this.id = id;
  }

  /** The requests that matched, whether or not the rule acted on them. */
  async matched() {
    const answer = await this.operations.listFaults({ fired: 0 });
    return counts(answer.faults, this.id).matched;
  }

  /** The requests that the rule acted on, or for one that observes, counted. */
  async fired() {
    const answer = await this.operations.listFaults({ fired: 0 });
    return counts(answer.faults, this.id).fired;
  }

  /** The requests that the rule holds now. */
  async held() {
    const answer = await this.operations.listFaults({ fired: 0 });
    return counts(answer.faults, this.id).held;
  }

  /** Wait until the rule has fired so often; return how often it has. */
  async untilFired(options) {
    const { timeoutMs, times, ...wanted } = options ?? {};
    return await until("untilFired", [options], timeoutMs, async () => {
      const answer = await this.operations.listFaults({ ...named(wanted, []), fired: 0 });
      const found = counts(answer.faults, this.id).fired;
      return found >= (times ?? 1) ? found : undefined;
    });
  }

  /** Hold no more: the requests that the rule holds go on, and it is removed. */
  async release() {
    await unlessRefused(this.operations.releaseFault({ id: this.id }));
  }

  /** Remove the rule; requests that it holds go on. May be called again. */
  async remove() {
    await unlessRefused(this.operations.removeFault({ id: this.id }));
  }
}

class ShareGroup {
  constructor(kafka, id) {
    this.operations = kafka.operations;
    this.id = id;
  }

  /** Let the time of all acquisition locks be over now, or of one member's; return how many there were. */
  async expireLocks(options) {
    const answer = await this.operations.expireLocks({ ...named(options, ["member"]), id: this.id });
    return answer.expired;
  }

  /** The ids of the members that fetch. */
  async members() {
    const answer = await this.operations.describeShareGroup({ id: this.id });
    return answer.members;
  }

  /** Return the records from each partition's start offset to its end offset, by partition and offset. */
  async inFlight() {
    const answer = await this.operations.describeShareGroup({ id: this.id });
    return answer.partitions.flatMap((row) => row.batches.map((each) => asInFlight({ ...row, ...each })));
  }
}

class Clock {
  constructor(kafka) {
    this.operations = kafka.operations;
  }

  /** Move the brokers' clock forward; return what ended by it, without fetches of followers. */
  async advance(seconds, options) {
    needed("advance", { seconds });
    const answer = await this.operations.advanceClock({ ...named(options, ["sessions"]), seconds });
    return answer.ended.map(asEnded);
  }

  /** Return the brokers' time: milliseconds since 1970-01-01 UTC. */
  async nowMs() {
    const answer = await this.operations.showClock();
    return answer.wall_ms;
  }

  /** Stop the brokers' time until `unfreeze`; only `advance` moves it. */
  async freeze() {
    await this.operations.freezeClock();
  }

  /** Let the brokers' time go on from where it stood. */
  async unfreeze() {
    await this.operations.unfreezeClock();
  }
}

class Controls {
  /** Return the id of the broker that leads a partition. */
  async leader(topic, options) {
    needed("leader", { topic });
    const answer = await this.operations.findLeader({ ...named(options, ["partition"]), topic });
    return answer.leader;
  }

  /** Have an in-sync replica lead a partition; return its id, when all brokers know. No record is lost. */
  async moveLeader(topic, options) {
    needed("moveLeader", { topic });
    const answer = await this.operations.moveLeader({ ...named(options, ["partition", "to"]), topic });
    return answer.leader;
  }

  /** Take a partition's leader away: clients get LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER. */
  async noLeader(topic, options) {
    needed("noLeader", { topic });
    await this.operations.noLeader({ ...named(options, ["partition"]), topic });
  }

  /** Have the brokers delete now what is older than retention.ms or beyond retention.bytes. */
  async applyRetention() {
    await this.operations.applyRetention();
  }

  /** Have the brokers compact now what is committed: each key keeps its newest record. */
  async compact(options) {
    await this.operations.compact({ ...named(options, ["topic"]) });
  }

  /** Wait until all replicas of a topic are in sync. */
  async untilInSync(topic, options) {
    needed("untilInSync", { topic });
    const { timeoutMs, ...wanted } = options ?? {};
    return await until("untilInSync", [topic, options], timeoutMs, async () => {
      const answer = await this.operations.showTopic({ ...named(wanted, []), topic });
      const found = answer.in_sync;
      return found ? found : undefined;
    });
  }

  /** Have a broker fetch nothing from leaders: what it follows is not acknowledged, acks=all waits for it. */
  async holdFollower(broker) {
    needed("holdFollower", { broker });
    await this.operations.changeFollower({ held: true, id: broker });
  }

  /** Let a held follower, or all of them, fetch again. */
  async release(broker) {
    if (broker === undefined) for (const each of await this.runningBrokers()) await this.release(each);
    if (broker === undefined) return;
    await this.operations.changeFollower({ held: false, id: broker });
  }

  /** End a broker as a crash would. The others notice when its lease runs out. */
  async kill(broker) {
    needed("kill", { broker });
    await this.operations.killBroker({ id: broker });
  }

  /** Stop a broker in good order: the others take over its partitions first. */
  async stop(broker) {
    needed("stop", { broker });
    await this.operations.stopBroker({ force: true, id: broker });
  }

  /** Start a stopped or killed broker on the port that it had, with empty logs. */
  async start(broker) {
    needed("start", { broker });
    await this.operations.startBroker({ id: broker });
  }

  /** Start one more broker; return its id when all others know it. Clients learn of it by their metadata. */
  async addBroker(options) {
    const answer = await this.operations.addBroker({ ...named(options, ["rack"]) });
    return answer.broker;
  }

  /** Have a broker stand still until `resume`, as SIGSTOP does to a process. */
  async pause(broker) {
    needed("pause", { broker });
    await this.operations.pauseBroker({ id: broker });
  }

  /** Let a broker that stands still, or all of them, go on: it gets a new lease and follows the new leaders. */
  async resume(broker) {
    if (broker === undefined) return void (await this.operations.resumeBrokers());
    await this.operations.resumeBroker({ id: broker });
  }

  /** Cut the network between groups of brokers until `heal`: `kafka.partition([1], [2, 3])`. */
  async partition(...groups) {
    await this.operations.partitionNetwork({ groups });
  }

  /** End a partition: what was held on the way arrives. */
  async heal() {
    await this.operations.healNetwork();
  }

  /** Return what waits in the brokers' purgatories. */
  async parked(options) {
    const answer = await this.operations.listParked({ ...named(options, ["api", "topic", "client"]) });
    return answer.parked.map(asParked);
  }

  /** Wait until something of that description waits. */
  async untilParked(options) {
    const { timeoutMs, ...wanted } = options ?? {};
    return await until("untilParked", [options], timeoutMs, async () => {
      const answer = await this.operations.listParked({ ...named(wanted, ["api", "topic", "client"]) });
      const found = answer.parked.map(asParked);
      return found.length > 0 ? found : undefined;
    });
  }

  /** Have the deadline of a parked operation come now: its client gets the answer of a request that timed out. */
  async expire(operation) {
    needed("expire", { operation });
    await this.operations.expire({ id: operation.broker, name: operation.purgatory, operation: operation.id });
  }

  /** Return a consumer group, as its coordinator has it; nothing if it does not exist. */
  async group(name) {
    needed("group", { name });
    const answer = await unlessRefused(this.operations.describeGroup({ members: 1000, offsets: 0, id: name }));
    return answer && asGroup(answer);
  }

  /** Wait until a consumer group has a state and a number of members. */
  async untilGroup(name, options) {
    needed("untilGroup", { name });
    const { timeoutMs, state, members, ...wanted } = options ?? {};
    return await until("untilGroup", [name, options], timeoutMs, async () => {
      const answer = await unlessRefused(this.operations.describeGroup({ ...named(wanted, []), members: 1000, offsets: 0, id: name }));
      const found = answer && asGroup(answer);
      return found && (state ?? found.state) === found.state && (members ?? found.members.length) === found.members.length ? found : undefined;
    });
  }

  /** End the session of a group's member now, as if its heartbeats had stayed away; return its member id. */
  async expireMember(group, options) {
    needed("expireMember", { group });
    const answer = await this.operations.expireMember({ ...named(options, ["member"]), id: group });
    return answer.member;
  }

  /** End the time of an open transaction now (transaction.timeout.ms): its coordinator aborts it. */
  async expireTransaction(transactionalId) {
    needed("expireTransaction", { transactionalId });
    await this.operations.expireTransaction({ id: transactionalId });
  }

  /** Move the coordinator of a group to another broker; return its id. */
  async moveGroupCoordinator(group, options) {
    needed("moveGroupCoordinator", { group });
    const answer = await this.operations.moveGroupCoordinator({ ...named(options, ["to"]), id: group });
    return answer.coordinator;
  }

  /** Move the coordinator of a transactional id to another broker; return its id. */
  async moveTransactionCoordinator(transactionalId, options) {
    needed("moveTransactionCoordinator", { transactionalId });
    const answer = await this.operations.moveTransactionCoordinator({ ...named(options, ["to"]), id: transactionalId });
    return answer.coordinator;
  }

  /** The client ids that are connected now, without the brokers' own. */
  async clients() {
    const answer = await this.operations.listClients();
    return answer.clients;
  }

  /** Add a fault rule: an action on matching requests. */
  async fault(rule) {
    const answer = await this.operations.addFault({ ...rule });
    return new Fault(this, answer.id);
  }

  /** Make the network between clients and brokers bad, with a toxic. */
  async network(toxic, toxicIs) {
    needed("network", { toxic, toxicIs });
    const answer = await this.operations.addFault({ ...toxicIs, toxic });
    return new Fault(this, answer.id);
  }

  /** Leave a broker out of the answers to Metadata and DescribeCluster: clients that ask do not learn of it. */
  async hide(broker) {
    needed("hide", { broker });
    const answer = await this.operations.addFault({ hide: broker });
    return new Fault(this, answer.id);
  }

  /** The fault rules, oldest first. */
  async faults() {
    const answer = await this.operations.listFaults({ fired: 0 });
    return answer.faults.map((row) => new Fault(this, row.id));
  }

  /** Remove all fault rules; requests that they hold go on. */
  async clearFaults() {
    await this.operations.clearFaults();
  }

  /** Add access control lists; they are in effect then at all brokers. */
  async addAcls(...acls) {
    await this.operations.addAcls({ acls });
  }

  /** Remove access control lists, as they are listed, at all brokers; all of them or none. */
  async removeAcls(...acls) {
    await this.operations.removeAcls({ acls });
  }

  /** Set client quotas by Kafka's names; return when all brokers apply them. */
  async quota(quotas, options) {
    needed("quota", { quotas });
    await this.operations.editQuotas({ ...named(options, ["user", "client_id", "ip"]), quotas });
  }

  /** Take a snapshot of what the cluster has now; return its name, for `restore`. */
  async snapshot() {
    const answer = await this.operations.takeSnapshot();
    return answer.name;
  }

  /** Make the cluster as it was at a snapshot; takes milliseconds for a small one. It can be restored again. */
  async restore(snapshot) {
    needed("restore", { snapshot });
    await this.operations.restoreSnapshot({ name: snapshot });
  }

  /** Make the cluster as it was at its start, at the same addresses; takes a few milliseconds. */
  async reset() {
    await this.operations.reset();
  }

  /** Return what the cluster waits for, as text of at most 50 lines; a failed test shows it. */
  async report() {
    const answer = await this.operations.report();
    return answer.text;
  }

  /** Return why a group, a topic or a client gets nothing, as text: sentences first, then what there is of it. */
  async explain(name) {
    const answer = await this.operations.why({ name });
    return answer.text;
  }
}

module.exports = { Controls, Clock, ShareGroup, Fault };
