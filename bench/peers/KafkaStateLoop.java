import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Bytes;

/**
 * A topic read from its start into a map of the latest value of each key, as one writes it in Java.
 * Arguments: bootstrap server and topic. Answers with a line of RESULT and JSON: wall seconds, CPU
 * seconds of the process, live keys.
 */
public class KafkaStateLoop {
    public static void main(String[] arguments) {
        com.sun.management.OperatingSystemMXBean system =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long startedCpu = system.getProcessCpuTime();
        long started = System.nanoTime();
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "10000");
        settings.put("max.partition.fetch.bytes", "8388608");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        Map<Bytes, byte[]> table = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions = consumer.partitionsFor(arguments[1]).stream()
                .map(each -> new TopicPartition(each.topic(), each.partition()))
                .collect(Collectors.toList());
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    if (record.value() == null) {
                        table.remove(Bytes.wrap(record.key()));
                    } else {
                        table.put(Bytes.wrap(record.key()), record.value());
                    }
                }
            }
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        double cpu = (system.getProcessCpuTime() - startedCpu) / 1e9;
        System.out.println("RESULT [" + seconds + ", " + cpu + ", " + table.size() + "]");
    }
}
