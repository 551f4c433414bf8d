package purgatorio;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * A running Kafka cluster, which is a process of its own and ends with this one. All methods may be called by any thread.
 *
 * <pre>{@code
 * try (Kafka kafka = Kafka.start(new KafkaOptions().topic("orders", 6))) {
 *     var producer = new KafkaProducer<>(kafka.clientConfig("producer"), new StringSerializer(), new StringSerializer());
 * }</pre>
 *
 * With JUnit 5, {@link KafkaExtension} starts it, resets it between tests and ends it.
 */
public final class Kafka extends KafkaControls implements AutoCloseable {
    private static final Duration ASK_TIMEOUT = Duration.ofSeconds(90);
    private static final int RECORDS_PER_READ = 10_000;
    private static final String GIVE_UP_MS = "10000";

    private final ClusterProcess process;
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private Kafka(ClusterProcess process) {
        this.process = process;
    }

    /** Start a cluster of three brokers; return when clients can connect. */
    public static Kafka start() {
        return start(new KafkaOptions());
    }

    /**
     * Start a cluster; return when clients can connect.
     *
     * @throws IllegalStateException it does not start; the message says why
     */
    public static Kafka start(KafkaOptions options) {
        return new Kafka(new ClusterProcess(options));
    }

    /** The addresses of the brokers, with commas between, for bootstrap.servers. */
    public String bootstrap() {
        return (String) process.told.get("bootstrap");
    }

    /** Where the page is that shows what waits, and the HTTP API. */
    public String adminUrl() {
        return (String) process.told.get("admin_url");
    }

    /** Where the schema registry is; null without the argument {@code --registry}. */
    public String schemaRegistryUrl() {
        return (String) process.told.get("schema_registry_url");
    }

    /**
     * Settings that all clients know, with which they need milliseconds where others need seconds. They are for a
     * KafkaShareConsumer, and for a consumer with {@code group.protocol=consumer}: the brokers set their heartbeats and
     * sessions, and Kafka's client refuses settings of its own.
     */
    public Map<String, Object> clientConfig() {
        return new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap(),
                "retry.backoff.ms", "10",
                "retry.backoff.max.ms", "100",
                "reconnect.backoff.ms", "10",
                "reconnect.backoff.max.ms", "100"));
    }

    /**
     * Settings with which a client needs milliseconds where others need seconds, and gives up in time. What a client
     * does is not changed: set auto.offset.reset and the like yourself.
     *
     * @param role "consumer" (of the classic protocol; see {@link #clientConfig()}), "producer" or "admin"
     */
    public Map<String, Object> clientConfig(String role) {
        Map<String, Object> config = clientConfig();
        if (role.equals("consumer")) {
            config.putAll(Map.of("heartbeat.interval.ms", "100", "session.timeout.ms", GIVE_UP_MS));
        } else if (role.equals("producer")) {
            config.putAll(Map.of(
                    "delivery.timeout.ms", GIVE_UP_MS, "request.timeout.ms", "5000", "max.block.ms", GIVE_UP_MS));
        } else if (!role.equals("admin")) {
            throw new IllegalArgumentException("a role is consumer, producer or admin, not " + role
                    + "; clientConfig() without one is for share consumers");
        }
        return config;
    }

    /** The addresses of the brokers. */
    public List<String> brokers() {
        return List.of(bootstrap().split(","));
    }

    /** Create a topic of one partition; return its name when it can be written to. */
    public String topic(String name) {
        return topic(name, 1);
    }

    /** Create a topic; return its name when it can be written to. */
    public String topic(String name, int partitions) {
        return topic(name, partitions, Map.of());
    }

    /** Create a topic with configs by Kafka's names; return its name when it can be written to. */
    public String topic(String name, int partitions, Map<String, String> configs) {
        run(new Operations.CreateTopic(name).partitions(partitions).configs(configs));
        return name;
    }

    /** Append values with acks=all, without a client; partitions take turns. */
    public void produce(String topic, String... values) {
        produce(topic, Arrays.stream(values).map(each -> KafkaRecord.of(null, each)).toArray(KafkaRecord[]::new));
    }

    /** Append records with acks=all, without a client. */
    public void produce(String topic, KafkaRecord... records) {
        run(new Operations.ProduceRecords(topic, Arrays.stream(records).map(KafkaRecord::written).toList()));
    }

    /** The committed records of a topic, by partition and offset, without a client. */
    public List<KafkaRecord> records(String topic) {
        return records(topic, "read_uncommitted");
    }

    /**
     * The committed records of a topic, by partition and offset, without a client.
     *
     * @param isolationLevel "read_committed" leaves out what transactions have aborted, and what comes from the first
     *     open one on; or "read_uncommitted"
     */
    public List<KafkaRecord> records(String topic, String isolationLevel) {
        List<KafkaRecord> found = new ArrayList<>();
        long count = Json.objects(run(new Operations.ListTopics().topic(topic)).get("partitions")).size();
        if (count == 0) {
            run(new Operations.ReadRecords(topic)); // is refused, and tells which topics there are
        }
        for (long partition = 0; partition < count; partition++) {
            long offset = 0;
            for (boolean more = true; more; ) {
                Map<String, Object> answer = run(new Operations.ReadRecords(topic)
                        .partition(partition).offset(offset).limit(RECORDS_PER_READ).isolationLevel(isolationLevel));
                Json.objects(answer.get("records")).forEach(each -> found.add(KafkaRecord.read(topic, each)));
                more = (Boolean) answer.get("more");
                offset = more ? found.get(found.size() - 1).offset() + 1 : 0;
            }
        }
        return found;
    }

    /** The brokers' time, which a test can move. A client's own timers are out of its reach. */
    public Clock clock() {
        return new Clock(this);
    }

    /** A share group, which need not exist yet. */
    public ShareGroup shareGroup(String id) {
        return new ShareGroup(this, id);
    }

    @Override
    public List<Long> runningBrokers() {
        return Json.objects(run(new Operations.ListBrokers()).get("brokers")).stream()
                .filter(row -> row.get("state").equals("running"))
                .map(row -> (Long) row.get("id"))
                .toList();
    }

    /**
     * Do an operation: {@code kafka.run(new Operations.KillBroker(2))}.
     *
     * @return the answer; whole numbers are Long
     * @throws KafkaRefused the cluster does not do it
     */
    @Override
    public Map<String, Object> run(Operation operation) {
        String path = operation.path;
        for (Map.Entry<String, Object> each : operation.inPath.entrySet()) {
            path = path.replace("{" + each.getKey() + "}", encoded(each.getValue()));
        }
        String query = operation.inQuery.entrySet().stream()
                .map(each -> each.getKey() + "=" + encoded(each.getValue()))
                .collect(Collectors.joining("&", operation.inQuery.isEmpty() ? "" : "?", ""));
        var body = operation.method.equals("GET")
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofString(Json.write(operation.inBody));
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(adminUrl() + "/api/v1" + path + query))
                .method(operation.method, body)
                .timeout(ASK_TIMEOUT)
                .header("Content-Type", "application/json");
        Object made = process.told.get("token");
        String token = made != null ? (String) made : System.getenv("PURGATORIO_ADMIN_TOKEN");
        if (token != null) {
            request.header("Authorization", "Bearer " + token);
        }
        return answered(request.build());
    }

    private Map<String, Object> answered(HttpRequest request) {
        try {
            HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
            Map<String, Object> answer = Json.object(response.body());
            if (response.statusCode() != 200) {
                throw new KafkaRefused((String) answer.get("error"), response.statusCode());
            }
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException("the Kafka cluster does not answer: " + error + "\n" + process.errors(), error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", error);
        }
    }

    private static String encoded(Object value) {
        return URLEncoder.encode(String.valueOf(value), StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** End the cluster; return when its process is gone. It may be closed again. */
    @Override
    public void close() {
        process.end();
    }
}
