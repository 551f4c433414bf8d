// Written by scripts/client_operations.py of scripts/kit_names.py; do not edit.
package purgatorio;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** The controls of a cluster, by the names of the Python kit; {@link Kafka} has them. */
public abstract class KafkaControls {
    KafkaControls() {}

    /** Do an operation; return its answer. */
    public abstract Map<String, Object> run(Operation operation);

    /** The ids of the running brokers. */
    public abstract List<Long> runningBrokers();

    /** Return the id of the broker that leads a partition. */
    public long leader(String topic) {
        return leader(topic, options -> {});
    }

    /** Return the id of the broker that leads a partition. */
    public long leader(String topic, Consumer<Operations.FindLeader> options) {
        var operation = new Operations.FindLeader(topic);
        options.accept(operation);
        return (Long) run(operation).get("leader");
    }

    /** Have an in-sync replica lead a partition; return its id, when all brokers know. No record is lost. */
    public long moveLeader(String topic) {
        return moveLeader(topic, options -> {});
    }

    /** Have an in-sync replica lead a partition; return its id, when all brokers know. No record is lost. */
    public long moveLeader(String topic, Consumer<Operations.MoveLeader> options) {
        var operation = new Operations.MoveLeader(topic);
        options.accept(operation);
        return (Long) run(operation).get("leader");
    }

    /** Take a partition's leader away: clients get LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER. */
    public void noLeader(String topic) {
        noLeader(topic, options -> {});
    }

    /** Take a partition's leader away: clients get LEADER_NOT_AVAILABLE or NOT_LEADER_OR_FOLLOWER. */
    public void noLeader(String topic, Consumer<Operations.NoLeader> options) {
        var operation = new Operations.NoLeader(topic);
        options.accept(operation);
        run(operation);
    }

    /** Have the brokers delete now what is older than retention.ms or beyond retention.bytes. */
    public void applyRetention() {
        run(new Operations.ApplyRetention());
    }

    /** Have the brokers compact now what is committed: each key keeps its newest record. */
    public void compact() {
        compact(options -> {});
    }

    /** Have the brokers compact now what is committed: each key keeps its newest record. */
    public void compact(Consumer<Operations.Compact> options) {
        var operation = new Operations.Compact();
        options.accept(operation);
        run(operation);
    }

    /** Wait until all replicas of a topic are in sync. */
    public void untilInSync(String topic) {
        untilInSync(topic, Calls.WAIT);
    }

    /** Wait until all replicas of a topic are in sync. */
    public void untilInSync(String topic, Duration timeout) {
        Calls.until("untilInSync" + " " + topic, timeout, () -> {
            var found = (Boolean) run(new Operations.ShowTopic(topic)).get("in_sync");
            return found ? found : null;
        });
    }

    /** Have a broker fetch nothing from leaders: what it follows is not acknowledged, acks=all waits for it. */
    public void holdFollower(long broker) {
        run(new Operations.ChangeFollower(broker).held(true));
    }

    /** Let a held follower, or all of them, fetch again. */
    public void release() {
        runningBrokers().forEach(this::release);
    }

    /** Let a held follower, or all of them, fetch again. */
    public void release(long broker) {
        run(new Operations.ChangeFollower(broker).held(false));
    }

    /** End a broker as a crash would. The others notice when its lease runs out. */
    public void kill(long broker) {
        run(new Operations.KillBroker(broker));
    }

    /** Stop a broker in good order: the others take over its partitions first. */
    public void stop(long broker) {
        run(new Operations.StopBroker(broker).force(true));
    }

    /** Start a stopped or killed broker on the port that it had, with empty logs. */
    public void start(long broker) {
        run(new Operations.StartBroker(broker));
    }

    /** Start one more broker; return its id when all others know it. Clients learn of it by their metadata. */
    public long addBroker() {
        return addBroker(options -> {});
    }

    /** Start one more broker; return its id when all others know it. Clients learn of it by their metadata. */
    public long addBroker(Consumer<Operations.AddBroker> options) {
        var operation = new Operations.AddBroker();
        options.accept(operation);
        return (Long) run(operation).get("broker");
    }

    /** Have a broker stand still until `resume`, as SIGSTOP does to a process. */
    public void pause(long broker) {
        run(new Operations.PauseBroker(broker));
    }

    /** Let a broker that stands still, or all of them, go on: it gets a new lease and follows the new leaders. */
    public void resume() {
        run(new Operations.ResumeBrokers());
    }

    /** Let a broker that stands still, or all of them, go on: it gets a new lease and follows the new leaders. */
    public void resume(long broker) {
        run(new Operations.ResumeBroker(broker));
    }

