import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.messaging.handler.annotation.SendTo;

/** A service of Spring Kafka: bills each order, in a transaction. */
@Configuration
@EnableKafka
public class Billing {
    private static final String BROKERS = System.getenv("BOOTSTRAP");

    @Bean
    ConsumerFactory<String, String> consumers() {
        return new DefaultKafkaConsumerFactory<>(
                Map.of("bootstrap.servers", BROKERS, "auto.offset.reset", "earliest"),
                new StringDeserializer(), new StringDeserializer());
    }

    @Bean
    ProducerFactory<String, String> producers() {
        Map<String, Object> config = new HashMap<>();
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, BROKERS);
        var factory = new DefaultKafkaProducerFactory<>(config, new StringSerializer(), new StringSerializer());
        factory.setTransactionIdPrefix("billing-");
        return factory;
    }

    @Bean
    KafkaTemplate<String, String> template(ProducerFactory<String, String> producers) {
        return new KafkaTemplate<>(producers);
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory(
            ConsumerFactory<String, String> consumers, ProducerFactory<String, String> producers,
            KafkaTemplate<String, String> template) {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(consumers);
        factory.setReplyTemplate(template);
        factory.getContainerProperties().setKafkaAwareTransactionManager(new KafkaTransactionManager<>(producers));
        return factory;
    }

    @KafkaListener(id = "billing", topics = "orders")
    @SendTo("bills")
    String bill(String order) {
        return order + " billed";
    }

    public static void main(String[] args) {
        new AnnotationConfigApplicationContext(Billing.class).registerShutdownHook();
    }
}
