package purgatorio;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A producer that needs a second to close, in a test that passes and in one that fails by something else. */
class ClosingCase {
    @RegisterExtension
    static final KafkaExtension extension = new KafkaExtension(new KafkaOptions().topic("orders", 1));

    private static void produceSlowly(Kafka kafka) {
        kafka.moveLeader("orders", options -> options.to(1));
        kafka.holdFollower(3);
        CompletableFuture.delayedExecutor(1200, TimeUnit.MILLISECONDS).execute(() -> kafka.release(3));
        Map<String, Object> config = kafka.clientConfig("producer");
        config.put("client.id", "shop");
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "paid"));
        }
    }

    @Test
    void passes(Kafka kafka) {
        produceSlowly(kafka);
        assertEquals(1, kafka.records("orders").size());
    }

    @Test
    void failsByAnotherMistake(Kafka kafka) {
        produceSlowly(kafka);
        Map<String, Object> config = kafka.clientConfig("consumer");
        config.putAll(Map.of("client.id", "late", "group.id", "billing", "auto.offset.reset", "latest"));
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            assertEquals(1, consumer.poll(Duration.ofMillis(1500)).count());
        }
    }
}