    /** Cut the network between groups of brokers until `heal`: `kafka.partition([1], [2, 3])`. */
    @SafeVarargs
    @SuppressWarnings("varargs")
    public final void partition(List<Integer>... groups) {
        run(new Operations.PartitionNetwork(Calls.list(groups)));
    }

    /** End a partition: what was held on the way arrives. */
    public void heal() {
        run(new Operations.HealNetwork());
    }

    /** Return what waits in the brokers' purgatories. */
    public List<Parked> parked() {
        return parked(options -> {});
    }

    /** Return what waits in the brokers' purgatories. */
    public List<Parked> parked(Consumer<Operations.ListParked> options) {
        var operation = new Operations.ListParked();
        options.accept(operation);
        return Json.objects(run(operation).get("parked")).stream().map(Parked::of).toList();
    }

    /** Wait until something of that description waits. */
    public List<Parked> untilParked() {
        return untilParked(options -> {}, Calls.WAIT);
    }

    /** Wait until something of that description waits. */
    public List<Parked> untilParked(Consumer<Operations.ListParked> options) {
        return untilParked(options, Calls.WAIT);
    }

    /** Wait until something of that description waits. */
    public List<Parked> untilParked(Consumer<Operations.ListParked> options, Duration timeout) {
        var operation = new Operations.ListParked();
        options.accept(operation);
        return Calls.until("untilParked" + " " + operation, timeout, () -> {
            var found = Json.objects(run(operation).get("parked")).stream().map(Parked::of).toList();
            return !found.isEmpty() ? found : null;
        });
    }

    /** Have the deadline of a parked operation come now: its client gets the answer of a request that timed out. */
    public void expire(Parked operation) {
        run(new Operations.Expire(operation.broker(), operation.purgatory(), operation.id()));
    }

    /** Return a consumer group, as its coordinator has it; nothing if it does not exist. */
    public Group group(String name) {
        return Calls.unlessRefused(() -> Group.of(run(new Operations.DescribeGroup(name).members(1000).offsets(0))));
    }

    /** Wait until a consumer group has a state and a number of members. */
    public Group untilGroup(String name, String state, long members) {
        return untilGroup(name, state, members, Calls.WAIT);
    }

    /** Wait until a consumer group has a state and a number of members. */
    public Group untilGroup(String name, String state, long members, Duration timeout) {
        return Calls.until("untilGroup" + " " + name + " " + state + " " + members, timeout, () -> {
            var found = Calls.unlessRefused(() -> Group.of(run(new Operations.DescribeGroup(name).members(1000).offsets(0))));
            return found != null && (state == null || state.equals(found.state())) && (members < 0 || members == found.members().size()) ? found : null;
        });
    }

    /** End the session of a group's member now, as if its heartbeats had stayed away; return its member id. */
    public String expireMember(String group) {
        return expireMember(group, options -> {});
    }

    /** End the session of a group's member now, as if its heartbeats had stayed away; return its member id. */
    public String expireMember(String group, Consumer<Operations.ExpireMember> options) {
        var operation = new Operations.ExpireMember(group);
        options.accept(operation);
        return (String) run(operation).get("member");
    }

    /** End the time of an open transaction now (transaction.timeout.ms): its coordinator aborts it. */
    public void expireTransaction(String transactionalId) {
        run(new Operations.ExpireTransaction(transactionalId));
    }

    /** Move the coordinator of a group to another broker; return its id. */
    public long moveGroupCoordinator(String group) {
        return moveGroupCoordinator(group, options -> {});
    }

    /** Move the coordinator of a group to another broker; return its id. */
    public long moveGroupCoordinator(String group, Consumer<Operations.MoveGroupCoordinator> options) {
        var operation = new Operations.MoveGroupCoordinator(group);
        options.accept(operation);
        return (Long) run(operation).get("coordinator");
    }

    /** Move the coordinator of a transactional id to another broker; return its id. */
    public long moveTransactionCoordinator(String transactionalId) {
        return moveTransactionCoordinator(transactionalId, options -> {});
    }

    /** Move the coordinator of a transactional id to another broker; return its id. */
    public long moveTransactionCoordinator(String transactionalId, Consumer<Operations.MoveTransactionCoordinator> options) {
        var operation = new Operations.MoveTransactionCoordinator(transactionalId);
        options.accept(operation);
        return (Long) run(operation).get("coordinator");
    }

    /** The client ids that are connected now, without the brokers' own. */
    public List<String> clients() {
        return Calls.texts(run(new Operations.ListClients()).get("clients"));
    }

    /** Add a fault rule: an action on matching requests. */
    public Fault fault(Map<String, ?> rule) {
        return new Fault(this, (Long) run(new Operations.AddFault(rule)).get("id"));
    }

