// Written by scripts/client_operations.py of the operations' OpenAPI document; do not edit.
package purgatorio;

import java.util.List;
import java.util.Map;

/** The operations on a cluster, for {@link Kafka#run}. */
public final class Operations {
    private Operations() {}

    /** Brokers, purgatories, parked and finished operations, wheels, partitions; every list is bounded. */
    public static final class State extends Operation {
        public State() {
            super("GET", "/state");
        }

        /** Parked operations per purgatory, up to 1000. */
        public State operations(long operations) {
            query("operations", operations);
            return this;
        }

        /** Only operations that finished since then, on the clock of now_ms. */
        public State sinceMs(long sinceMs) {
            query("since_ms", sinceMs);
            return this;
        }

        /** Up to 40 partitions, with commas, instead of the most telling ones. */
        public State partitions(String partitions) {
            query("partitions", partitions);
            return this;
        }
    }

    /**
     * Operations that wait in purgatories, oldest first in each; sessions only of the purgatory that is asked for.
     */
    public static final class ListParked extends Operation {
        public ListParked() {
            super("GET", "/parked");
        }

        /** Only of this purgatory: Produce, Fetch, Rebalance …. */
        public ListParked api(String api) {
            query("api", api);
            return this;
        }

        /** Only what watches this topic or partition, such as orders or orders-0. */
        public ListParked topic(String topic) {
            query("topic", topic);
            return this;
        }

        /** Only of this client id. */
        public ListParked client(String client) {
            query("client", client);
            return this;
        }

        /** How many of each purgatory, up to 1000. */
        public ListParked operations(long operations) {
            query("operations", operations);
            return this;
        }
    }

    /** Partitions and their replicas in few bytes: up to 1,000, those that are offline or wait first. */
    public static final class Matrix extends Operation {
        public Matrix() {
            super("GET", "/matrix");
        }
    }

    /** The operations that ended last, newest first. */
    public static final class Finished extends Operation {
        public Finished() {
            super("GET", "/finished");
        }

        /** How many, up to 1000. */
        public Finished limit(long limit) {
            query("limit", limit);
            return this;
        }
    }

    /** One purgatory with its parked operations, oldest first. */
    public static final class ShowPurgatory extends Operation {
        /**
         * @param id the broker's id
         * @param name the purgatory's name, such as Produce
         */
        public ShowPurgatory(long id, String name) {
            super("GET", "/brokers/{id}/purgatories/{name}");
            path("id", id);
            path("name", name);
        }

        /** How many, up to 1000. */
        public ShowPurgatory operations(long operations) {
            query("operations", operations);
            return this;
        }
    }

    /** Let the deadline of a parked operation come now. */
    public static final class Expire extends Operation {
        /**
         * @param id its broker
         * @param name its purgatory, as listed
         * @param operation its id, as listed
         */
        public Expire(long id, String name, long operation) {
            super("POST", "/brokers/{id}/purgatories/{name}/operations/{operation}/expire");
            path("id", id);
            path("name", name);
            path("operation", operation);
        }
    }

    /**
     * Topics, groups, where consumers read, what waits, transactions, faults and the last requests, at one moment.
     */
    public static final class Facts extends Operation {
        public Facts() {
            super("GET", "/facts");
        }
    }

    /** Why clients get nothing, and what the cluster has, as the text that a failed test shows. */
    public static final class Report extends Operation {
        public Report() {
            super("GET", "/report");
        }
    }

    /** Say why a group, a topic or a client gets nothing; all of them if none is named. */
    public static final class Why extends Operation {
        public Why() {
            super("GET", "/why");
        }

        /** Only about this group, topic or client id. */
        public Why name(String name) {
            query("name", name);
            return this;
        }
    }

    /** All brokers, running or not, with their epochs and leases. */
    public static final class ListBrokers extends Operation {
        public ListBrokers() {
            super("GET", "/brokers");
        }
    }

