import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

/**
 * Reads records of __consumer_offsets as Kafka's group coordinator does: a line has key and value in hexadecimal.
 *
 * Prints key and value as JSON, and the bytes that Kafka writes for them.
 */
public class Records {
    public static void main(String[] arguments) throws Exception {
        var serde = new GroupCoordinatorRecordSerde();
        var hex = HexFormat.of();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            ByteBuffer value = ByteBuffer.wrap(hex.parseHex(parts[1]));
            CoordinatorRecord record = serde.deserialize(ByteBuffer.wrap(hex.parseHex(parts[0])), value);
            System.out.println(String.join("\t",
                CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()).toString(),
                CoordinatorRecordJsonConverters.writeRecordValueAsJson(
                    record.value().message(), record.value().version()).toString(),
                hex.formatHex(serde.serializeKey(record)),
                hex.formatHex(serde.serializeValue(record))));
        }
    }
}
