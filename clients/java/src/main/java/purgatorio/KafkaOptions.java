package purgatorio;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What is asked of a cluster: {@code new KafkaOptions().topic("orders", 6).brokers(1)}. */
public final class KafkaOptions {
    private static final Map<String, String> TEST_SETTINGS = Map.of(
            // Short sessions, and leaders stay where a test puts them.
            "group.min.session.timeout.ms", "1",
            "group.consumer.heartbeat.interval.ms", "100",
            "leader.imbalance.check.interval.ms", "300000");

    private final Map<String, Integer> topics = new LinkedHashMap<>();
    private final Map<String, String> settings = new LinkedHashMap<>(TEST_SETTINGS);
    private final List<String> args = new ArrayList<>();
    private int brokers;
    private String command;

    /** Ask for a number of brokers; it is 3 otherwise. */
    public KafkaOptions brokers(int count) {
        brokers = count;
        return this;
    }

    /** Ask for a topic to begin with, which a reset brings back empty. */
    public KafkaOptions topic(String name, int partitions) {
        topics.put(name, partitions);
        return this;
    }

    /** Ask for a setting of the brokers by Kafka's name, such as log.retention.ms. */
    public KafkaOptions setting(String name, Object value) {
        settings.put(name, String.valueOf(value));
        return this;
    }

    /** Give further flags to {@code purgatorio cluster}, such as --import. */
    public KafkaOptions args(String... more) {
        args.addAll(Arrays.asList(more));
        return this;
    }

    /** Name the command; otherwise it is in the environment variable PURGATORIO, or purgatorio on the PATH. */
    public KafkaOptions command(String words) {
        command = words;
        return this;
    }

    List<String> commandLine() {
        List<String> line = new ArrayList<>(ClusterProcess.command(command));
        line.addAll(List.of("cluster", "--port", "0", "--print-json", "--with-parent", "--log-level", "warning"));
        if (brokers > 0) {
            line.addAll(List.of("--brokers", String.valueOf(brokers)));
        }
        topics.forEach((name, partitions) -> line.addAll(List.of("--seed-topic", name + ":" + partitions)));
        settings.forEach((name, value) -> line.addAll(List.of("--set", name + "=" + value)));
        line.addAll(args);
        return line;
    }
}