    /** Start one more broker, of which clients learn by their metadata; answers when all brokers know it. */
    public static final class AddBroker extends Operation {
        public AddBroker() {
            super("POST", "/brokers");
        }

        /** Its rack; the next one of the setting racks if it is not given. */
        public AddBroker rack(String rack) {
            body("rack", rack);
            return this;
        }
    }

    /** Connections of clients and brokers: address, client id, principal, age, requests and bytes. */
    public static final class ListConnections extends Operation {
        public ListConnections() {
            super("GET", "/connections");
        }

        /** How many, up to 1000. */
        public ListConnections limit(long limit) {
            query("limit", limit);
            return this;
        }
    }

    /** Client ids that are connected, by name, without the brokers' own; a client without one by its address. */
    public static final class ListClients extends Operation {
        public ListClients() {
            super("GET", "/clients");
        }

        /** How many, up to 10000. */
        public ListClients limit(long limit) {
            query("limit", limit);
            return this;
        }
    }

    /** Hold back the fetches by which this broker follows others. */
    public static final class ChangeFollower extends Operation {
        /**
         * @param id the broker's id
         */
        public ChangeFollower(long id) {
            super("POST", "/brokers/{id}/follower");
            path("id", id);
        }

        /** True: send none. */
        public ChangeFollower held(boolean held) {
            body("held", held);
            return this;
        }

        /** Wait so long after records came, 0 to 3600000. */
        public ChangeFollower delayMs(long delayMs) {
            body("delay_ms", delayMs);
            return this;
        }
    }

    /** Stop a broker in good order; the records in its memory are lost. */
    public static final class StopBroker extends Operation {
        /**
         * @param id the broker's id
         */
        public StopBroker(long id) {
            super("POST", "/brokers/{id}/stop");
            path("id", id);
        }

        /** True: even if it is the last in-sync replica of partitions; their records are lost. */
        public StopBroker force(boolean force) {
            body("force", force);
            return this;
        }
    }

    /** End a broker without unregistering it: the others notice when its lease runs out. */
    public static final class KillBroker extends Operation {
        /**
         * @param id the broker's id
         */
        public KillBroker(long id) {
            super("POST", "/brokers/{id}/kill");
            path("id", id);
        }
    }

    /** Start a broker with empty logs; answers when it is registered. */
    public static final class StartBroker extends Operation {
        /**
         * @param id the broker's id
         */
        public StartBroker(long id) {
            super("POST", "/brokers/{id}/start");
            path("id", id);
        }
    }

    /** Restart all brokers in turn, each when all partitions are in sync again; answers after the last. */
    public static final class RestartBrokers extends Operation {
        public RestartBrokers() {
            super("POST", "/brokers/restart");
        }
    }

    /** Let a broker stand still, as SIGSTOP does; the others notice when its lease runs out. */
    public static final class PauseBroker extends Operation {
        /**
         * @param id the broker's id
         */
        public PauseBroker(long id) {
            super("POST", "/brokers/{id}/pause");
            path("id", id);
        }
    }

    /** Let a paused broker go on. */
    public static final class ResumeBroker extends Operation {
        /**
         * @param id the broker's id
         */
        public ResumeBroker(long id) {
            super("POST", "/brokers/{id}/resume");
            path("id", id);
        }
    }

    /** Let all paused brokers go on. */
    public static final class ResumeBrokers extends Operation {
        public ResumeBrokers() {
            super("POST", "/brokers/resume");
        }
    }

    /** Leader, replicas, ISR and ELR of each partition, by name. */
    public static final class ListTopics extends Operation {
        public ListTopics() {
            super("GET", "/topics");
        }

        /** Only this topic's. */
        public ListTopics topic(String topic) {
            query("topic", topic);
            return this;
        }

        /** How many, up to 1000. */
        public ListTopics limit(long limit) {
            query("limit", limit);
            return this;
        }
    }

    /** Create a topic; answers when all brokers know its leaders. */
    public static final class CreateTopic extends Operation {
        /**
         * @param name the topic's name
         */
        public CreateTopic(String name) {
            super("POST", "/topics");
            body("name", name);
        }

