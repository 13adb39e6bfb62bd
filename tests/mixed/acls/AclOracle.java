import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import kafka.security.authorizer.AclAuthorizer;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import scala.collection.immutable.Set;

/**
 * Decisions of Kafka's AclAuthorizer, without a store: sets of ACLs and actions on stdin, one digit for each
 * action on stdout. Fields are separated by tabs.
 */
public final class AclOracle {
    private static final Map<ResourcePattern, Set<AclEntry>> ACLS = new HashMap<>();
    private static AclAuthorizer authorizer;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "new" -> start(fields[1], Boolean.parseBoolean(fields[2]));
                case "acl" -> add(fields);
                case "may" -> out.println(may(fields) ? 1 : 0);
                case "any" -> out.println(mayOnAny(fields) ? 1 : 0);
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static void start(String superUser, boolean allowEveryone) throws Exception {
        authorizer = new AclAuthorizer();
        ACLS.clear();
        Set<KafkaPrincipal> superUsers = empty();
        set("superUsers_$eq", Set.class, superUsers.incl(SecurityUtils.parseKafkaPrincipal(superUser)));
        set("shouldAllowEveryoneIfNoAclIsFound_$eq", boolean.class, allowEveryone);
    }

    private static void set(String setter, Class<?> type, Object value) throws Exception {
        for (Method method : AclAuthorizer.class.getDeclaredMethods()) {
            if (method.getName().endsWith(setter) && method.getParameterCount() == 1) {
                method.setAccessible(true);
                method.invoke(authorizer, value);
                return;
            }
        }
        throw new NoSuchMethodException(setter + " of " + type);
    }

    @SuppressWarnings("unchecked")
    private static <T> Set<T> empty() {
        return (Set<T>) (Object) scala.collection.immutable.Set$.MODULE$.empty();
    }

    private static void add(String[] fields) {
        ResourcePattern pattern = new ResourcePattern(
            ResourceType.valueOf(fields[1]), fields[2], PatternType.valueOf(fields[3]));
        AclEntry entry = new AclEntry(new AccessControlEntry(
            fields[4], fields[5], AclOperation.valueOf(fields[6]), AclPermissionType.valueOf(fields[7])));
        Set<AclEntry> entries = ACLS.getOrDefault(pattern, empty()).incl(entry);
        ACLS.put(pattern, entries);
        authorizer.updateCache(pattern, new AclAuthorizer.VersionedAcls(entries, 0));
    }

    private static boolean may(String[] fields) throws Exception {
        ResourcePattern resource = new ResourcePattern(
            ResourceType.valueOf(fields[4]), fields[5], PatternType.LITERAL);
        Action action = new Action(AclOperation.valueOf(fields[3]), resource, 1, false, false);
        return authorizer.authorize(new Sender(fields), List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }

    private static boolean mayOnAny(String[] fields) throws Exception {
        return authorizer.authorizeByResourceType(
            new Sender(fields), AclOperation.valueOf(fields[3]), ResourceType.valueOf(fields[4]))
            == AuthorizationResult.ALLOWED;
    }

    private static final class Sender implements AuthorizableRequestContext {
        private final KafkaPrincipal principal;
        private final InetAddress address;

        Sender(String[] fields) throws Exception {
            principal = SecurityUtils.parseKafkaPrincipal(fields[1]);
            address = InetAddress.getByName(fields[2]);
        }

        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public KafkaPrincipal principal() {
            return principal;
        }

        @Override
        public InetAddress clientAddress() {
            return address;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "oracle";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
