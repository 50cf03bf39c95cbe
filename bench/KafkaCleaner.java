import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Apache Kafka's own cleaner, driven without a broker. Each line of standard input names a partition
 * directory; its log is opened, rolled and cleaned by one thread with the broker's default buffers.
 * Answers with a line of CLEANED, wall seconds and CPU seconds of that thread, and records and bytes written.
 * One process cleans many logs, so that its machine code is warm.
 */
public class KafkaCleaner {
    private static final int DEDUPE_BUFFER_BYTES = 128 * 1024 * 1024;
    private static final int IO_BUFFER_BYTES = 512 * 1024 / 2;
    private static final int MAX_IO_BUFFER_BYTES = 1024 * 1024 + 12;

    public static void main(String[] arguments) throws Exception {
        Time time = Time.SYSTEM;
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        Throttler throttler =
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", time);
        Cleaner cleaner =
            new Cleaner(
                0,
                new SkimpyOffsetMap(DEDUPE_BUFFER_BYTES),
                IO_BUFFER_BYTES,
                MAX_IO_BUFFER_BYTES,
                0.9,
                throttler,
                time,
                partition -> { });
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(clean(cleaner, new File(line), scheduler, time));
            System.out.flush();
        }
        scheduler.shutdown();
    }

    private static String clean(Cleaner cleaner, File directory, KafkaScheduler scheduler, Time time)
            throws Exception {
        LogConfig config =
            new LogConfig(
                Map.of(
                    "cleanup.policy", "compact",
                    "segment.bytes", Integer.toString(Integer.MAX_VALUE),
                    "delete.retention.ms", "86400000"));
        UnifiedLog log =
            UnifiedLog.create(
                directory,
                config,
                0L,
                0L,
                scheduler,
                new BrokerTopicStats(),
                time,
                300_000,
                new ProducerStateManagerConfig(86_400_000, false),
                600_000,
                new LogDirFailureChannel(1),
                true,
                Optional.empty());
        log.roll();
        log.updateHighWatermark(log.logEndOffset());
        LogToClean cleanable = new LogToClean(log, 0L, log.activeSegment().baseOffset(), false);
        long startedCpu = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        long started = System.nanoTime();
        CleanerStats stats = cleaner.doClean(cleanable, time.milliseconds()).getValue();
        double seconds = (System.nanoTime() - started) / 1e9;
        long cpu = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - startedCpu;
        log.close();
        return "CLEANED " + seconds + " " + cpu / 1e9 + " " + stats.messagesWritten() + " " + stats.bytesWritten();
    }
}