        /** How many; num.partitions if it is not given. */
        public CreateTopic partitions(long partitions) {
            body("partitions", partitions);
            return this;
        }

        /** Of each partition; default.replication.factor if it is not given. */
        public CreateTopic replicas(long replicas) {
            body("replicas", replicas);
            return this;
        }

        /** Its configs by Kafka's names: {"cleanup.policy": "compact"}. */
        public CreateTopic configs(Map<String, String> configs) {
            body("configs", configs);
            return this;
        }
    }

    /** A topic as the brokers know it: partitions, if any; whether all are led, and all replicas in sync. */
    public static final class ShowTopic extends Operation {
        /**
         * @param topic the topic
         */
        public ShowTopic(String topic) {
            super("GET", "/topics/{topic}");
            path("topic", topic);
        }
    }

    /** The leader of a partition, when it leads: an election is waited for. */
    public static final class FindLeader extends Operation {
        /**
         * @param topic the topic
         */
        public FindLeader(String topic) {
            super("GET", "/topics/{topic}/leader");
            path("topic", topic);
        }

        /** Of that topic; 0 if it is not given. */
        public FindLeader partition(long partition) {
            query("partition", partition);
            return this;
        }
    }

    /** Elect preferred leaders, or unclean leaders for partitions that have none. */
    public static final class ElectLeaders extends Operation {
        public ElectLeaders() {
            super("POST", "/topics/elect");
        }

        /** All topics if it is not given. */
        public ElectLeaders topic(String topic) {
            body("topic", topic);
            return this;
        }

        /** Of that topic; all its partitions if it is not given. */
        public ElectLeaders partition(long partition) {
            body("partition", partition);
            return this;
        }

        /** True: any live replica may lead where there is no leader; acknowledged records may be lost. */
        public ElectLeaders unclean(boolean unclean) {
            body("unclean", unclean);
            return this;
        }
    }

    /** Have an in-sync replica lead a partition; answers when all brokers know. */
    public static final class MoveLeader extends Operation {
        /**
         * @param topic the topic
         */
        public MoveLeader(String topic) {
            super("POST", "/topics/move-leader");
            body("topic", topic);
        }

        /** Of that topic; 0 if it is not given. */
        public MoveLeader partition(long partition) {
            body("partition", partition);
            return this;
        }

        /** The broker; any other in-sync replica if it is not given. */
        public MoveLeader to(long to) {
            body("to", to);
            return this;
        }
    }

    /** Take a partition's leader away, until it is moved or a broker comes or goes. */
    public static final class NoLeader extends Operation {
        /**
         * @param topic the topic
         */
        public NoLeader(String topic) {
            super("POST", "/topics/no-leader");
            body("topic", topic);
        }

        /** Of that topic; 0 if it is not given. */
        public NoLeader partition(long partition) {
            body("partition", partition);
            return this;
        }
    }

    /** Compact logs now, with their active segments, whatever their dirty ratio. */
    public static final class Compact extends Operation {
        public Compact() {
            super("POST", "/topics/compact");
        }

        /** Only this one; all that are compacted if it is not given. */
        public Compact topic(String topic) {
            body("topic", topic);
            return this;
        }
    }

    /** Delete now what is older than retention.ms or beyond retention.bytes. */
    public static final class ApplyRetention extends Operation {
        public ApplyRetention() {
            super("POST", "/topics/apply-retention");
        }
    }

    /**
     * Append records with acks=all, without a client; answers when they are committed. Where brokers are processes,
     * all of them to partitions that one broker leads.
     */
    public static final class ProduceRecords extends Operation {
        /**
         * @param topic the topic
         * @param records the records: {"key": "17", "value": "paid", "headers": [{"name": "trace", "value": "9f"}],
         * "partition": 0, "timestamp_ms": 0}, each field may be left out; bytes are in key_base64 and value_base64
         */
        public ProduceRecords(String topic, List<? extends Map<String, ?>> records) {
            super("POST", "/topics/{topic}/records");
            path("topic", topic);
            body("records", records);
        }

