import java.lang.reflect.Method;
import java.util.EnumSet;
import java.util.List;

/** Prints the APIs that a broker of a release of Kafka answers, with their stable versions; and its features with levels. */
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
