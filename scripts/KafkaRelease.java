import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Prints the APIs that a broker of a release of Kafka answers, with their stable versions; its features with levels; and the
 * public configs of topics, brokers and groups, each with its default and the smallest number that it may have.
 */
public final class KafkaRelease {
    private static final String COMMON = "org.apache.kafka.server.common.";

    public static void main(String[] args) throws Exception {
        Class<?> api = Class.forName("org.apache.kafka.common.message.ApiMessageType");
        for (Object each : api.getEnumConstants()) {
            EnumSet<?> listeners = (EnumSet<?>) api.getMethod("listeners").invoke(each);
            short lowest = (short) api.getMethod("lowestSupportedVersion").invoke(each);
            short highest = (short) api.getMethod("highestSupportedVersion", boolean.class).invoke(each, false);
            if (listeners.stream().anyMatch(on -> on.toString().equals("BROKER")) && lowest <= highest) {
                System.out.println("api " + api.getMethod("apiKey").invoke(each) + " " + lowest + " " + highest);
            }
        }
        Class<?> metadata = Class.forName(COMMON + "MetadataVersion");
        Object newest = latest(metadata);
        Class<?> feature = feature();
        for (Object each : (List<?>) feature.getField("PRODUCTION_FEATURES").get(null)) {
            Object name = feature.getMethod("featureName").invoke(each);
            Object lowest = feature.getMethod("minimumProduction").invoke(each);
            Object highest = feature.getMethod("latestProduction").invoke(each);
            System.out.println("feature " + name + " " + lowest + " " + highest + " " + level(feature, each, metadata, newest));
        }
        configs("topic", "org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy");
        configs("broker", "org.apache.kafka.server.config.AbstractKafkaConfig", "CONFIG_DEF");
        configs("group", "org.apache.kafka.coordinator.group.GroupConfig", "configDef", "CONFIG_DEF");
    }

    /** Prints the configs that a class defines in one of these members; 3.9 has no class for those of groups. */
    private static void configs(String kind, String type, String... members) throws Exception {
        Class<?> found;
        try {
            found = Class.forName(type);
        } catch (ClassNotFoundException error) {
            return;
        }
        Object defined = member(found, members);
        Map<?, ?> keys = (Map<?, ?>) defined.getClass().getMethod("configKeys").invoke(defined);
        for (Object each : new TreeMap<>(keys).values()) {
            Class<?> key = each.getClass();
            if (!(boolean) key.getField("internalConfig").get(each)) {
                String bounds = String.valueOf(key.getField("validator").get(each));
                Matcher lowest = Pattern.compile("^\\[(-?\\d+),").matcher(bounds);
                System.out.println(kind + " " + key.getField("name").get(each) + " " + text(key.getField("defaultValue").get(each))
                    + " " + (lowest.find() ? lowest.group(1) : "-"));
            }
        }
    }

    private static Object member(Class<?> type, String[] names) throws Exception {
        for (String name : names) {
            for (Method method : type.getMethods()) {
                if (method.getName().equals(name)) {
                    return method.invoke(null);
                }
            }
            for (Field field : type.getFields()) {
                if (field.getName().equals(name)) {
                    return field.get(null);
                }
            }
        }
        throw new IllegalStateException("no member tells the configs of " + type);
    }

    /** A default as one word: ~ for none. */
    private static String text(Object value) {
        if (value == null || value.getClass() == Object.class) {
            return "~";
        }
        if (value instanceof List<?> list) {
            return "=" + String.join(",", list.stream().map(String::valueOf).toList());
        }
        return "=" + (value instanceof Class<?> type ? type.getName() : value);
    }

    private static Object latest(Class<?> metadata) throws Exception {
        try {
            return metadata.getMethod("latestProduction").invoke(null);
        } catch (NoSuchMethodException error) {
            return metadata.getField("LATEST_PRODUCTION").get(null);
        }
    }

    /** The enumeration of features, which had another name before 4.0. */
    private static Class<?> feature() throws Exception {
        try {
            return Class.forName(COMMON + "Feature");
        } catch (ClassNotFoundException error) {
            return Class.forName(COMMON + "Features");
        }
    }

    /** The level that a new cluster of the release has. */
    private static Object level(Class<?> feature, Object each, Class<?> metadata, Object newest) throws Exception {
        for (String name : new String[] {"defaultLevel", "defaultValue"}) {
            for (Method method : feature.getMethods()) {
                if (method.getName().equals(name)) {
                    return method.invoke(each, newest);
                }
            }
        }
        throw new IllegalStateException("no method tells the level of " + each);
    }
}
