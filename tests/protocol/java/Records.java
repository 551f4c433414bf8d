import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;

/**
 * Reads records of __consumer_offsets or __transaction_state (the argument) with Kafka's own classes, those of its
 * DumpLogSegments: a line has key and value in hexadecimal.
 *
 * Prints key and value as JSON, and the bytes that Kafka writes for them.
 */
public class Records {
    public static void main(String[] arguments) throws Exception {
        boolean offsets = arguments[0].equals("__consumer_offsets");
        CoordinatorRecordSerde serde =
            offsets ? new GroupCoordinatorRecordSerde() : new TransactionCoordinatorRecordSerde();
        var hex = HexFormat.of();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            ByteBuffer value = ByteBuffer.wrap(hex.parseHex(parts[1]));
            CoordinatorRecord record = serde.deserialize(ByteBuffer.wrap(hex.parseHex(parts[0])), value);
            System.out.println(String.join("\t",
                offsets ? offsetsJson(record) : transactionsJson(record),
                hex.formatHex(serde.serializeKey(record)),
                hex.formatHex(serde.serializeValue(record))));
        }
    }

    private static String offsetsJson(CoordinatorRecord record) {
        var value = record.value();
        return org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters
                .writeRecordKeyAsJson(record.key())
            + "\t" + org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters
                .writeRecordValueAsJson(value.message(), value.version());
    }

    private static String transactionsJson(CoordinatorRecord record) {
        var value = record.value();
        return org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                .writeRecordKeyAsJson(record.key())
            + "\t" + org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                .writeRecordValueAsJson(value.message(), value.version());
    }
}
