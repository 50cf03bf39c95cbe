import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;

/**
 * Prints every record header of the given segment files, read by Kafka's own classes, because
 * the dump tool prints header keys only. One line per header: offset, key hex, value hex or "-".
 */
public final class HeaderDump {
    private HeaderDump() { }

    public static void main(String[] paths) throws Exception {
        HexFormat hex = HexFormat.of();
        for (String path : paths) {
            System.out.println("file " + path);
            try (FileRecords records = FileRecords.open(new File(path), false)) {
                for (Record record : records.records()) {
                    for (Header header : record.headers()) {
                        String key = hex.formatHex(header.key().getBytes(StandardCharsets.UTF_8));
                        String value = header.value() == null ? "-" : "=" + hex.formatHex(header.value());
                        System.out.println(record.offset() + " =" + key + " " + value);
                    }
                }
            }
        }
    }
}
