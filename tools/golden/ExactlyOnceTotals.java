import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Totals over a topic of events whose value is "group:amount": each event changes the total of its
 * key, and behind a repartition topic that of its group. A total is "events:sum"; every change of
 * it is written. Takes a properties file; prints each change of state, runs until it is killed.
 */
public final class ExactlyOnceTotals {
    private ExactlyOnceTotals() { }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        KafkaStreams streams = new KafkaStreams(topology(), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace(System.out);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
    }

    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> events =
            builder.stream("events", Consumed.with(Serdes.String(), Serdes.String()));
        Produced<String, String> text = Produced.with(Serdes.String(), Serdes.String());

        events.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .aggregate(() -> "0:0", (key, event, total) -> added(total, event), stored("keys"))
            .toStream().to("per-key", text);
        events.groupBy((key, event) -> event.substring(0, event.indexOf(':')),
                Grouped.with("by-group", Serdes.String(), Serdes.String()))
            .aggregate(() -> "0:0", (group, event, total) -> added(total, event), stored("groups"))
            .toStream().to("per-group", text);
        return builder.build();
    }

    private static String added(String total, String event) {
        int colon = total.indexOf(':');
        long count = Long.parseLong(total.substring(0, colon)) + 1;
        long sum = Long.parseLong(total.substring(colon + 1))
            + Long.parseLong(event.substring(event.indexOf(':') + 1));
        return count + ":" + sum;
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> stored(String name) {
        return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name)
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.String());
    }
}
