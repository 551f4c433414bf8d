package purgatorio;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** What the methods of {@link KafkaControls} have in common. */
final class Calls {
    /** The longest wait, unless a test names another one. */
    static final Duration WAIT = Duration.ofSeconds(10);

    private static final long POLL_MS = 5;

    private Calls() {}

    /** Look again and again; return the first result that there is. */
    static <T> T until(String what, Duration timeout, Supplier<T> look) {
        long start = System.nanoTime();
        for (;;) {
            T found = look.get();
            if (found != null) {
                return found;
            }
            if (System.nanoTime() - start > timeout.toNanos()) {
                throw new IllegalStateException("still waiting after " + timeout.toMillis() / 1000.0 + " s: " + what);
            }
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted", error);
            }
        }
    }

    /** Return what is asked for; null if it is refused, for it cannot be done now, or to what is not there. */
    static <T> T unlessRefused(Supplier<T> asked) {
        try {
            return asked.get();
        } catch (KafkaRefused refused) {
            if (refused.status() == 400) {
                throw refused;
            }
            return null;
        }
    }

    /** The row of a fault rule, with its counts. */
    static Map<String, Object> counts(Map<String, Object> answer, long id) {
        return Json.objects(answer.get("faults")).stream()
                .filter(row -> row.get("id").equals(id))
                .findFirst()
                .orElseThrow(() -> new IllegalStateException("there is no fault rule " + id + ", or no longer"));
    }

    /** The names and values of a rule, and one more. */
    static Map<String, Object> with(Map<String, ?> rule, String name, Object value) {
        Map<String, Object> all = new HashMap<>(rule);
        all.put(name, value);
        return all;
    }

    /** The rows of the lists that rows have, each with what is beside it. */
    static List<Map<String, Object>> inner(Object rows, String name) {
        return Json.objects(rows).stream()
                .flatMap(row -> Json.objects(row.get(name)).stream().map(each -> {
                    Map<String, Object> merged = new HashMap<>(row);
                    merged.putAll(each);
                    return merged;
                }))
                .toList();
    }

    static List<String> texts(Object list) {
        return Json.cast(list);
    }

    static List<String> list(String[] texts) {
        return List.of(texts);
    }

    static List<List<Long>> list(List<Integer>[] groups) {
        return List.of(groups).stream().map(each -> each.stream().map(Integer::longValue).toList()).toList();
    }
}
