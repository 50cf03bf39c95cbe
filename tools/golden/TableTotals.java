import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Count and sum of a table by group, where a changed or deleted row takes away what it gave. Values
 * are {"country":"...","paid":N}, as the benchmark writes them; a total is {"count":N,"sum":N}.
 * Takes a properties file with two more keys, source.topic and result.topic; runs until it is
 * killed.
 */
public final class TableTotals {
    private static final String PAID = "\"paid\":";
    private static final String COUNTRY = "\"country\":\"";

    private TableTotals() { }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        Topology topology = topology(
            settings.getProperty("source.topic"), settings.getProperty("result.topic"));
        new KafkaStreams(topology, settings).start();
    }

    private static Topology topology(String source, String result) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.table(source, Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, value) -> KeyValue.pair(country(value), value),
                Grouped.with(Serdes.String(), Serdes.String()))
            .aggregate(() -> "{\"count\":0,\"sum\":0}",
                (group, value, total) -> added(total, 1, paid(value)),
                (group, value, total) -> added(total, -1, -paid(value)),
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("totals")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
            .toStream().to(result, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static String country(String value) {
        int begin = value.indexOf(COUNTRY) + COUNTRY.length();
        return value.substring(begin, value.indexOf('"', begin));
    }

    private static long paid(String value) {
        return number(value, PAID);
    }

    private static long number(String text, String name) {
        int begin = text.indexOf(name) + name.length();
        int end = begin;
        while (text.charAt(end) != ',' && text.charAt(end) != '}') {
            end++;
        }
        return Long.parseLong(text.substring(begin, end).trim());
    }

    private static String added(String total, long count, long sum) {
        long counted = number(total, "\"count\":") + count;
        return "{\"count\":" + counted + ",\"sum\":" + (number(total, "\"sum\":") + sum) + "}";
    }
}
