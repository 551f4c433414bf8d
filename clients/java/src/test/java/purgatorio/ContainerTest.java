package purgatorio;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The container as far as it goes without a container engine: its command, and its ports. */
class ContainerTest {
    @Test
    void itsPortsAreTheSameInsideAndOutside() {
        try (var container = new PurgatorioContainer("purgatorio", 2, "--seed-topic", "orders:6")) {
            int first = Integer.parseInt(container.bootstrap().split(",")[0].split(":")[1]);
            assertEquals("127.0.0.1:" + first + ",127.0.0.1:" + (first + 1), container.bootstrap());
            assertEquals("http://127.0.0.1:" + (first + 2), container.adminUrl());
            List<String> bindings = container.getPortBindings();
            for (int port : List.of(first, first + 1, first + 2)) {
                assertTrue(bindings.contains(port + ":" + port + "/tcp"), bindings::toString);
            }
            assertEquals(PurgatorioContainer.command(first, 2, "--seed-topic", "orders:6"),
                    Arrays.asList(container.getCommandParts()));
        }
    }
}