        /** The client id of what waits for followers meanwhile. */
        public ProduceRecords client(String client) {
            body("client", client);
            return this;
        }
    }

    /**
     * The committed records of a topic, by partition and offset, without a client. Where brokers are processes, of
     * partitions that one broker leads.
     */
    public static final class ReadRecords extends Operation {
        /**
         * @param topic the topic
         */
        public ReadRecords(String topic) {
            super("GET", "/topics/{topic}/records");
            path("topic", topic);
        }

        /** Only this one's; all partitions' if it is not given. */
        public ReadRecords partition(long partition) {
            query("partition", partition);
            return this;
        }

        /** Only records from this offset on. */
        public ReadRecords offset(long offset) {
            query("offset", offset);
            return this;
        }

        /** How many, up to 10000. */
        public ReadRecords limit(long limit) {
            query("limit", limit);
            return this;
        }

        /** Read_committed leaves out what was aborted or is open; by default it is there. */
        public ReadRecords isolationLevel(String isolationLevel) {
            query("isolation_level", isolationLevel);
            return this;
        }
    }

    /** Consumer groups by name: type, state, generation or epoch, coordinator, members, lag. */
    public static final class ListGroups extends Operation {
        public ListGroups() {
            super("GET", "/groups");
        }

        /** How many, up to 1000. */
        public ListGroups limit(long limit) {
            query("limit", limit);
            return this;
        }
    }

    /** A group with its members, what each owns, and the offset and lag of each partition. */
    public static final class DescribeGroup extends Operation {
        /**
         * @param id the group's id
         */
        public DescribeGroup(String id) {
            super("GET", "/groups/{id}");
            path("id", id);
        }

        /** How many members, up to 10000. */
        public DescribeGroup members(long members) {
            query("members", members);
            return this;
        }

        /** Offsets of how many partitions, up to 2000. */
        public DescribeGroup offsets(long offsets) {
            query("offsets", offsets);
            return this;
        }
    }

    /** Commit offsets for a group that has no members; answers when they are replicated. */
    public static final class ResetOffsets extends Operation {
        /**
         * @param id the group's id
         * @param topic the topic
         */
        public ResetOffsets(String id, String topic) {
            super("POST", "/groups/{id}/reset-offsets");
            path("id", id);
            body("topic", topic);
        }

        /** Of that topic; all its partitions if it is not given. */
        public ResetOffsets partition(long partition) {
            body("partition", partition);
            return this;
        }

        /** Earliest or latest, or. */
        public ResetOffsets to(String to) {
            body("to", to);
            return this;
        }

        /** An offset; the nearest one that the log has, or. */
        public ResetOffsets offset(long offset) {
            body("offset", offset);
            return this;
        }

        /** The first record with this timestamp or a later one; the end if there is none. */
        public ResetOffsets timestampMs(long timestampMs) {
            body("timestamp_ms", timestampMs);
            return this;
        }
    }

    /** Delete a group that has no members, with its offsets. */
    public static final class DeleteGroup extends Operation {
        /**
         * @param id the group's id
         */
        public DeleteGroup(String id) {
            super("POST", "/groups/{id}/delete");
            path("id", id);
        }
    }

    /** End the session of a member now, as if its heartbeats had stayed away. */
    public static final class ExpireMember extends Operation {
        /**
         * @param id the group's id
         */
        public ExpireMember(String id) {
            super("POST", "/groups/{id}/expire-member");
            path("id", id);
        }

        /** Its member id or its client id; the only member if it is not given. */
        public ExpireMember member(String member) {
            body("member", member);
            return this;
        }
    }

    /** Move the coordinator of a group, with all groups of its partition. */
    public static final class MoveGroupCoordinator extends Operation {
        /**
         * @param id the group's id
         */
        public MoveGroupCoordinator(String id) {
            super("POST", "/groups/{id}/move-coordinator");
            path("id", id);
        }

