import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Kafka Streams over two compacted topics: orders, whose value is "customer:text", and customers.
 * Writes the inner and the left foreign-key join, and how many joined orders each customer has.
 * Takes a properties file; prints each change of state, runs until it is killed.
 */
public final class ForeignKeyJoin {
    private ForeignKeyJoin() { }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        KafkaStreams streams = new KafkaStreams(topology(settings), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace(System.out);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
    }

    private static Topology topology(Properties settings) {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> strings = Consumed.with(Serdes.String(), Serdes.String());
        Produced<String, String> text = Produced.with(Serdes.String(), Serdes.String());
        KTable<String, String> orders = builder.table("orders", strings, stored("orders"));
        KTable<String, String> customers = builder.table("customers", strings, stored("customers"));

        KTable<String, String> joined = orders.join(
            customers, ForeignKeyJoin::customerOf, (order, name) -> order + "/" + name, stored("joined"));
        KTable<String, String> leftJoined = orders.leftJoin(
            customers, ForeignKeyJoin::customerOf, (order, name) -> order + "/" + name, stored("left"));
        KTable<String, Long> counts = joined
            .groupBy(
                (order, value) -> KeyValue.pair(customerOf(value), value),
                Grouped.with("by-customer", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"));

        joined.toStream().to("joined", text);
        leftJoined.toStream().to("left-joined", text);
        counts.toStream().mapValues(String::valueOf).to("counts", text);
        return builder.build(settings);
    }

    private static String customerOf(String value) {
        return value.substring(0, value.indexOf(':'));
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> stored(String name) {
        return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name + "-store")
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.String());
    }
}
