import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member with Kafka's Java client: `BOOTSTRAP TOPIC GROUP SESSION_MS [SETTING=VALUE …]`; see `harness.py`. */
public class Member {
    static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);

    /** Print a line, with the member's name, in one write. */
    static void say(String line) {
        try {
            OUT.write((System.getenv("MEMBER") + " " + line + "\n").getBytes());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static String indexes(Collection<TopicPartition> partitions) {
        return partitions.stream().map(p -> Integer.toString(p.partition())).collect(Collectors.joining(","));
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        for (int i = 4; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=");
            settings.put(setting[0], setting[1]);
        }
        if (!"consumer".equals(settings.get("group.protocol"))) {
            settings.put("session.timeout.ms", arguments[3]);
            settings.put("heartbeat.interval.ms", Integer.toString(Integer.parseInt(arguments[3]) / 5));
        }
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        var stopping = new AtomicBoolean();
        Thread waiting = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            stopping.set(true);
        });
        waiting.setDaemon(true);
        waiting.start();
        consumer.subscribe(List.of(arguments[1]), new ConsumerRebalanceListener() {
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                say("assigned " + indexes(partitions));
            }

            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                say("revoked " + indexes(partitions));
            }
        });
        while (!stopping.get()) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                say(String.join(" ", "record", "" + record.partition(), "" + record.offset(), record.key(), record.value()));
                var where = new TopicPartition(record.topic(), record.partition());
                try {
                    consumer.commitSync(Map.of(where, new OffsetAndMetadata(record.offset() + 1)));
                    say("committed " + record.partition() + " " + (record.offset() + 1));
                } catch (KafkaException error) {
                    // The group rebalances: the next commit has this offset too.
                    System.err.println(error);
                }
            }
        }
        consumer.close();
    }
}