        /** The broker; any other in-sync replica if it is not given. */
        public MoveGroupCoordinator to(long to) {
            body("to", to);
            return this;
        }
    }

    /** Share groups by name: their share partitions, and how many records are in flight, acquired and done there. */
    public static final class ListShareGroups extends Operation {
        public ListShareGroups() {
            super("GET", "/share-groups");
        }

        /** How many, up to 1000. */
        public ListShareGroups limit(long limit) {
            query("limit", limit);
            return this;
        }
    }

    /**
     * A share group's partitions with their records in flight: state, deliveries, which member has them, how long.
     */
    public static final class DescribeShareGroup extends Operation {
        /**
         * @param id the group's id
         */
        public DescribeShareGroup(String id) {
            super("GET", "/share-groups/{id}");
            path("id", id);
        }
    }

    /** Move the start offsets of a share group that has no members; what was done with later records is forgotten. */
    public static final class ResetShareOffsets extends Operation {
        /**
         * @param id the group's id
         * @param topic the topic
         */
        public ResetShareOffsets(String id, String topic) {
            super("POST", "/share-groups/{id}/reset-offsets");
            path("id", id);
            body("topic", topic);
        }

        /** Of that topic; all its partitions if it is not given. */
        public ResetShareOffsets partition(long partition) {
            body("partition", partition);
            return this;
        }

        /** Earliest or latest, or. */
        public ResetShareOffsets to(String to) {
            body("to", to);
            return this;
        }

        /** An offset; the nearest one that the log has, or. */
        public ResetShareOffsets offset(long offset) {
            body("offset", offset);
            return this;
        }

        /** The first record with this timestamp or a later one; the end if there is none. */
        public ResetShareOffsets timestampMs(long timestampMs) {
            body("timestamp_ms", timestampMs);
            return this;
        }
    }

    /** Delete a share group that has no members, with the state of its records. */
    public static final class DeleteShareGroup extends Operation {
        /**
         * @param id the group's id
         */
        public DeleteShareGroup(String id) {
            super("POST", "/share-groups/{id}/delete");
            path("id", id);
        }
    }

    /**
     * End the time of acquisition locks now: their records are available again, or given up after many deliveries.
     */
    public static final class ExpireLocks extends Operation {
        /**
         * @param id the group's id
         */
        public ExpireLocks(String id) {
            super("POST", "/share-groups/{id}/expire-locks");
            path("id", id);
        }

        /** Only this member's, by its id; all if it is not given. */
        public ExpireLocks member(String member) {
            body("member", member);
            return this;
        }
    }

    /** Transactional ids with their transactions: state, producer, times, coordinator; the oldest open first. */
    public static final class ListTransactions extends Operation {
        public ListTransactions() {
            super("GET", "/transactions");
        }

        /** How many, up to 1000. */
        public ListTransactions limit(long limit) {
            query("limit", limit);
            return this;
        }

        /** Only those in this state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort. */
        public ListTransactions state(String state) {
            query("state", state);
            return this;
        }

        /** Only this producer's. */
        public ListTransactions producerId(long producerId) {
            query("producer_id", producerId);
            return this;
        }

        /** Only those that are open, or being ended, for longer. */
        public ListTransactions openLongerThanMs(long openLongerThanMs) {
            query("open_longer_than_ms", openLongerThanMs);
            return this;
        }
    }

    /** A transactional id, with the partitions of its transaction and the end markers that are missing. */
    public static final class DescribeTransaction extends Operation {
        /**
         * @param id the transactional id
         */
        public DescribeTransaction(String id) {
            super("GET", "/transactions/{id}");
            path("id", id);
        }
    }

    /** Abort the open transaction of a transactional id, and fence its producer. */
    public static final class AbortTransaction extends Operation {
        /**
         * @param id the transactional id
         */
        public AbortTransaction(String id) {
            super("POST", "/transactions/{id}/abort");
            path("id", id);
        }
    }

