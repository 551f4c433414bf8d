package purgatorio;

import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * Has a report made when a test waits for a client to close: the exception of a test's code goes on only when
 * {@code try (var producer = …)} has closed the producer, which takes ten seconds if its records cannot be written. The
 * report counts if the test ends with that; a test that goes on has closed a client on its way, which is nothing to report.
 */
final class Closing {
    private static final long LOOK_MS = 100;
    private static final int LOOKS = 5;

    private final Thread test;
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Thread watch;
    private String report;

    Closing(Thread test, Supplier<String> report) {
        this.test = test;
        watch = new Thread(() -> watch(report), "closing clients of a Kafka test");
        watch.setDaemon(true);
        watch.start();
    }

    private void watch(Supplier<String> made) {
        try {
            for (int seen = 0; !ended.await(LOOK_MS, TimeUnit.MILLISECONDS); ) {
                seen = isClosing() ? seen + 1 : 0;
                if (seen == 0) {
                    report = null;
                } else if (seen == LOOKS) {
                    report = made.get();
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private boolean isClosing() {
        return Arrays.stream(test.getStackTrace())
                .anyMatch(frame -> frame.getMethodName().equals("close")
                        && frame.getClassName().startsWith("org.apache.kafka.clients."));
    }

    /** Look no more; return the report of the close with which the test has ended; null if there was none. */
    String end() {
        ended.countDown();
        try {
            watch.join();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        return report;
    }
}
