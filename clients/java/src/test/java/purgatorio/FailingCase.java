package purgatorio;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A test that fails on purpose: its cluster tells what waits. Its name is not that of a test, so that it must be asked for. */
class FailingCase {
    @RegisterExtension
    static final KafkaExtension extension = new KafkaExtension(new KafkaOptions().topic("orders", 1));

    @Test
    void aFollowerIsHeldAndForgotten(Kafka kafka) {
        for (int id = 1; id <= 3; id++) {
            kafka.holdFollower(id);
        }
        Map<String, Object> config = new HashMap<>(kafka.clientConfig("producer"));
        config.put("client.id", "shop");
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "paid"));
            kafka.untilParked(options -> options.client("shop"));
            assertEquals(1, kafka.records("orders").size());
        }
    }
}