    /** Make the network between clients and brokers bad, with a toxic. */
    public Fault network(String toxic, Map<String, ?> toxicIs) {
        return new Fault(this, (Long) run(new Operations.AddFault(Calls.with(toxicIs, "toxic", toxic))).get("id"));
    }

    /** Leave a broker out of the answers to Metadata and DescribeCluster: clients that ask do not learn of it. */
    public Fault hide(long broker) {
        return new Fault(this, (Long) run(new Operations.AddFault(Calls.with(Map.of(), "hide", broker))).get("id"));
    }

    /** The fault rules, oldest first. */
    public List<Fault> faults() {
        return Json.objects(run(new Operations.ListFaults().fired(0)).get("faults")).stream().map(row -> new Fault(this, (Long) row.get("id"))).toList();
    }

    /** Remove all fault rules; requests that they hold go on. */
    public void clearFaults() {
        run(new Operations.ClearFaults());
    }

    /** Add access control lists; they are in effect then at all brokers. */
    public void addAcls(String... acls) {
        run(new Operations.AddAcls(Calls.list(acls)));
    }

    /** Remove access control lists, as they are listed, at all brokers; all of them or none. */
    public void removeAcls(String... acls) {
        run(new Operations.RemoveAcls(Calls.list(acls)));
    }

    /** Set client quotas by Kafka's names; return when all brokers apply them. */
    public void quota(Map<String, ?> quotas) {
        quota(quotas, options -> {});
    }

    /** Set client quotas by Kafka's names; return when all brokers apply them. */
    public void quota(Map<String, ?> quotas, Consumer<Operations.EditQuotas> options) {
        var operation = new Operations.EditQuotas(quotas);
        options.accept(operation);
        run(operation);
    }

    /** Take a snapshot of what the cluster has now; return its name, for `restore`. */
    public String snapshot() {
        return (String) run(new Operations.TakeSnapshot()).get("name");
    }

    /** Make the cluster as it was at a snapshot; takes milliseconds for a small one. It can be restored again. */
    public void restore(String snapshot) {
        run(new Operations.RestoreSnapshot(snapshot));
    }

    /** Make the cluster as it was at its start, at the same addresses; takes a few milliseconds. */
    public void reset() {
        run(new Operations.Reset());
    }

    /** Return what the cluster waits for, as text of at most 50 lines; a failed test shows it. */
    public String report() {
        return (String) run(new Operations.Report()).get("text");
    }

    /** Return why a group, a topic or a client gets nothing, as text: sentences first, then what there is of it. */
    public String explain() {
        return explain(null);
    }

    /** Return why a group, a topic or a client gets nothing, as text: sentences first, then what there is of it. */
    public String explain(String name) {
        return (String) run(new Operations.Why().name(name)).get("text");
    }

    /** The brokers' time, moved by hand. */
    public static final class Clock {
        private final KafkaControls kafka;

        Clock(KafkaControls kafka) {
            this.kafka = kafka;
        }

        /** Move the brokers' clock forward; return what ended by it, without fetches of followers. */
        public List<Ended> advance(double seconds) {
            return advance(seconds, options -> {});
        }

        /** Move the brokers' clock forward; return what ended by it, without fetches of followers. */
        public List<Ended> advance(double seconds, Consumer<Operations.AdvanceClock> options) {
            var operation = new Operations.AdvanceClock(seconds);
            options.accept(operation);
            return Json.objects(kafka.run(operation).get("ended")).stream().map(Ended::of).toList();
        }

        /** Return the brokers' time: milliseconds since 1970-01-01 UTC. */
        public long nowMs() {
            return (Long) kafka.run(new Operations.ShowClock()).get("wall_ms");
        }

        /** Stop the brokers' time until `unfreeze`; only `advance` moves it. */
        public void freeze() {
            kafka.run(new Operations.FreezeClock());
        }

        /** Let the brokers' time go on from where it stood. */
        public void unfreeze() {
            kafka.run(new Operations.UnfreezeClock());
        }
    }

    /** A share group, which need not exist yet. */
    public static final class ShareGroup {
        private final KafkaControls kafka;
        private final String id;

        ShareGroup(KafkaControls kafka, String id) {
            this.kafka = kafka;
            this.id = id;
        }

        /** Its id. */
        public String id() {
            return id;
        }

        /** Let the time of all acquisition locks be over now, or of one member's; return how many there were. */
        public long expireLocks() {
            return expireLocks(options -> {});
        }

        /** Let the time of all acquisition locks be over now, or of one member's; return how many there were. */
        public long expireLocks(Consumer<Operations.ExpireLocks> options) {
            var operation = new Operations.ExpireLocks(id);
            options.accept(operation);
            return (Long) kafka.run(operation).get("expired");
        }

