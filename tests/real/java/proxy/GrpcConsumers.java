import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;

/** Push consumers of the gRPC client, at one proxy. Reads and answers lines as Workbench does. */
public class GrpcConsumers {
    private static final Map<String, Consumer> CONSUMERS = new HashMap<>();
    private static final PrintStream ANSWERS = System.out;

    private static final class Consumer {
        PushConsumer push;
        final AtomicLong consumed = new AtomicLong();
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answer("OK", "ready");
        for (String line; (line = in.readLine()) != null; ) {
            try {
                answer("OK", run(args[0], line.split("\t", -1)));
            } catch (Throwable t) {
                answer("ERR", t.toString());
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(String kind, String text) {
        ANSWERS.println(kind + "\t" + text.replace("\\", "\\\\").replace("\n", "\\n"));
        ANSWERS.flush();
    }

    private static String run(String endpoint, String[] words) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 1; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            options.put(words[i].substring(0, equals), words[i].substring(equals + 1));
        }
        switch (words[0]) {
            case "consume": return consume(endpoint, options);
            case "consumed": return String.valueOf(CONSUMERS.get(options.get("id")).consumed.get());
            case "stop": // waits for its long poll, up to 20 s
                CONSUMERS.remove(options.get("id")).push.close();
                return "";
            default: throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    /** id, group, topic, [expr], [fail] (every message is to be delivered again); answers the client id. */
    private static String consume(String endpoint, Map<String, String> options) throws Exception {
        Consumer consumer = new Consumer();
        boolean failing = options.containsKey("fail");
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        consumer.push = provider.newPushConsumerBuilder()
            .setClientConfiguration(ClientConfiguration.newBuilder()
                .setEndpoints(endpoint).enableSsl(false).setRequestTimeout(Duration.ofSeconds(10)).build())
            .setConsumerGroup(options.get("group"))
            .setSubscriptionExpressions(Collections.singletonMap(
                options.get("topic"), new FilterExpression(options.getOrDefault("expr", "*"))))
            .setMessageListener(message -> {
                if (failing) {
                    return ConsumeResult.FAILURE;
                }
                consumer.consumed.incrementAndGet();
                return ConsumeResult.SUCCESS;
            })
            .build();
        CONSUMERS.put(options.get("id"), consumer);
        return String.valueOf(consumer.push.getConsumerGroup());
    }
}