    /** End the time of an open transaction now (transaction.timeout.ms): its coordinator aborts it. */
    public static final class ExpireTransaction extends Operation {
        /**
         * @param id the transactional id
         */
        public ExpireTransaction(String id) {
            super("POST", "/transactions/{id}/expire");
            path("id", id);
        }
    }

    /** Move the coordinator of a transactional id, with all ids of its partition. */
    public static final class MoveTransactionCoordinator extends Operation {
        /**
         * @param id the transactional id
         */
        public MoveTransactionCoordinator(String id) {
            super("POST", "/transactions/{id}/move-coordinator");
            path("id", id);
        }

        /** The broker; any other in-sync replica if it is not given. */
        public MoveTransactionCoordinator to(long to) {
            body("to", to);
            return this;
        }
    }

    /** Transactions that are open in a log, and that no coordinator has as open. */
    public static final class ListHangingTransactions extends Operation {
        public ListHangingTransactions() {
            super("GET", "/hanging-transactions");
        }
    }

    /** Write the abort marker of a hanging transaction; refused if a coordinator knows the transaction. */
    public static final class AbortHangingTransaction extends Operation {
        /**
         * @param topic the topic
         * @param partition its partition
         * @param producerId the producer of its records
         */
        public AbortHangingTransaction(String topic, long partition, long producerId) {
            super("POST", "/hanging-transactions/abort");
            body("topic", topic);
            body("partition", partition);
            body("producer_id", producerId);
        }
    }

    /** List the topics that have a part in the tier, with their bytes there, in memory, and not copied yet. */
    public static final class ListTier extends Operation {
        public ListTier() {
            super("GET", "/tier");
        }
    }

    /** Show which records of each partition are in the tier, in memory, or both. */
    public static final class ShowTier extends Operation {
        /**
         * @param topic the topic
         */
        public ShowTier(String topic) {
            super("GET", "/tier/{topic}");
            path("topic", topic);
        }

        /** How many segments of each partition are listed, up to 1000; none if it is not given. */
        public ShowTier segments(long segments) {
            query("segments", segments);
            return this;
        }
    }

    /**
     * Copy all committed records of a topic to the tier, and delete them from memory; answers when it is done.
     * Segments are closed for it. Records behind an open transaction stay, as those that are not committed.
     */
    public static final class Offload extends Operation {
        /**
         * @param topic the topic
         */
        public Offload(String topic) {
            super("POST", "/tier/{topic}/offload");
            path("topic", topic);
        }

        /** The longest wait for the store; 10 s if it is not given. */
        public Offload timeoutSeconds(double timeoutSeconds) {
            body("timeout_seconds", timeoutSeconds);
            return this;
        }
    }

    /** Read all objects of a topic, and compare sizes and checksums with what was written. */
    public static final class VerifyTier extends Operation {
        /**
         * @param topic the topic
         */
        public VerifyTier(String topic) {
            super("POST", "/tier/{topic}/verify");
            path("topic", topic);
        }
    }

    /** Look through the whole tier for objects of deleted topics, and delete them; the controller's broker does. */
    public static final class SweepTier extends Operation {
        public SweepTier() {
            super("POST", "/tier/sweep");
        }
    }

    /** Hold reads or writes of the tier, by a fault rule, until they are released. */
    public static final class HoldTier extends Operation {
        /**
         * @param what reads, which are of consumers, or writes, which are copies
         */
        public HoldTier(String what) {
            super("POST", "/tier/hold");
            body("what", what);
        }

        /** Only of this topic's records; of all topics if it is not given. */
        public HoldTier topic(String topic) {
            body("topic", topic);
            return this;
        }
    }

    /** Let reads or writes of the tier go on that were held. */
    public static final class ReleaseTier extends Operation {
        /**
         * @param what reads, which are of consumers, or writes, which are copies
         */
        public ReleaseTier(String what) {
            super("POST", "/tier/release");
            body("what", what);
        }

