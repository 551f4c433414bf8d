package purgatorio;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** {@code purgatorio cluster --print-json --with-parent}: it ends with this process. */
final class ClusterProcess {
    private static final int START_TIMEOUT_SECONDS = 30;
    private static final int STOP_TIMEOUT_SECONDS = 10;
    private static final int MAX_ERROR_CHARS = 10_000;

    final Map<String, Object> told;
    private final Process process;
    private final StringBuilder errors = new StringBuilder();

    ClusterProcess(KafkaOptions options) {
        List<String> line = options.commandLine();
        try {
            process = new ProcessBuilder(line).start();
        } catch (IOException error) {
            throw new IllegalStateException("the Kafka cluster did not start: there is no command " + line.get(0)
                    + ": install it from a clone (pip install PATH), or set PURGATORIO to it", error);
        }
        Thread reading = new Thread(this::keepErrors, "errors of the Kafka cluster");
        reading.setDaemon(true);
        reading.start();
        String first = firstLine();
        if (first == null) {
            process.destroyForcibly();
            try {
                reading.join(TimeUnit.SECONDS.toMillis(1));
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            throw new IllegalStateException("the Kafka cluster did not start: " + errors());
        }
        told = Json.object(first);
    }

    /** The words of the command: those given, of the environment variable PURGATORIO, or purgatorio on the PATH. */
    static List<String> command(String given) {
        String words = given != null ? given : System.getenv().getOrDefault("PURGATORIO", "purgatorio").strip();
        try {
            if (Files.exists(Path.of(words))) {
                return List.of(words);
            }
        } catch (InvalidPathException error) {
            // It is a command with arguments.
        }
        return Arrays.asList(words.split("\\s+"));
    }

    private String firstLine() {
        var output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        CompletableFuture<String> line = CompletableFuture.supplyAsync(() -> {
            try {
                return output.readLine();
            } catch (IOException error) {
                return null;
            }
        });
        try {
            return line.get(START_TIMEOUT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException error) {
            return null;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return null;
        }
    }

    private void keepErrors() {
        var input = new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8));
        try {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                synchronized (errors) {
                    errors.append(line).append('\n');
                    errors.delete(0, Math.max(0, errors.length() - MAX_ERROR_CHARS));
                }
            }
        } catch (IOException error) {
            // The process has ended.
        }
    }

    /** What the cluster wrote to its standard error. */
    String errors() {
        synchronized (errors) {
            return errors.toString().strip();
        }
    }

    /** End the cluster in order, and wait until its process is gone. */
    void end() {
        try {
            process.getOutputStream().close();
        } catch (IOException error) {
            // It has ended by itself.
        }
        try {
            if (!process.waitFor(STOP_TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
