import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Prints the settings of a release of Kafka's brokers, a line each: name, type, whether it is public, how it may change while a
 * broker runs, default, and the values that it may have as its validator writes them, with tabs between.
 */
public final class KafkaSettings {
    private static final String CONFIG = "org.apache.kafka.server.config.";

    public static void main(String[] args) throws Exception {
        Object defined = Class.forName(CONFIG + "AbstractKafkaConfig").getField("CONFIG_DEF").get(null);
        Map<?, ?> keys = (Map<?, ?>) defined.getClass().getMethod("configKeys").invoke(defined);
        Class<?> dynamic = Class.forName(CONFIG + "DynamicBrokerConfig");
        Map<?, ?> modes = (Map<?, ?>) dynamic.getMethod("dynamicConfigUpdateModes").invoke(null);
        for (Object each : new TreeMap<>(keys).values()) {
            Class<?> key = each.getClass();
            Object name = key.getField("name").get(each);
            boolean internal = (boolean) key.getField("internalConfig").get(each);
            Object mode = modes.get(name);
            System.out.println(String.join("\t", name.toString(), key.getField("type").get(each).toString(),
                internal ? "internal" : "public", mode == null ? "read-only" : mode.toString(),
                text(key.getField("defaultValue").get(each)), String.valueOf(key.getField("validator").get(each))));
        }
    }

    /** A default as text: ~ for none. */
    private static String text(Object value) {
        if (value == null || value.getClass() == Object.class) {
            return "~";
        }
        if (value instanceof List<?> list) {
            return "=" + String.join(",", list.stream().map(String::valueOf).toList());
        }
        return "=" + (value instanceof Class<?> type ? type.getName() : value);
    }
}
