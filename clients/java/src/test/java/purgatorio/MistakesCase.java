package purgatorio;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Tests that fail on purpose, each by a common mistake: the first line of the report says which. */
class MistakesCase {
    @RegisterExtension
    static final KafkaExtension extension = new KafkaExtension(new KafkaOptions().topic("orders", 1));

    private static KafkaConsumer<String, String> consumer(Kafka kafka, String clientId, String reset) {
        Map<String, Object> config = new HashMap<>(kafka.clientConfig("consumer"));
        config.putAll(Map.of(
                "client.id", clientId,
                "group.id", "billing",
                "auto.offset.reset", reset,
                "allow.auto.create.topics", "false"));
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    @Test
    void aConsumerStartsAfterTheRecord(Kafka kafka) {
        kafka.produce("orders", "tea");
        try (var late = consumer(kafka, "late", "latest")) {
            late.subscribe(List.of("orders"));
            assertEquals(1, late.poll(Duration.ofSeconds(1)).count());
        }
    }

    @Test
    void twoMembersShareATopicOfOnePartition(Kafka kafka) {
        kafka.produce("orders", "tea", "cake");
        try (var one = consumer(kafka, "one", "earliest"); var two = consumer(kafka, "two", "earliest")) {
            one.subscribe(List.of("orders"));
            assertEquals(2, one.poll(Duration.ofSeconds(5)).count());
            two.subscribe(List.of("orders"));
            int count = 0;
            for (int turn = 0; turn < 20; turn++) {
                one.poll(Duration.ofMillis(30));
                count += two.poll(Duration.ofMillis(30)).count();
            }
            assertEquals(1, count);
        }
    }

    @Test
    void aGroupHasReadTheTopicBefore(Kafka kafka) {
        kafka.produce("orders", "tea");
        for (String id : List.of("invoices", "mails")) {
            try (var consumer = consumer(kafka, id, "earliest")) {
                consumer.subscribe(List.of("orders"));
                assertEquals(1, consumer.poll(Duration.ofSeconds(1)).count());
                consumer.commitSync();
            }
        }
    }

    @Test
    void theTopicHasAnotherName(Kafka kafka) {
        kafka.produce("orders", "tea");
        try (var shipping = consumer(kafka, "shipping", "earliest")) {
            shipping.subscribe(List.of("order"));
            assertEquals(1, shipping.poll(Duration.ofSeconds(1)).count());
        }
    }
}
