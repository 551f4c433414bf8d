package purgatorio;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A record of a topic.
 *
 * @param partition of a record to be written: null for the one that its key has
 * @param offset where it is in the partition; null before it is written
 * @param timestampMs of a record to be written: null for the time at which it is
 */
public record KafkaRecord(
        String topic,
        Integer partition,
        Long offset,
        byte[] key,
        byte[] value,
        Map<String, byte[]> headers,
        Long timestampMs) {

    /** A record to be written, with text as key and value; each may be null. */
    public static KafkaRecord of(String key, String value) {
        return of(bytes(key), bytes(value));
    }

    /** A record to be written; key and value may be null. */
    public static KafkaRecord of(byte[] key, byte[] value) {
        return new KafkaRecord(null, null, null, key, value, Map.of(), null);
    }

    /** This record, to be written to a partition. */
    public KafkaRecord to(int partition) {
        return new KafkaRecord(topic, partition, offset, key, value, headers, timestampMs);
    }

    /** This record with one header more. */
    public KafkaRecord with(String header, String value) {
        Map<String, byte[]> more = new LinkedHashMap<>(headers);
        more.put(header, bytes(value));
        return new KafkaRecord(topic, partition, offset, key, this.value, more, timestampMs);
    }

    /** The key as UTF-8 text; null if there is none. */
    public String keyText() {
        return text(key);
    }

    /** The value as UTF-8 text; null if there is none. */
    public String valueText() {
        return text(value);
    }

    Map<String, Object> written() {
        Map<String, Object> written = new LinkedHashMap<>();
        put(written, "key", key);
        put(written, "value", value);
        List<Object> pairs = new ArrayList<>();
        headers.forEach((name, each) -> {
            Map<String, Object> pair = new LinkedHashMap<>(Map.of("name", name));
            put(pair, "value", each);
            pairs.add(pair);
        });
        written.put("headers", pairs);
        if (partition != null) {
            written.put("partition", partition);
        }
        if (timestampMs != null) {
            written.put("timestamp_ms", timestampMs);
        }
        return written;
    }

    static KafkaRecord read(String topic, Map<String, Object> from) {
        Map<String, byte[]> headers = new LinkedHashMap<>();
        for (Map<String, Object> each : Json.objects(from.get("headers"))) {
            headers.put((String) each.get("name"), get(each, "value"));
        }
        int partition = ((Number) from.get("partition")).intValue();
        long offset = ((Number) from.get("offset")).longValue();
        long timestampMs = ((Number) from.get("timestamp_ms")).longValue();
        return new KafkaRecord(topic, partition, offset, get(from, "key"), get(from, "value"), headers, timestampMs);
    }

    private static void put(Map<String, Object> into, String name, byte[] value) {
        if (value != null) {
            into.put(name + "_base64", Base64.getEncoder().encodeToString(value));
        }
    }

    private static byte[] get(Map<String, Object> from, String name) {
        Object coded = from.get(name + "_base64");
        return coded != null ? Base64.getDecoder().decode((String) coded) : bytes((String) from.get(name));
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
