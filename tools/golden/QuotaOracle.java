import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import kafka.server.ClientRequestQuotaManager;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Apache Kafka's own quota classes, driven by a script on standard input. Fields are separated by tabs, and every
 * line is answered with one line. `quota_oracle.py` writes the scripts and says what the lines mean.
 */
public class QuotaOracle {
    private static final double NANOS_TO_PERCENTAGE = 100.0 / 1_000_000_000L;

    /** Time that the script moves. */
    private static class ScriptTime implements Time {
        long nowMs = 0;

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            nowMs += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private final ScriptTime time = new ScriptTime();
    private final Map<String, ClientQuotaManager> managers = new HashMap<>();

    QuotaOracle(int samples, int windowSeconds) {
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(samples, windowSeconds);
        Metrics metrics = new Metrics(time);
        managers.put("produce", new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, time, ""));
        managers.put("fetch", new ClientQuotaManager(config, metrics, QuotaType.FETCH, time, ""));
        managers.put("request", new ClientRequestQuotaManager(config, metrics, time, "", Optional.empty()));
        managers.put(
            "mutation", new ControllerMutationQuotaManager(config, metrics, time, "", Optional.empty()));
    }

    private static Optional<ClientQuotaEntity.ConfigEntity> user(String name) {
        return switch (name) {
            case "-" -> Optional.empty();
            case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
            default -> Optional.of(new ClientQuotaManager.UserEntity(name));
        };
    }

    private static Optional<ClientQuotaEntity.ConfigEntity> client(String name) {
        return switch (name) {
            case "-" -> Optional.empty();
            case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
            default -> Optional.of(new ClientQuotaManager.ClientIdEntity(name));
        };
    }

    private String answer(String[] words) throws Exception {
        ClientQuotaManager manager = managers.get(words[1]);
        if (words[0].equals("set")) {
            Optional<Quota> bound =
                words[4].equals("-")
                    ? Optional.empty()
                    : Optional.of(new Quota(Double.parseDouble(words[4]), true));
            manager.updateQuota(user(words[2]), client(words[3]), bound);
            return "ok";
        }
        Session session =
            new Session(
                new KafkaPrincipal(KafkaPrincipal.USER_TYPE, words[2]),
                InetAddress.getLoopbackAddress());
        double value = Double.parseDouble(words[4]);
        if (words[1].equals("request")) {
            value = Long.parseLong(words[4]) * NANOS_TO_PERCENTAGE;
        }
        time.nowMs = Long.parseLong(words[5]);
        switch (words[0]) {
            case "record":
                return "" + manager.maybeRecordAndGetThrottleTimeMs(session, words[3], value, time.nowMs);
            case "quiet":
                manager.recordNoThrottle(session, words[3], value);
                return "ok";
            case "back":
                manager.unrecordQuotaSensor(session, words[3], value, time.nowMs);
                return "ok";
            case "most":
                return "" + manager.maxValueInQuotaWindow(session, words[3]);
            default:
                return mutation(words, session);
        }
    }

    private String mutation(String[] words, Session session) {
        ControllerMutationQuotaManager manager = (ControllerMutationQuotaManager) managers.get(words[1]);
        ControllerMutationQuota quota =
            words[0].equals("strict")
                ? manager.newStrictQuotaFor(session, words[3])
                : manager.newPermissiveQuotaFor(session, words[3]);
        String outcome = "0";
        try {
            quota.record(Double.parseDouble(words[4]));
        } catch (ThrottlingQuotaExceededException error) {
            outcome = "89";
        }
        int atOnce = quota.throttleTime();
        time.nowMs += Long.parseLong(words[6]);
        return outcome + " " + atOnce + " " + quota.throttleTime();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream output = new PrintStream(System.out, false, "UTF-8");
        QuotaOracle oracle =
            new QuotaOracle(Integer.parseInt(arguments[0]), Integer.parseInt(arguments[1]));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println("> " + oracle.answer(line.split("\t")));
        }
        output.flush();
        System.exit(0);
    }
}
