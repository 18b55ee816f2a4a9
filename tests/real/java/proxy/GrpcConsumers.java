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
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Push consumers and lite consumers of the gRPC client, at one proxy. Reads and answers lines as Workbench does. */
public class GrpcConsumers {
    private static final Map<String, Consumer> CONSUMERS = new HashMap<>();
    private static final PrintStream ANSWERS = System.out;

    private static final class Consumer {
        PushConsumer push;
        LitePushConsumer lite;
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
            case "consume-lite": return consumeLite(endpoint, options);
            case "produce-lite": return produceLite(endpoint, options);
            case "consumed": return String.valueOf(CONSUMERS.get(options.get("id")).consumed.get());
            case "stop": // waits for its long poll, up to 20 s
                Consumer stopped = CONSUMERS.remove(options.get("id"));
                (stopped.push != null ? (java.io.Closeable) stopped.push : stopped.lite).close();
                return "";
            default: throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private static ClientConfiguration configuration(String endpoint) {
        return ClientConfiguration.newBuilder()
            .setEndpoints(endpoint).enableSsl(false).setRequestTimeout(Duration.ofSeconds(10)).build();
    }

    /** id, group, topic (the parent), lite (names of lite topics, with commas). */
    private static String consumeLite(String endpoint, Map<String, String> options) throws Exception {
        Consumer consumer = new Consumer();
        consumer.lite = ClientServiceProvider.loadService().newLitePushConsumerBuilder()
            .setClientConfiguration(configuration(endpoint))
            .setConsumerGroup(options.get("group"))
            .bindTopic(options.get("topic"))
            .setMessageListener(message -> {
                consumer.consumed.incrementAndGet();
                return ConsumeResult.SUCCESS;
            })
            .build();
        for (String name : options.get("lite").split(",")) {
            consumer.lite.subscribeLite(name);
        }
        CONSUMERS.put(options.get("id"), consumer);
        return options.get("group");
    }

    /** topic (the parent), lite (the name of a lite topic), count. */
    private static String produceLite(String endpoint, Map<String, String> options) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        String topic = options.get("topic");
        try (Producer producer = provider.newProducerBuilder()
                .setClientConfiguration(configuration(endpoint)).setTopics(topic).build()) {
            for (int i = 0; i < Integer.parseInt(options.get("count")); i++) {
                producer.send(provider.newMessageBuilder()
                    .setTopic(topic).setLiteTopic(options.get("lite")).setBody(new byte[] {(byte) i}).build());
            }
        }
        return "";
    }

    /** id, group, topic, [expr], [fail] (every message is to be delivered again); answers the client id. */
    private static String consume(String endpoint, Map<String, String> options) throws Exception {
        Consumer consumer = new Consumer();
        boolean failing = options.containsKey("fail");
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        consumer.push = provider.newPushConsumerBuilder()
            .setClientConfiguration(configuration(endpoint))
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