        /** Only the hold of this topic; all holds if it is not given. */
        public ReleaseTier topic(String topic) {
            body("topic", topic);
            return this;
        }
    }

    /** The fault rules with their counts, oldest first, and the faults that fired last, newest first. */
    public static final class ListFaults extends Operation {
        public ListFaults() {
            super("GET", "/faults");
        }

        /** How many faults that fired, up to 1000. */
        public ListFaults fired(long fired) {
            query("fired", fired);
            return this;
        }
    }

    /** Add a fault rule: what is done to which requests; the newest rule that matches a request acts. */
    public static final class AddFault extends Operation {
        /**
         * @param body all that is given, by its names
         */
        public AddFault(Map<String, ?> body) {
            super("POST", "/faults");
            whole(body);
        }
    }

    /** Remove all fault rules. */
    public static final class ClearFaults extends Operation {
        public ClearFaults() {
            super("DELETE", "/faults");
        }
    }

    /** Remove a fault rule; requests that it holds go on. */
    public static final class RemoveFault extends Operation {
        /**
         * @param id the rule's id, as listed
         */
        public RemoveFault(long id) {
            super("DELETE", "/faults/{id}");
            path("id", id);
        }
    }

    /** Let the requests go on that a fault rule holds, and remove it. */
    public static final class ReleaseFault extends Operation {
        /**
         * @param id the rule's id, as listed
         */
        public ReleaseFault(long id) {
            super("POST", "/faults/{id}/release");
            path("id", id);
        }
    }

    /** The brokers' time, and whether it can be moved or stands still. */
    public static final class ShowClock extends Operation {
        public ShowClock() {
            super("GET", "/clock");
        }
    }

    /** Move the brokers' time forward; answers with the operations whose time was over. */
    public static final class AdvanceClock extends Operation {
        /**
         * @param seconds how far
         */
        public AdvanceClock(double seconds) {
            super("POST", "/clock/advance");
            body("seconds", seconds);
        }

        /** True: also for members of groups, which cannot send heartbeats at that pace. */
        public AdvanceClock sessions(boolean sessions) {
            body("sessions", sessions);
            return this;
        }

        /** How many operations to list, up to 10000. */
        public AdvanceClock limit(long limit) {
            body("limit", limit);
            return this;
        }
    }

    /** Stop the brokers' time. */
    public static final class FreezeClock extends Operation {
        public FreezeClock() {
            super("POST", "/clock/freeze");
        }
    }

    /** Let the brokers' time go on. */
    public static final class UnfreezeClock extends Operation {
        public UnfreezeClock() {
            super("POST", "/clock/unfreeze");
        }
    }

    /** The brokers that stand still, and the groups between which the network is cut. */
    public static final class ShowNetwork extends Operation {
        public ShowNetwork() {
            super("GET", "/network");
        }
    }

    /** Cut the network between groups of brokers; the largest group keeps the metadata. */
    public static final class PartitionNetwork extends Operation {
        /**
         * @param groups lists of broker ids, such as [[1], [2, 3]]
         */
        public PartitionNetwork(List<? extends List<Long>> groups) {
            super("POST", "/network/partition");
            body("groups", groups);
        }
    }

    /** End the partition of the network. */
    public static final class HealNetwork extends Operation {
        public HealNetwork() {
            super("POST", "/network/heal");
        }
    }

    /** The snapshots that were taken here, oldest first. */
    public static final class ListSnapshots extends Operation {
        public ListSnapshots() {
            super("GET", "/snapshots");
        }
    }

    /** Save topics, records, groups, producers and transactions; up to 10 are kept. */
    public static final class TakeSnapshot extends Operation {
        public TakeSnapshot() {
            super("POST", "/snapshots");
        }

        /** A name; a number if it is not given. */
        public TakeSnapshot name(String name) {
            body("name", name);
            return this;
        }
    }

