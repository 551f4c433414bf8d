// Written by scripts/client_operations.py of the operations' OpenAPI document; do not edit.

export type Answer = Record<string, any>;

export interface Operations {
  /** Brokers, purgatories, parked and finished operations, wheels, partitions; every list is bounded. */
  state(given?: { operations?: number; since_ms?: number; partitions?: string }): Promise<Answer>;
  /** Operations that wait in purgatories, oldest first in each; sessions only of the purgatory that is asked for. */
  listParked(given?: { api?: string; topic?: string; client?: string; operations?: number }): Promise<Answer>;
  /** Partitions and their replicas in few bytes: up to 1,000, those that are offline or wait first. */
  matrix(): Promise<Answer>;
  /** The operations that ended last, newest first. */
  finished(given?: { limit?: number }): Promise<Answer>;
  /** One purgatory with its parked operations, oldest first. */
  showPurgatory(given: { id: number; name: string; operations?: number }): Promise<Answer>;
  /** Let the deadline of a parked operation come now. */
  expire(given: { id: number; name: string; operation: number }): Promise<Answer>;
  /** Topics, groups, where consumers read, what waits, transactions, faults and the last requests, at one moment. */
  facts(): Promise<Answer>;
  /** Why clients get nothing, and what the cluster has, as the text that a failed test shows. */
  report(): Promise<Answer>;
  /** Say why a group, a topic or a client gets nothing; all of them if none is named. */
  why(given?: { name?: string }): Promise<Answer>;
  /** All brokers, running or not, with their epochs and leases. */
  listBrokers(): Promise<Answer>;
  /** Start one more broker, of which clients learn by their metadata; answers when all brokers know it. */
  addBroker(given?: { rack?: string }): Promise<Answer>;
  /** Connections of clients and brokers: address, client id, principal, age, requests and bytes. */
  listConnections(given?: { limit?: number }): Promise<Answer>;
  /** Client ids that are connected, by name, without the brokers' own; a client without one by its address. */
  listClients(given?: { limit?: number }): Promise<Answer>;
  /** Hold back the fetches by which this broker follows others. */
  changeFollower(given: { id: number; held?: boolean; delay_ms?: number }): Promise<Answer>;
  /** Stop a broker in good order; the records in its memory are lost. */
  stopBroker(given: { id: number; force?: boolean }): Promise<Answer>;
  /** End a broker without unregistering it: the others notice when its lease runs out. */
  killBroker(given: { id: number }): Promise<Answer>;
  /** Start a broker with empty logs; answers when it is registered. */
  startBroker(given: { id: number }): Promise<Answer>;
  /** Restart all brokers in turn, each when all partitions are in sync again; answers after the last. */
  restartBrokers(): Promise<Answer>;
  /** Let a broker stand still, as SIGSTOP does; the others notice when its lease runs out. */
  pauseBroker(given: { id: number }): Promise<Answer>;
  /** Let a paused broker go on. */
  resumeBroker(given: { id: number }): Promise<Answer>;
  /** Let all paused brokers go on. */
  resumeBrokers(): Promise<Answer>;
  /** Leader, replicas, ISR and ELR of each partition, by name. */
  listTopics(given?: { topic?: string; limit?: number }): Promise<Answer>;
  /** Create a topic; answers when all brokers know its leaders. */
  createTopic(given: { name: string; partitions?: number; replicas?: number; configs?: Record<string, string> }): Promise<Answer>;
  /** A topic as the brokers know it: partitions, if any; whether all are led, and all replicas in sync. */
  showTopic(given: { topic: string }): Promise<Answer>;
  /** The leader of a partition, when it leads: an election is waited for. */
  findLeader(given: { topic: string; partition?: number }): Promise<Answer>;
  /** Elect preferred leaders, or unclean leaders for partitions that have none. */
  electLeaders(given?: { topic?: string; partition?: number; unclean?: boolean }): Promise<Answer>;
  /** Have an in-sync replica lead a partition; answers when all brokers know. */
  moveLeader(given: { topic: string; partition?: number; to?: number }): Promise<Answer>;
  /** Take a partition's leader away, until it is moved or a broker comes or goes. */
  noLeader(given: { topic: string; partition?: number }): Promise<Answer>;
  /** Compact logs now, with their active segments, whatever their dirty ratio. */
  compact(given?: { topic?: string }): Promise<Answer>;
  /** Delete now what is older than retention.ms or beyond retention.bytes. */
  applyRetention(): Promise<Answer>;
  /**
   * Append records with acks=all, without a client; answers when they are committed. Where brokers are processes, all
   * of them to partitions that one broker leads.
   */
  produceRecords(given: { topic: string; records: Record<string, any>[]; client?: string }): Promise<Answer>;
  /**
   * The committed records of a topic, by partition and offset, without a client. Where brokers are processes, of
   * partitions that one broker leads.
   */
  readRecords(given: { topic: string; partition?: number; offset?: number; limit?: number; isolation_level?: string }): Promise<Answer>;
  /** Consumer groups by name: type, state, generation or epoch, coordinator, members, lag. */
  listGroups(given?: { limit?: number }): Promise<Answer>;
  /** A group with its members, what each owns, and the offset and lag of each partition. */
  describeGroup(given: { id: string; members?: number; offsets?: number }): Promise<Answer>;
  /** Commit offsets for a group that has no members; answers when they are replicated. */
  resetOffsets(given: { id: string; topic: string; partition?: number; to?: "earliest" | "latest"; offset?: number; timestamp_ms?: number }): Promise<Answer>;
  /** Delete a group that has no members, with its offsets. */
  deleteGroup(given: { id: string }): Promise<Answer>;
  /** End the session of a member now, as if its heartbeats had stayed away. */
  expireMember(given: { id: string; member?: string }): Promise<Answer>;
  /** Move the coordinator of a group, with all groups of its partition. */
  moveGroupCoordinator(given: { id: string; to?: number }): Promise<Answer>;
  /** Share groups by name: their share partitions, and how many records are in flight, acquired and done there. */
  listShareGroups(given?: { limit?: number }): Promise<Answer>;
  /** A share group's partitions with their records in flight: state, deliveries, which member has them, how long. */
  describeShareGroup(given: { id: string }): Promise<Answer>;
  /** Move the start offsets of a share group that has no members; what was done with later records is forgotten. */
  resetShareOffsets(given: { id: string; topic: string; partition?: number; to?: "earliest" | "latest"; offset?: number; timestamp_ms?: number }): Promise<Answer>;
  /** Delete a share group that has no members, with the state of its records. */
  deleteShareGroup(given: { id: string }): Promise<Answer>;
  /** End the time of acquisition locks now: their records are available again, or given up after many deliveries. */
  expireLocks(given: { id: string; member?: string }): Promise<Answer>;
  /** Transactional ids with their transactions: state, producer, times, coordinator; the oldest open first. */
  listTransactions(given?: { limit?: number; state?: string; producer_id?: number; open_longer_than_ms?: number }): Promise<Answer>;
  /** A transactional id, with the partitions of its transaction and the end markers that are missing. */
  describeTransaction(given: { id: string }): Promise<Answer>;
  /** Abort the open transaction of a transactional id, and fence its producer. */
  abortTransaction(given: { id: string }): Promise<Answer>;
  /** End the time of an open transaction now (transaction.timeout.ms): its coordinator aborts it. */
  expireTransaction(given: { id: string }): Promise<Answer>;
  /** Move the coordinator of a transactional id, with all ids of its partition. */
  moveTransactionCoordinator(given: { id: string; to?: number }): Promise<Answer>;
  /** Transactions that are open in a log, and that no coordinator has as open. */
  listHangingTransactions(): Promise<Answer>;
  /** Write the abort marker of a hanging transaction; refused if a coordinator knows the transaction. */
  abortHangingTransaction(given: { topic: string; partition: number; producer_id: number }): Promise<Answer>;
  /** List the topics that have a part in the tier, with their bytes there, in memory, and not copied yet. */
  listTier(): Promise<Answer>;
  /** Show which records of each partition are in the tier, in memory, or both. */
  showTier(given: { topic: string; segments?: number }): Promise<Answer>;
  /**
   * Copy all committed records of a topic to the tier, and delete them from memory; answers when it is done. Segments
   * are closed for it. Records behind an open transaction stay, as those that are not committed.
   */
  offload(given: { topic: string; timeout_seconds?: number }): Promise<Answer>;
  /** Read all objects of a topic, and compare sizes and checksums with what was written. */
  verifyTier(given: { topic: string }): Promise<Answer>;
  /** Look through the whole tier for objects of deleted topics, and delete them; the controller's broker does. */
  sweepTier(): Promise<Answer>;
  /** Hold reads or writes of the tier, by a fault rule, until they are released. */
  holdTier(given: { what: "reads" | "writes"; topic?: string }): Promise<Answer>;
  /** Let reads or writes of the tier go on that were held. */
  releaseTier(given: { what: "reads" | "writes"; topic?: string }): Promise<Answer>;
  /** The fault rules with their counts, oldest first, and the faults that fired last, newest first. */
  listFaults(given?: { fired?: number }): Promise<Answer>;
  /** Add a fault rule: what is done to which requests; the newest rule that matches a request acts. */
  addFault(given: Record<string, any>): Promise<Answer>;
  /** Remove all fault rules. */
  clearFaults(): Promise<Answer>;
  /** Remove a fault rule; requests that it holds go on. */
  removeFault(given: { id: number }): Promise<Answer>;
  /** Let the requests go on that a fault rule holds, and remove it. */
  releaseFault(given: { id: number }): Promise<Answer>;
  /** The brokers' time, and whether it can be moved or stands still. */
  showClock(): Promise<Answer>;
  /** Move the brokers' time forward; answers with the operations whose time was over. */
  advanceClock(given: { seconds: number; sessions?: boolean; limit?: number }): Promise<Answer>;
  /** Stop the brokers' time. */
  freezeClock(): Promise<Answer>;
  /** Let the brokers' time go on. */
  unfreezeClock(): Promise<Answer>;
  /** The brokers that stand still, and the groups between which the network is cut. */
  showNetwork(): Promise<Answer>;
  /** Cut the network between groups of brokers; the largest group keeps the metadata. */
  partitionNetwork(given: { groups: number[][] }): Promise<Answer>;
  /** End the partition of the network. */
  healNetwork(): Promise<Answer>;
  /** The snapshots that were taken here, oldest first. */
  listSnapshots(): Promise<Answer>;
  /** Save topics, records, groups, producers and transactions; up to 10 are kept. */
  takeSnapshot(given?: { name?: string }): Promise<Answer>;
  /** Make the cluster as it was at a snapshot: all brokers are replaced, clients connect again. */
  restoreSnapshot(given: { name: string }): Promise<Answer>;
  /** Make the cluster as it was at its start: other topics, records, groups, faults and moves of time are gone. */
  reset(): Promise<Answer>;
  /** Forget a snapshot. */
  removeSnapshot(given: { name: string }): Promise<Answer>;
  /** Users with SCRAM credentials: mechanisms and iterations. */
  listUsers(): Promise<Answer>;
  /** Set a user's SCRAM credential; answers when all brokers know it. */
  setUser(given: { name: string; mechanism: "SCRAM-SHA-256" | "SCRAM-SHA-512"; iterations: number; salt: string; salted_password: string }): Promise<Answer>;
  /** Delete a user's SCRAM credential; open connections stay. */
  deleteUser(given: { name: string; mechanism: "SCRAM-SHA-256" | "SCRAM-SHA-512" }): Promise<Answer>;
  /** Client quotas by user, client id and IP address. */
  listQuotas(): Promise<Answer>;
  /** Set and remove quotas of an entity; answers when all brokers apply them. */
  editQuotas(given: { quotas: Record<string, number | null>; user?: string; client_id?: string; ip?: string }): Promise<Answer>;
  /** The access control lists, oldest first. */
  listAcls(given?: { limit?: number }): Promise<Answer>;
  /** Add ACLs, all or none; answers when they are in effect at all brokers. */
  addAcls(given: { acls: (string | string[])[] }): Promise<Answer>;
  /** Remove ACLs, all or none. */
  removeAcls(given: { acls: (string | string[])[] }): Promise<Answer>;
}
