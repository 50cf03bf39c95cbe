import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's StandardAuthorizer. Reads lines of fields between tabs:
 *   N super.users allow.everyone      begins a set of ACLs
 *   A type name pattern principal host operation permission
 *   Q principal host operation type name      prints 1 or 0
 *   R principal host operation type           the same for some resource of the type
 */
public class AclVerdict {
    private static StandardAuthorizer authorizer;
    private static Map<Uuid, StandardAcl> acls;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        String line;
        while ((line = in.readLine()) != null) {
            String[] word = line.split("\t", -1);
            switch (word[0]) {
                case "N":
                    begin(word[1], word[2]);
                    break;
                case "A":
                    acls.put(Uuid.randomUuid(), new StandardAcl(
                        ResourceType.fromCode(Byte.parseByte(word[1])), word[2],
                        PatternType.fromCode(Byte.parseByte(word[3])), word[4], word[5],
                        AclOperation.fromCode(Byte.parseByte(word[6])),
                        AclPermissionType.fromCode(Byte.parseByte(word[7]))));
                    break;
                case "Q":
                    out.println(asked(word) == AuthorizationResult.ALLOWED ? 1 : 0);
                    break;
                case "R":
                    load();
                    out.println(authorizer.authorizeByResourceType(context(word[1], word[2]),
                        AclOperation.fromCode(Byte.parseByte(word[3])),
                        ResourceType.fromCode(Byte.parseByte(word[4])))
                            == AuthorizationResult.ALLOWED ? 1 : 0);
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static void begin(String superUsers, String allowEveryone) {
        authorizer = new StandardAuthorizer();
        Map<String, Object> configs = new HashMap<>();
        configs.put("node.id", "1");
        configs.put("super.users", superUsers);
        configs.put("allow.everyone.if.no.acl.found", allowEveryone);
        authorizer.configure(configs);
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        acls = new HashMap<>();
    }

    private static void load() {
        if (acls != null) {
            authorizer.loadSnapshot(acls);
            authorizer.completeInitialLoad();
            acls = null;
        }
    }

    private static AuthorizationResult asked(String[] word) throws Exception {
        load();
        ResourcePattern resource = new ResourcePattern(
            ResourceType.fromCode(Byte.parseByte(word[4])), word[5], PatternType.LITERAL);
        Action action = new Action(
            AclOperation.fromCode(Byte.parseByte(word[3])), resource, 1, false, false);
        return authorizer.authorize(context(word[1], word[2]), List.of(action)).get(0);
    }

    private static AuthorizableRequestContext context(String principal, String host)
            throws Exception {
        KafkaPrincipal who = SecurityUtils.parseKafkaPrincipal(principal);
        InetAddress address = InetAddress.getByName(host);
        return new AuthorizableRequestContext() {
            public String listenerName() { return "PLAINTEXT"; }
            public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
            public KafkaPrincipal principal() { return who; }
            public InetAddress clientAddress() { return address; }
            public int requestType() { return 3; }
            public int requestVersion() { return 1; }
            public String clientId() { return "oracle"; }
            public int correlationId() { return 1; }
        };
    }
}