    /** Make the cluster as it was at a snapshot: all brokers are replaced, clients connect again. */
    public static final class RestoreSnapshot extends Operation {
        /**
         * @param name the snapshot's name, as listed
         */
        public RestoreSnapshot(String name) {
            super("POST", "/snapshots/{name}/restore");
            path("name", name);
        }
    }

    /** Make the cluster as it was at its start: other topics, records, groups, faults and moves of time are gone. */
    public static final class Reset extends Operation {
        public Reset() {
            super("POST", "/reset");
        }
    }

    /** Forget a snapshot. */
    public static final class RemoveSnapshot extends Operation {
        /**
         * @param name the snapshot's name, as listed
         */
        public RemoveSnapshot(String name) {
            super("DELETE", "/snapshots/{name}");
            path("name", name);
        }
    }

    /** Users with SCRAM credentials: mechanisms and iterations. */
    public static final class ListUsers extends Operation {
        public ListUsers() {
            super("GET", "/users");
        }
    }

    /** Set a user's SCRAM credential; answers when all brokers know it. */
    public static final class SetUser extends Operation {
        /**
         * @param name the user's
         * @param mechanism SCRAM-SHA-256 or SCRAM-SHA-512
         * @param iterations 4096 to 16384
         * @param salt in base64
         * @param saltedPassword in base64: PBKDF2 of the password with this salt and these iterations (RFC 5802)
         */
        public SetUser(String name, String mechanism, long iterations, String salt, String saltedPassword) {
            super("POST", "/users/set");
            body("name", name);
            body("mechanism", mechanism);
            body("iterations", iterations);
            body("salt", salt);
            body("salted_password", saltedPassword);
        }
    }

    /** Delete a user's SCRAM credential; open connections stay. */
    public static final class DeleteUser extends Operation {
        /**
         * @param name the user's
         * @param mechanism SCRAM-SHA-256 or SCRAM-SHA-512
         */
        public DeleteUser(String name, String mechanism) {
            super("POST", "/users/delete");
            body("name", name);
            body("mechanism", mechanism);
        }
    }

    /** Client quotas by user, client id and IP address. */
    public static final class ListQuotas extends Operation {
        public ListQuotas() {
            super("GET", "/quotas");
        }
    }

    /** Set and remove quotas of an entity; answers when all brokers apply them. */
    public static final class EditQuotas extends Operation {
        /**
         * @param quotas values by Kafka's names, such as producer_byte_rate; null removes one
         */
        public EditQuotas(Map<String, ?> quotas) {
            super("POST", "/quotas/edit");
            body("quotas", quotas);
        }

        /** The entity: a name, null for the default of its kind, or absent. */
        public EditQuotas user(String user) {
            body("user", user);
            return this;
        }

        /** The entity: a name, null for the default of its kind, or absent. */
        public EditQuotas clientId(String clientId) {
            body("client_id", clientId);
            return this;
        }

        /** The entity: a name, null for the default of its kind, or absent. */
        public EditQuotas ip(String ip) {
            body("ip", ip);
            return this;
        }
    }

    /** The access control lists, oldest first. */
    public static final class ListAcls extends Operation {
        public ListAcls() {
            super("GET", "/acls");
        }

        /** How many, up to 10000. */
        public ListAcls limit(long limit) {
            query("limit", limit);
            return this;
        }
    }

    /** Add ACLs, all or none; answers when they are in effect at all brokers. */
    public static final class AddAcls extends Operation {
        /**
         * @param acls a list of texts like 'allow User:alice READ,WRITE topic orders', or of their words
         */
        public AddAcls(List<?> acls) {
            super("POST", "/acls/add");
            body("acls", acls);
        }
    }

    /** Remove ACLs, all or none. */
    public static final class RemoveAcls extends Operation {
        /**
         * @param acls a list of texts like 'allow User:alice READ,WRITE topic orders', or of their words
         */
        public RemoveAcls(List<?> acls) {
            super("POST", "/acls/remove");
            body("acls", acls);
        }
    }
}
