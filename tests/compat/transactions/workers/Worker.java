import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A worker with Kafka's Java client: `BOOTSTRAP`; see `harness.py`. */
public class Worker {
    static final int BATCH = 20;
    static final Duration PAUSE = Duration.ofMillis(100);
    static String bootstrap;
    static KafkaProducer<String, String> producer;
    static volatile boolean stopping;

    static void say(String line) {
        System.out.println(line.replaceAll("\\s+", " ").strip());
    }

    static KafkaProducer<String, String> producerOf(String id) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", "20000");
        var made = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    static KafkaConsumer<String, String> consumerOf(String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", Integer.toString(BATCH));
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static List<String> read(String topic, String isolation, int count) {
        var values = new ArrayList<String>();
        try (var consumer = consumerOf("isolation.level", "read_" + isolation)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            while (values.size() < count) {
                for (var record : consumer.poll(PAUSE)) {
                    values.add(record.value());
                }
            }
        }
        return values.subList(0, count);
    }

    static boolean fenced(Throwable error) {
        return error instanceof ProducerFencedException || error instanceof InvalidProducerEpochException
            || (error.getCause() != null && fenced(error.getCause()));
    }

    static String command(String[] words) throws ExecutionException, InterruptedException {
        switch (words[0]) {
            case "init" -> producer = producerOf(words[1]);
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(words[1], 0, null, words[2])).get();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "read" -> {
                return "values " + String.join(",", read(words[1], words[2], Integer.parseInt(words[3])));
            }
            case "copy" -> copy(words[1], words[2], words[3], words[4]);
            default -> throw new IllegalArgumentException(words[0]);
        }
        return "ok";
    }

    static void copy(String source, String target, String group, String id) throws InterruptedException {
        while (!stopping) {
            try (var copying = producerOf(id);
                var consumer = consumerOf(
                    "group.id", group, "session.timeout.ms", "6000", "heartbeat.interval.ms", "1000",
                    "isolation.level", "read_committed")) {
                consumer.subscribe(List.of(source));
                while (!stopping) {
                    var records = consumer.poll(PAUSE);
                    if (!records.isEmpty()) {
                        copy(copying, consumer, target, records);
                    }
                }
            } catch (KafkaException error) {
                say("restarted " + error);
                Thread.sleep(PAUSE.toMillis());
            }
        }
    }

    static void copy(
        KafkaProducer<String, String> copying, KafkaConsumer<String, String> consumer, String target,
        ConsumerRecords<String, String> records
    ) {
        try {
            copying.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                copying.send(new ProducerRecord<>(target, record.value(), record.value()));
                var where = new TopicPartition(record.topic(), record.partition());
                offsets.put(where, new OffsetAndMetadata(record.offset() + 1));
            }
            copying.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            commit(copying);
            say("copied " + records.count());
        } catch (KafkaException error) {
            say("aborted " + error);
            copying.abortTransaction(); // fails if the producer is fenced, or has to be closed for another reason
            consumer.committed(consumer.assignment()).forEach(
                (where, offset) -> consumer.seek(where, offset == null ? 0 : offset.offset()));
        }
    }

    /** Commits that time out may only be repeated. */
    static void commit(KafkaProducer<String, String> copying) {
        while (true) {
            try {
                copying.commitTransaction();
                return;
            } catch (TimeoutException error) {
                say("again " + error);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("copy")) {
                Thread waiting = new Thread(() -> {
                    try {
                        System.in.readAllBytes();
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                    stopping = true;
                });
                waiting.setDaemon(true);
                waiting.start();
            }
            try {
                say(command(words));
            } catch (KafkaException | ExecutionException error) {
                say(fenced(error) ? "fenced" : "error " + error);
            }
        }
        System.exit(0); // without the wait of a producer that still holds records
    }
}
