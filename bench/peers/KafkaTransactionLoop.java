import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions one after the other with Kafka's own producer. Arguments: bootstrap server, topic,
 * partitions, records for each of them, transactions, transactions before anything counts, bytes of
 * a value. Answers with a line of RESULT and JSON: seconds, and the microseconds that the median
 * commit and the slowest in a hundred took.
 */
public class KafkaTransactionLoop {
    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[2]);
        int records = Integer.parseInt(arguments[3]);
        int count = Integer.parseInt(arguments[4]);
        int before = Integer.parseInt(arguments[5]);
        byte[] value = new byte[Integer.parseInt(arguments[6])];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", "java-" + ProcessHandle.current().pid());
        settings.put("linger.ms", "0");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        long[] taken = new long[count];
        long started = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            for (int number = -before; number < count; number++) {
                if (number == 0) {
                    started = System.nanoTime();
                }
                producer.beginTransaction();
                for (int record = 0; record < records; record++) {
                    for (int partition = 0; partition < partitions; partition++) {
                        producer.send(new ProducerRecord<>(arguments[1], partition, null, value));
                    }
                }
                producer.flush();
                long asked = System.nanoTime();
                producer.commitTransaction();
                if (number >= 0) {
                    taken[number] = System.nanoTime() - asked;
                }
            }
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        Arrays.sort(taken);
        double p50 = taken[count / 2] / 1e3;
        double p99 = taken[Math.min(count - 1, count * 99 / 100)] / 1e3;
        System.out.println("RESULT [" + seconds + ", " + p50 + ", " + p99 + "]");
    }
}
