package purgatorio;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * A cluster in a container, for suites that run all that they need by testcontainers; needs org.testcontainers:testcontainers
 * and a container engine. The image is that of Purgatorio's Dockerfile; none is published.
 *
 * <p>Its ports are the same inside and outside: brokers tell clients their addresses, which must lead into the container.
 */
public final class PurgatorioContainer extends GenericContainer<PurgatorioContainer> {
    private static final String HOST = "127.0.0.1";
    private static final int ATTEMPTS = 50;

    private final List<Integer> ports;
    private final int adminPort;

    /** A cluster of three brokers. */
    public PurgatorioContainer(String image) {
        this(image, 3);
    }

    /**
     * @param image the image's name
     * @param brokers how many
     * @param args further arguments of {@code purgatorio cluster}: {@code "--seed-topic", "orders:6"}
     */
    public PurgatorioContainer(String image, int brokers, String... args) {
        super(DockerImageName.parse(image));
        int first = freePorts(brokers + 1);
        ports = IntStream.range(first, first + brokers).boxed().toList();
        adminPort = first + brokers;
        ports.forEach(port -> addFixedExposedPort(port, port));
        addFixedExposedPort(adminPort, adminPort);
        withExposedPorts(adminPort);
        withCommand(command(first, brokers, args).toArray(String[]::new));
        waitingFor(Wait.forHttp("/readyz").forPort(adminPort).withStartupTimeout(Duration.ofSeconds(60)));
    }

    /** The brokers' addresses, for a client's {@code bootstrap.servers}. */
    public String bootstrap() {
        return ports.stream().map(port -> HOST + ":" + port).collect(Collectors.joining(","));
    }

    /** The URL of the page and of the HTTP API. */
    public String adminUrl() {
        return "http://" + HOST + ":" + adminPort;
    }

    static List<String> command(int first, int brokers, String... args) {
        List<String> command = new ArrayList<>(List.of("purgatorio", "cluster", "--brokers", String.valueOf(brokers)));
        command.addAll(List.of("--host", "0.0.0.0", "--advertised-host", HOST, "--port", String.valueOf(first)));
        // The admin HTTP asks for no token, like the brokers.
        command.addAll(List.of("--admin-port", String.valueOf(first + brokers), "--set", "admin.auth=none"));
        command.addAll(List.of(args));
        return command;
    }

    /** The first of so many ports in a row that are free now. */
    static int freePorts(int count) {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            int first = free(0);
            if (first > 0 && first + count < 65536
                    && IntStream.range(first, first + count).allMatch(port -> free(port) == port)) {
                return first;
            }
        }
        throw new IllegalStateException("there are no " + count + " free ports in a row");
    }

    private static int free(int port) {
        try (var socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException taken) {
            return -1;
        }
    }
}
