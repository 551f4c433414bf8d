import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group that does what the lines of its standard input say, and answers each with one line.
 *
 * Its arguments are the address of a broker, the group, the topic, and further configs as name=value.
 *
 * poll MS: polls until there are records or the time is over; answers their offsets, each with its delivery count.
 * accept, release, reject, renew OFFSET...: acknowledges records of the last polls. commit: answers the partitions' errors.
 * timeout: answers the lock's duration in milliseconds. close: leaves.
 */
public class ShareMember {
    public static void main(String[] arguments) throws Exception {
        Properties configs = new Properties();
        configs.put("bootstrap.servers", arguments[0]);
        configs.put("group.id", arguments[1]);
        for (int each = 3; each < arguments.length; each++) {
            String[] config = arguments[each].split("=");
            configs.put(config[0], config[1]);
        }
        StringDeserializer texts = new StringDeserializer();
        Map<Long, ConsumerRecord<String, String>> known = new TreeMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(configs, texts, texts)) {
            consumer.subscribe(List.of(arguments[2]));
            for (String line; (line = lines.readLine()) != null && !line.equals("close");) {
                String[] words = line.split(" ");
                try {
                    System.out.println(answer(consumer, known, words));
                } catch (KafkaException | IllegalStateException error) {
                    System.out.println(error.getClass().getSimpleName());
                }
            }
        }
        System.out.println("closed");
    }

    private static String answer(
            KafkaShareConsumer<String, String> consumer, Map<Long, ConsumerRecord<String, String>> known, String[] words) {
        switch (words[0]) {
            case "poll":
                long ends = System.currentTimeMillis() + Long.parseLong(words[1]);
                List<String> found = new ArrayList<>();
                do {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        known.put(record.offset(), record);
                        found.add(record.offset() + ":" + record.deliveryCount().orElse((short) -1));
                    }
                } while (found.isEmpty() && System.currentTimeMillis() < ends);
                return String.join(" ", found);
            case "commit":
                List<String> errors = new ArrayList<>();
                for (Map.Entry<TopicIdPartition, Optional<KafkaException>> each : consumer.commitSync().entrySet()) {
                    errors.add(each.getKey().partition() + ":" + each.getValue().map(e -> e.getClass().getSimpleName()).orElse("ok"));
                }
                return String.join(" ", errors);
            case "timeout":
                return consumer.acquisitionLockTimeoutMs().map(String::valueOf).orElse("none");
            default:
                for (int each = 1; each < words.length; each++) {
                    consumer.acknowledge(known.get(Long.parseLong(words[each])), AcknowledgeType.valueOf(words[0].toUpperCase()));
                }
                return "done";
        }
    }
}