        /** The ids of the members that fetch. */
        public List<String> members() {
            return Calls.texts(kafka.run(new Operations.DescribeShareGroup(id)).get("members"));
        }

        /** Return the records from each partition's start offset to its end offset, by partition and offset. */
        public List<InFlight> inFlight() {
            return Json.objects(Calls.inner(kafka.run(new Operations.DescribeShareGroup(id)).get("partitions"), "batches")).stream().map(InFlight::of).toList();
        }
    }

    /** A fault rule of a cluster. */
    public static final class Fault {
        private final KafkaControls kafka;
        private final long id;

        Fault(KafkaControls kafka, long id) {
            this.kafka = kafka;
            this.id = id;
        }

        /** Its id. */
        public long id() {
            return id;
        }

        /** The requests that matched, whether or not the rule acted on them. */
        public long matched() {
            return (Long) Calls.counts(kafka.run(new Operations.ListFaults().fired(0)), id).get("matched");
        }

        /** The requests that the rule acted on, or for one that observes, counted. */
        public long fired() {
            return (Long) Calls.counts(kafka.run(new Operations.ListFaults().fired(0)), id).get("fired");
        }

        /** The requests that the rule holds now. */
        public long held() {
            return (Long) Calls.counts(kafka.run(new Operations.ListFaults().fired(0)), id).get("held");
        }

        /** Wait until the rule has fired so often; return how often it has. */
        public long untilFired(long times) {
            return untilFired(times, Calls.WAIT);
        }

        /** Wait until the rule has fired so often; return how often it has. */
        public long untilFired(long times, Duration timeout) {
            return Calls.until("untilFired" + " " + times, timeout, () -> {
                var found = (Long) Calls.counts(kafka.run(new Operations.ListFaults().fired(0)), id).get("fired");
                return found >= times ? found : null;
            });
        }

        /** Hold no more: the requests that the rule holds go on, and it is removed. */
        public void release() {
            Calls.unlessRefused(() -> kafka.run(new Operations.ReleaseFault(id)));
        }

        /** Remove the rule; requests that it holds go on. May be called again. */
        public void remove() {
            Calls.unlessRefused(() -> kafka.run(new Operations.RemoveFault(id)));
        }
    }

    /** A request, or another operation, that waits in a broker's purgatory. */
    public record Parked(long broker, long id, String purgatory, String client, List<String> keys, String missing, List<Map<String, Object>> causes, long waitedMs, long leftMs) {
        static Parked of(Map<String, Object> row) {
            return new Parked(
                    (Long) row.get("broker"),
                    (Long) row.get("id"),
                    (String) row.get("purgatory"),
                    (String) row.get("client"),
                    Calls.texts(row.get("keys")),
                    (String) row.get("missing"),
                    Json.objects(row.get("causes")),
                    (Long) row.get("waited_ms"),
                    (Long) row.get("remaining_ms"));
        }
    }

    /** An operation whose time was over. */
    public record Ended(long broker, String purgatory, String client, List<String> keys, String missing, long waitedMs) {
        static Ended of(Map<String, Object> row) {
            return new Ended(
                    (Long) row.get("broker"),
                    (String) row.get("purgatory"),
                    (String) row.get("client"),
                    Calls.texts(row.get("keys")),
                    (String) row.get("missing"),
                    (Long) row.get("waited_ms"));
        }
    }

    /** Neighbouring records of a partition that a share group has not done with. */
    public record InFlight(String topic, long partition, long firstOffset, long lastOffset, String state, long deliveryCount, String member, Long lockLeftMs) {
        static InFlight of(Map<String, Object> row) {
            return new InFlight(
                    (String) row.get("topic"),
                    (Long) row.get("partition"),
                    (Long) row.get("first_offset"),
                    (Long) row.get("last_offset"),
                    (String) row.get("state"),
                    (Long) row.get("delivery_count"),
                    (String) row.get("member"),
                    (Long) row.get("lock_left_ms"));
        }
    }

    /** A member of a consumer group. */
    public record Member(String id, String client) {
        static Member of(Map<String, Object> row) {
            return new Member(
                    (String) row.get("member_id"),
                    (String) row.get("client"));
        }
    }

    /** A consumer group. */
    public record Group(String name, String state, long coordinator, long epoch, List<Member> members, String waitsFor) {
        static Group of(Map<String, Object> row) {
            return new Group(
                    (String) row.get("id"),
                    (String) row.get("state"),
                    (Long) row.get("coordinator"),
                    (Long) row.get("epoch"),
                    Json.objects(row.get("members")).stream().map(Member::of).toList(),
                    (String) row.get("waits_for"));
        }
    }
}
