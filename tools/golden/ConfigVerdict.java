import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Properties;

/** What Kafka's broker says to each of the given server.properties: one line a file. */
public class ConfigVerdict {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties properties = new Properties();
            try (InputStream input = new FileInputStream(file)) {
                properties.load(input);
            }
            try {
                new kafka.server.KafkaConfig(properties);
                System.out.println("accepted");
            } catch (RuntimeException refusal) {
                System.out.println(("refused " + refusal.getMessage()).replace('\n', ' '));
            }
        }
    }
}
