package purgatorio;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The names of the Python kit, in Java. */
class NamesTest {
    @RegisterExtension
    static final KafkaExtension extension = new KafkaExtension(new KafkaOptions().topic("orders", 1));

    private KafkaProducer<String, String> producer;

    /** Send a record with acks=all. */
    private Future<RecordMetadata> sending(Kafka kafka) {
        Map<String, Object> config = kafka.clientConfig("producer");
        config.put("client.id", "shop");
        producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        return producer.send(new ProducerRecord<>("orders", "paid"));
    }

    @AfterEach
    void closeTheProducer() {
        if (producer != null) {
            producer.close(Duration.ZERO);
        }
    }

    private static void holdAll(Kafka kafka) {
        kafka.runningBrokers().forEach(kafka::holdFollower);
    }

    @Test
    void aHeldFollowerLetsAcksAllWaitUntilItIsReleased(Kafka kafka) throws Exception {
        kafka.moveLeader("orders", options -> options.to(1));
        kafka.holdFollower(3);
        var sent = sending(kafka);
        var parked = kafka.untilParked(options -> options.api("Produce").topic("orders").client("shop")).get(0);
        assertEquals(List.of(1L, "Produce", "shop"), List.of(parked.broker(), parked.purgatory(), parked.client()));
        assertTrue(parked.missing().contains("broker 3 is at 0 of 1"), parked::toString);
        assertTrue(parked.leftMs() > 0);
        assertEquals(1, kafka.parked(options -> options.client("shop")).size());
        kafka.release();
        sent.get(20, TimeUnit.SECONDS);
    }

    @Test
    void aParkedRequestIsExpired(Kafka kafka) throws Exception {
        holdAll(kafka);
        var sent = sending(kafka);
        var first = kafka.untilParked(options -> options.client("shop")).get(0);
        kafka.expire(first);
        assertEquals(404, assertThrows(KafkaRefused.class, () -> kafka.expire(first)).status());
        kafka.release(1);
        kafka.release();
        sent.get(20, TimeUnit.SECONDS);
    }

    @Test
    void leadersAreFoundMovedAndTakenAway(Kafka kafka) {
        assertEquals(2, kafka.moveLeader("orders", options -> options.partition(0).to(2)));
        assertEquals(2, kafka.leader("orders"));
        kafka.noLeader("orders");
        assertEquals(3, kafka.moveLeader("orders", options -> options.to(3)));
    }

    @Test
    void brokersAreStoppedKilledPausedCutOffAndComeBack(Kafka kafka) {
        kafka.stop(1);
        assertEquals(List.of(2L, 3L), kafka.runningBrokers());
        kafka.start(1);
        kafka.kill(2);
        kafka.start(2);
        kafka.pause(3);
        kafka.resume(3);
        kafka.resume();
        kafka.partition(List.of(1), List.of(2, 3));
        kafka.heal();
        assertEquals(4, kafka.addBroker(options -> options.rack("b")));
        kafka.untilInSync("orders");
        assertEquals(404, assertThrows(KafkaRefused.class, () -> kafka.kill(9)).status());
    }

    @Test
    void theBrokersTimeIsMoved(Kafka kafka) {
        holdAll(kafka);
        sending(kafka);
        kafka.untilParked(options -> options.client("shop"));
        kafka.clock().freeze();
        long before = kafka.clock().nowMs();
        var ended = kafka.clock().advance(6.5);
        assertEquals(before + 6_500, kafka.clock().nowMs());
        assertTrue(ended.stream().anyMatch(each -> each.missing().contains("is at 0 of 1")), ended::toString);
        kafka.clock().unfreeze();
    }

    @Test
    void faultsAreCountedHeldAndRemoved(Kafka kafka) throws Exception {
        var fault = kafka.fault(Map.of("api", "Produce", "error", "NOT_LEADER_OR_FOLLOWER", "count", 1));
        var sent = sending(kafka);
        assertEquals(1, fault.untilFired(1));
        sent.get(20, TimeUnit.SECONDS);
        assertEquals(List.of(1L, 0L), List.of(fault.fired(), fault.held()));
        var hidden = kafka.hide(2);
        var slow = kafka.network("latency", Map.of("latency_ms", 1));
        assertEquals(
                List.of(fault.id(), hidden.id(), slow.id()),
                kafka.faults().stream().map(Kafka.Fault::id).toList());
        hidden.remove();
        hidden.remove();
        slow.release();
        kafka.quota(Map.of("producer_byte_rate", 1_000_000), options -> options.clientId("shop"));
        kafka.clearFaults();
        assertEquals(List.of(), kafka.faults());
        assertThrows(IllegalStateException.class, fault::fired);
    }

    @Test
    void groupsAreWaitedForAndTheirMembersExpire(Kafka kafka) throws Exception {
        assertNull(kafka.group("billing"));
        Map<String, Object> config = kafka.clientConfig("consumer");
        config.putAll(Map.of("group.id", "billing", "client.id", "biller"));
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            while (consumer.assignment().isEmpty()) {
                consumer.poll(Duration.ofMillis(50));
            }
            var group = kafka.untilGroup("billing", "Stable", 1);
            assertEquals("biller", group.members().get(0).client());
            assertTrue(kafka.clients().contains("biller"), kafka.clients()::toString);
            assertTrue(kafka.explain("billing").contains("billing"));
            assertEquals(404, assertThrows(KafkaRefused.class, () -> kafka.explain("biling")).status());
            assertTrue(kafka.explain().contains("brokers: 1 at "));
            assertEquals(group.members().get(0).id(), kafka.expireMember("billing", each -> each.member("biller")));
            long to = group.coordinator() == 1 ? 2 : 1;
            assertEquals(to, kafka.moveGroupCoordinator("billing", options -> options.to(to)));
        }
        var late = assertThrows(
                IllegalStateException.class, () -> kafka.untilGroup("billing", null, 9, Duration.ofMillis(1)));
        assertTrue(late.getMessage().contains("still waiting after 0.001 s: untilGroup billing null 9"), late::toString);
    }

    @Test
    void aSnapshotIsRestoredAndLogsAreCleaned(Kafka kafka) {
        kafka.topic("prices", 1, Map.of("cleanup.policy", "compact"));
        kafka.produce("prices", KafkaRecord.of("tea", "1"));
        String snapshot = kafka.snapshot();
        kafka.produce("prices", KafkaRecord.of("tea", "2"));
        kafka.compact(options -> options.topic("prices"));
        kafka.applyRetention();
        assertEquals(List.of("2"), kafka.records("prices").stream().map(KafkaRecord::valueText).toList());
        kafka.restore(snapshot);
        assertEquals(List.of("1"), kafka.records("prices").stream().map(KafkaRecord::valueText).toList());
    }

    @Test
    void whatThisClusterDoesNotHaveIsRefused(Kafka kafka) {
        assertThrows(KafkaRefused.class, () -> kafka.addAcls("allow User:alice READ topic orders"));
        assertThrows(KafkaRefused.class, () -> kafka.expireTransaction("payer"));
        assertEquals(0, kafka.shareGroup("mailers").expireLocks());
        assertEquals(List.of(), kafka.shareGroup("mailers").inFlight());
        assertThrows(IllegalArgumentException.class, () -> kafka.clientConfig("reader"));
    }
}
