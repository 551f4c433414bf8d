package purgatorio;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The Java kit under JUnit 5, with kafka-clients. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class KitTest {
    @RegisterExtension
    static final KafkaExtension extension = new KafkaExtension(new KafkaOptions().topic("orders", 3));

    private static KafkaProducer<String, String> producer(Kafka kafka) {
        return new KafkaProducer<>(kafka.clientConfig("producer"), new StringSerializer(), new StringSerializer());
    }

    @Test
    @Order(1)
    void theJavaClientProducesAndConsumes(Kafka kafka) throws Exception {
        try (var producer = producer(kafka)) {
            producer.send(new ProducerRecord<>("orders", "17", "paid")).get(20, TimeUnit.SECONDS);
        }
        Map<String, Object> config = kafka.clientConfig("consumer");
        config.putAll(Map.of("group.id", "billing", "auto.offset.reset", "earliest"));
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            var found = consumer.poll(Duration.ofSeconds(20));
            assertEquals(1, found.count());
            found.forEach(each -> assertEquals("paid", each.value()));
        }
        List<KafkaRecord> read = kafka.records("orders");
        assertEquals(List.of("17", "paid"), List.of(read.get(0).keyText(), read.get(0).valueText()));
    }

    @Test
    @Order(2)
    void theTestBeforeHasLeftNothing(Kafka kafka) {
        assertEquals(List.of(), kafka.records("orders"));
    }

    @Test
    void recordsAreProducedWithoutAClient(Kafka kafka) {
        kafka.topic("bills", 2);
        kafka.produce("bills", "text \u00e9\n\"");
        kafka.produce("bills",
                KafkaRecord.of(new byte[] {-1}, null).to(1).with("trace", "9f"), KafkaRecord.of("k", "v").to(1));
        List<KafkaRecord> read = kafka.records("bills");
        assertEquals("text \u00e9\n\"", read.get(0).valueText());
        assertArrayEquals(new byte[] {-1}, read.get(1).key());
        assertNull(read.get(1).value());
        assertEquals("9f", new String(read.get(1).headers().get("trace")));
        assertEquals(List.of(1, 1L), List.of(read.get(2).partition(), read.get(2).offset()));
    }

    @Test
    void manyRecordsAreReadInParts(Kafka kafka) {
        for (int part = 0; part < 11; part++) {
            int from = part * 1000;
            kafka.produce("orders", IntStream.range(from, from + 1000)
                    .mapToObj(each -> KafkaRecord.of(null, String.valueOf(each)).to(1)).toArray(KafkaRecord[]::new));
        }
        List<KafkaRecord> read = kafka.records("orders");
        assertEquals(11_000, read.size());
        assertEquals("10999", read.get(10_999).valueText());
    }

    @Test
    void aFaultFailsARequestOfTheJavaClientWhichAsksAgain(Kafka kafka) throws Exception {
        kafka.run(new Operations.AddFault(Map.of("api", "Produce", "error", "NOT_LEADER_OR_FOLLOWER", "count", 1)));
        try (var producer = producer(kafka)) {
            producer.send(new ProducerRecord<>("orders", "paid")).get(20, TimeUnit.SECONDS);
        }
        assertTrue(kafka.report().contains("fired 1 time"), kafka.report());
    }

    @Test
    void operationsAreRefusedWithTheirStatus(Kafka kafka) {
        assertEquals(404, assertThrows(KafkaRefused.class, () -> kafka.run(new Operations.KillBroker(9))).status());
        var refused = assertThrows(KafkaRefused.class, () -> kafka.records("bils"));
        assertEquals("there is no topic 'bils', only orders", refused.getMessage());
        assertEquals(2L, kafka.run(new Operations.MoveLeader("orders").to(2)).get("leader"));
        assertEquals(
                List.of(List.of(1L), List.of(2L, 3L)),
                kafka.run(new Operations.PartitionNetwork(List.of(List.of(1L), List.of(2L, 3L)))).get("groups"));
    }

    @Test
    void aClusterOfItsOwnEndsWhenItIsClosed() {
        Kafka own = Kafka.start(new KafkaOptions().brokers(1).setting("log.retention.ms", 1000));
        assertEquals(1, own.bootstrap().split(",").length);
        own.close();
        var gone = assertThrows(RuntimeException.class, own::report);
        assertTrue(gone.getMessage().contains("the Kafka cluster does not answer"), gone::toString);
    }

    @Test
    void aClusterThatCannotStartSaysWhy() {
        var misspelt = new KafkaOptions().setting("log.retenton.ms", 1);
        var why = assertThrows(IllegalStateException.class, () -> Kafka.start(misspelt)).getMessage();
        assertTrue(why.contains("did you mean log.retention.ms?"), why);
        var missing = new KafkaOptions().command("no-such-command");
        why = assertThrows(IllegalStateException.class, () -> Kafka.start(missing)).getMessage();
        assertTrue(why.contains("there is no command no-such-command: install it from a clone"), why);
    }

    @Test
    void whatIsNoJsonIsRefused() {
        for (String text : List.of("", "[]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":\"\\x\"}", "{} {}")) {
            assertThrows(IllegalArgumentException.class, () -> Json.object(text), text);
        }
        String whole = "{\"a\":[1,-2.5,true,null,\"\\u00e9\\n\\\"\"],\"b\":{}}";
        assertEquals(whole, Json.write(Json.object(whole)).replace("\\u000a", "\\n"));
    }

    @Test
    void settingsWithoutARoleAreForGroupsWhoseSessionsTheBrokersSet(Kafka kafka) {
        kafka.produce("orders", "paid");
        Map<String, Object> config = kafka.clientConfig();
        config.putAll(Map.of("group.id", "lines", "client.id", "lines"));
        var texts = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(config, texts, texts)) {
            consumer.subscribe(List.of("orders"));
            assertEquals(0, consumer.poll(Duration.ZERO).count());
        }
        config.putAll(Map.of("group.id", "billing", "group.protocol", "consumer", "auto.offset.reset", "earliest"));
        try (var consumer = new KafkaConsumer<>(config, texts, texts)) {
            consumer.subscribe(List.of("orders"));
            assertEquals(1, consumer.poll(Duration.ofSeconds(20)).count());
        }
        var error = assertThrows(IllegalArgumentException.class, () -> kafka.clientConfig("share-consumer"));
        assertTrue(error.getMessage().endsWith("; clientConfig() without one is for share consumers"));
    }

    @Nested
    class InANestedClass {
        @Test
        void theClusterIsTheSame(Kafka kafka) {
            assertEquals(List.of(), kafka.records("orders"));
        }
    }
}
