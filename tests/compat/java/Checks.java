import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Runs one check with the Java client: `Checks CHECK BOOTSTRAP TOPIC`. Prints what the test compares. */
public class Checks {
    static String bootstrap;
    static String topic;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[1];
        topic = arguments[2];
        switch (arguments[0]) {
            case "describe" -> describe();
            case "round-trip" -> roundTrip();
            case "created-again" -> createdAgain();
            case "record-errors" -> recordErrors();
            case "admin" -> admin();
            case "broker-configs" -> brokerConfigs();
            case "group" -> group(Map.of("heartbeat.interval.ms", "300"));
            case "consumer-protocol" -> group(Map.of("group.protocol", "consumer"));
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static Properties settings(String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        return settings;
    }

    static Admin client() {
        return Admin.create(settings("request.timeout.ms", "10000", "default.api.timeout.ms", "20000"));
    }

    static void create(Admin admin, Map<String, String> configs) throws Exception {
        NewTopic wanted = new NewTopic(topic, 2, (short) 3).configs(configs);
        admin.createTopics(List.of(wanted)).all().get();
    }

    static void describe() throws Exception {
        try (Admin admin = client()) {
            create(admin, Map.of("min.insync.replicas", "2"));
            TopicDescription found = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            found.partitions().forEach(partition -> System.out.println(
                partition.partition() + " replicas=" + partition.replicas().size() + " isr=" + partition.isr().size()
                    + " elr=" + partition.elr() + " last=" + partition.lastKnownElr()));
        }
    }

    static void roundTrip() throws Exception {
        int total = 0;
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            Properties settings = settings("acks", "all", "compression.type", codec, "linger.ms", "5");
            try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                for (int number = 0; number < 200; number++, total++) {
                    var record = new ProducerRecord<>(topic, 0, codec, "value " + total);
                    record.headers().add("number", Integer.toString(total).getBytes());
                    producer.send(record);
                }
            }
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        var strings = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings("enable.auto.commit", "false"), strings, strings)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long deadline = System.currentTimeMillis() + 20_000;
            while (records.size() < total && System.currentTimeMillis() < deadline) {
                consumer.poll(Duration.ofMillis(500)).forEach(records::add);
            }
        }
        boolean inOrder = true;
        for (int number = 0; number < records.size(); number++) {
            inOrder &= records.get(number).offset() == number && records.get(number).value().equals("value " + number);
        }
        System.out.println(records.size() + " in order: " + inOrder);
    }

    /** A topic is deleted and created again while a producer goes on: KIP-516. */
    static void createdAgain() throws Exception {
        var strings = new StringSerializer();
        Properties settings = settings("acks", "all", "delivery.timeout.ms", "40000", "request.timeout.ms", "10000");
        try (Admin admin = client(); var producer = new KafkaProducer<>(settings, strings, strings)) {
            create(admin, Map.of());
            for (String age : List.of("old", "new")) {
                List<Long> offsets = new ArrayList<>();
                for (int number = 0; number < 3; number++) {
                    offsets.add(producer.send(new ProducerRecord<>(topic, 0, null, age)).get().offset());
                }
                System.out.println(age + ": " + offsets);
                if (age.equals("old")) {
                    admin.deleteTopics(List.of(topic)).all().get();
                    create(admin, Map.of());
                }
            }
        }
    }

    static void recordErrors() throws Exception {
        try (Admin admin = client()) {
            create(admin, Map.of("cleanup.policy", "compact"));
        }
        Properties settings = settings("acks", "all", "linger.ms", "500", "batch.size", "100000");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            var good = producer.send(new ProducerRecord<>(topic, 0, "key", "good"));
            var bad = producer.send(new ProducerRecord<>(topic, 0, null, "bad"));
            producer.flush();
            for (var sent : List.of(good, bad)) {
                try {
                    sent.get();
                    System.out.println("acknowledged");
                } catch (ExecutionException error) {
                    System.out.println(error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage());
                }
            }
        }
    }

    static void admin() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Admin admin = client()) {
            create(admin, Map.of("compression.zstd.level", "5", "local.retention.ms", "-2"));
            try (var producer = new KafkaProducer<>(settings(), new StringSerializer(), new StringSerializer())) {
                for (int number = 0; number < 5; number++) {
                    producer.send(new ProducerRecord<>(topic, 0, null, "value"));
                }
            }
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "60000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            Config configs = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            System.out.println("retention.ms=" + configs.get("retention.ms").value());
            var logDirs = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
            System.out.println("replica here: " + logDirs.get("memory").replicaInfos().containsKey(partition));
            System.out.println("end=" + offset(admin, partition, OffsetSpec.latest()));
            for (long before : new long[] {3, 1}) {
                var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(before)));
                System.out.println("low watermark=" + deleted.all().thenApply(done -> lowest(deleted, partition)).get());
            }
            System.out.println("start=" + offset(admin, partition, OffsetSpec.earliest()));
            admin.deleteTopics(Collections.singleton(topic)).all().get();
        }
    }

    static void brokerConfigs() throws Exception {
        ConfigResource all = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigResource one = new ConfigResource(ConfigResource.Type.BROKER, "2");
        ConfigResource inheriting = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = client()) {
            create(admin, Map.of());
            var wanted = List.of(set("log.retention.ms", "70000"), set("message.max.bytes", "5000"));
            admin.incrementalAlterConfigs(Map.of(all, wanted, one, List.of(set("log.retention.ms", "80000")))).all().get();
            var options = new DescribeConfigsOptions().includeSynonyms(true);
            var found = admin.describeConfigs(List.of(all, one, inheriting), options).all().get();
            for (String name : List.of("log.retention.ms", "message.max.bytes")) {
                System.out.println("all: " + shown(found.get(all).get(name)));
                System.out.println("2: " + shown(found.get(one).get(name)));
            }
            System.out.println("topic: " + found.get(inheriting).get("max.message.bytes").value());
            Properties settings = settings("max.request.size", "100000");
            try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                producer.send(new ProducerRecord<>(topic, 0, null, "x".repeat(6000))).get();
            } catch (ExecutionException error) {
                System.out.println(error.getCause().getClass().getSimpleName());
            }
            try {
                admin.incrementalAlterConfigs(Map.of(one, List.of(set("broker.id", "7")))).all().get();
            } catch (ExecutionException error) {
                System.out.println(error.getCause().getClass().getSimpleName());
            }
            var reset = new ArrayList<AlterConfigOp>();
            wanted.forEach(each -> reset.add(new AlterConfigOp(each.configEntry(), AlterConfigOp.OpType.DELETE)));
            admin.incrementalAlterConfigs(Map.of(all, reset, one, reset)).all().get();
            System.out.println("left: " + admin.describeConfigs(List.of(all)).all().get().get(all).entries().size());
        }
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    static String shown(ConfigEntry config) {
        var from = config.synonyms().stream().map(each -> each.source() + "=" + each.value()).toList();
        return config.name() + "=" + config.value() + " " + config.source() + " " + from;
    }

    static long offset(Admin admin, TopicPartition partition, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    static long lowest(org.apache.kafka.clients.admin.DeleteRecordsResult deleted, TopicPartition partition) {
        try {
            return deleted.lowWatermarks().get(partition).get().lowWatermark();
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Two consumers of a group share the topic's two partitions; the one that stays resumes where the other was. */
    static void group(Map<String, String> more) throws Exception {
        try (Admin admin = client()) {
            create(admin, Map.of());
        }
        produce(5);
        try (var first = member(more)) {
            int read = 0;
            while (read < 10) {
                read += first.poll(Duration.ofMillis(50)).count();
            }
            first.commitSync();
            System.out.println("alone: " + first.assignment().size());
            try (var second = member(more)) {
                while (first.assignment().size() != 1 || second.assignment().size() != 1) {
                    first.poll(Duration.ofMillis(50));
                    second.poll(Duration.ofMillis(50));
                }
                boolean shared = Collections.disjoint(first.assignment(), second.assignment());
                System.out.println("shared: " + shared);
            }
            while (first.assignment().size() != 2) {
                first.poll(Duration.ofMillis(50));
            }
            System.out.println("alone again: " + first.assignment().size());
        }
        produce(1);
        try (var next = member(more)) {
            int read = 0;
            while (read < 2) {
                for (var record : next.poll(Duration.ofMillis(50))) {
                    System.out.println("resumed at " + record.offset());
                    read++;
                }
            }
        }
    }

    static void produce(int each) {
        try (var producer = new KafkaProducer<>(settings(), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 2 * each; number++) {
                producer.send(new ProducerRecord<>(topic, number % 2, "key", "value"));
            }
        }
    }

    static KafkaConsumer<String, String> member(Map<String, String> more) {
        Properties settings = settings("group.id", "group-of-" + topic, "auto.offset.reset", "earliest");
        settings.putAll(more);
        var strings = new StringDeserializer();
        var consumer = new KafkaConsumer<>(settings, strings, strings);
        consumer.subscribe(List.of(topic));
        return consumer;
    }
}
