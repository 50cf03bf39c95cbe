import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers and consumers that do what each line of the input says, and answer with
 * one line: "ok" and values, or "error", the exception's name and its words; all between tabs.
 * Takes the bootstrap address. A value of "-" is null.
 */
public final class TransactionalClient {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long READ_MS = 60_000;

    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, List<Future<RecordMetadata>>> sent = new HashMap<>();

    private TransactionalClient(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        TransactionalClient client = new TransactionalClient(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println("> " + client.answer(line.split("\t", -1)));
        }
    }

    private String answer(String[] words) {
        try {
            return String.join("\t", withOk(done(words)));
        } catch (ExecutionException error) {
            return failed(error.getCause());
        } catch (Exception error) {
            return failed(error);
        }
    }

    private static String failed(Throwable error) {
        String words = String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
        return "error\t" + error.getClass().getSimpleName() + "\t" + words;
    }

    private static List<String> withOk(List<String> values) {
        List<String> all = new ArrayList<>(List.of("ok"));
        all.addAll(values);
        return all;
    }

    private List<String> done(String[] words) throws Exception {
        String name = words.length > 1 ? words[1] : "";
        switch (words[0]) {
            case "producer": producers.put(name, producer(name, words[2])); sent.put(name, new ArrayList<>()); break;
            case "init": producers.get(name).initTransactions(); break;
            case "begin": producers.get(name).beginTransaction(); break;
            case "send": send(words); break;
            case "flush": return flushed(name);
            case "offsets": offsets(words); break;
            case "commit": producers.get(name).commitTransaction(); break;
            case "abort": producers.get(name).abortTransaction(); break;
            case "close": producers.remove(name).close(Duration.ZERO); break;
            case "read": return read(words);
            case "end": return end(words);
            case "committed": return committed(words);
            default: throw new IllegalArgumentException(words[0]);
        }
        return List.of();
    }

    private KafkaProducer<String, String> producer(String id, String timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id.substring(0, id.indexOf('#')));
        settings.put("transaction.timeout.ms", timeoutMs);
        settings.put("max.block.ms", "30000");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private void send(String[] words) {
        ProducerRecord<String, String> record = new ProducerRecord<>(
            words[2], Integer.valueOf(words[3]), words[4], words[5].equals("-") ? null : words[5]);
        sent.get(words[1]).add(producers.get(words[1]).send(record));
    }

    private List<String> flushed(String name) throws Exception {
        producers.get(name).flush();
        List<String> found = new ArrayList<>();
        List<Future<RecordMetadata>> waiting = new ArrayList<>(sent.get(name));
        sent.get(name).clear();
        for (Future<RecordMetadata> each : waiting) {
            found.add(String.valueOf(each.get().offset()));
        }
        return found;
    }

    private void offsets(String[] words) {
        ConsumerGroupMetadata group = words.length > 6
            ? new ConsumerGroupMetadata(words[2], Integer.parseInt(words[6]), words[7], Optional.empty())
            : new ConsumerGroupMetadata(words[2]);
        TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
        OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(words[5]));
        producers.get(words[1]).sendOffsetsToTransaction(Map.of(partition, offset), group);
    }

    private KafkaConsumer<String, String> consumer(String isolation, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", isolation);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private List<String> read(String[] words) {
        TopicPartition partition = new TopicPartition(words[2], Integer.parseInt(words[3]));
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(words[1], "reader")) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long deadline = System.currentTimeMillis() + READ_MS;
            while (consumer.position(partition) < end) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("at " + consumer.position(partition) + " of " + end);
                }
                for (ConsumerRecord<String, String> each : consumer.poll(POLL)) {
                    found.addAll(Arrays.asList(each.key(), each.value() == null ? "-" : each.value()));
                }
            }
            found.add(0, String.valueOf(consumer.position(partition)));
        }
        return found;
    }

    private List<String> end(String[] words) {
        TopicPartition partition = new TopicPartition(words[2], Integer.parseInt(words[3]));
        try (KafkaConsumer<String, String> consumer = consumer(words[1], "reader")) {
            return List.of(String.valueOf(consumer.endOffsets(List.of(partition)).get(partition)));
        }
    }

    private List<String> committed(String[] words) {
        TopicPartition partition = new TopicPartition(words[2], Integer.parseInt(words[3]));
        try (KafkaConsumer<String, String> consumer = consumer("read_committed", words[1])) {
            OffsetAndMetadata found = consumer.committed(Set.of(partition)).get(partition);
            return List.of(found == null ? "-1" : String.valueOf(found.offset()));
        }
    }
}
