import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * One JVM for all that the real tests want from Java: producers, push consumers and mqadmin, so that a
 * test does not pay a JVM start for each. Reads one command a line (tab-separated words, options as
 * key=value), answers one line: "OK<TAB>..." or "ERR<TAB>...", with newlines written as \n.
 */
public class Workbench {
    private static final Map<String, Consumer> CONSUMERS = new ConcurrentHashMap<>();
    private static final PrintStream ANSWERS = System.out;
    private static String namesrv;
    private static DefaultMQProducer producer;
    /** Writes traces to RMQ_SYS_TRACE_TOPIC of everything that it sends. */
    private static DefaultMQProducer tracedProducer;
    /** Signs requests; null where the servers know no accounts. */
    private static RPCHook signer;

    static final class Consumer {
        DefaultMQPushConsumer push;
        final AtomicLong consumed = new AtomicLong();
        final AtomicLong started = new AtomicLong();
        /** Gets queue, offset, and System.nanoTime() at the beginning and the end, of each message that ended. */
        PrintStream spans;
        /** Bodies that start with this text block until release() is called. */
        volatile String stuckPrefix;
        /** Only the first time: what is retried passes. */
        boolean isStuckOnce;
        volatile CountDownLatch gate = new CountDownLatch(1);
        /** Bodies that start with this text make the listener throw, or return null where it is a concurrent one. */
        String raisePrefix;
        String nullPrefix;
        /** How long each message keeps the listener. */
        long eachMs;
        /** Bodies of what was consumed, where a test wants to know; null where not. */
        List<String> bodies;
        /** What the listener was given: body, reconsume times, broker:queue and ms since it was sent, in that order. */
        final List<String> attempts = Collections.synchronizedList(new ArrayList<>());
        /** The same messages as Java reads them: id, topic, tags, keys and properties. */
        final List<String> read = Collections.synchronizedList(new ArrayList<>());
    }

    public static void main(String[] args) throws Exception {
        namesrv = args[0];
        if (args.length > 2) {
            signAs(args[1], args[2]);
        }
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answer("OK", "ready");
        for (String line; (line = in.readLine()) != null; ) {
            try {
                answer("OK", run(line.split("\t", -1)));
            } catch (Throwable t) {
                answer("ERR", t.toString());
            }
        }
        // Orderly 5.x consumers leave non-daemon threads behind, so the JVM would not exit by itself.
        Runtime.getRuntime().halt(0);
    }

    private static void answer(String kind, String text) {
        ANSWERS.println(kind + "\t" + text.replace("\\", "\\\\").replace("\n", "\\n"));
        ANSWERS.flush();
    }

    private static String run(String[] words) throws Exception {
        Map<String, String> options = new HashMap<>();
        List<String> plain = new ArrayList<>();
        for (String word : Arrays.asList(words).subList(1, words.length)) {
            int equals = word.indexOf('=');
            if (!words[0].equals("mqadmin") && equals > 0) {
                options.put(word.substring(0, equals), word.substring(equals + 1));
            } else {
                plain.add(word);
            }
        }
        switch (words[0]) {
            case "sign":
                signAs(options.get("ak"), options.get("sk"));
                return "";
            case "mqadmin": return mqadmin(plain.toArray(new String[0]));
            case "produce": return produce(options);
            case "consume": return consume(options);
            case "consumed": return String.valueOf(CONSUMERS.get(options.get("id")).consumed.get());
            case "bodies": {
                List<String> bodies = CONSUMERS.get(options.get("id")).bodies;
                synchronized (bodies) {
                    return String.join(",", bodies);
                }
            }
            case "attempts": {
                List<String> attempts = CONSUMERS.get(options.get("id")).attempts;
                synchronized (attempts) {
                    return String.join("\n", attempts);
                }
            }
            case "read": {
                List<String> read = CONSUMERS.get(options.get("id")).read;
                synchronized (read) {
                    return String.join("\n", read);
                }
            }
            case "queues": return queues(CONSUMERS.get(options.get("id")).push, options.get("topic"));
            case "transact": return TransactBench.send(namesrv, options);
            case "checked": return TransactBench.checked(options);
            case "reply": return TransactBench.reply(namesrv, options);
            case "request": return TransactBench.request(namesrv, options);
            case "lite": return PullBench.start(namesrv, options);
            case "poll": return PullBench.poll(options);
            case "poll-on":
                CONSUMERS.put(options.get("id"), PullBench.pollOn(options));
                return "";
            case "pull-on":
                CONSUMERS.put(options.get("id"), PullBench.pullOn(namesrv, options));
                return "";
            case "pull-all": return PullBench.pullAll(namesrv, options);
            case "started": return String.valueOf(CONSUMERS.get(options.get("id")).started.get());
            case "client-id": return CONSUMERS.get(options.get("id")).push.getDefaultMQPushConsumerImpl()
                .getmQClientFactory().getClientId();
            case "release": {
                Consumer consumer = CONSUMERS.get(options.get("id"));
                consumer.stuckPrefix = null;
                consumer.gate.countDown();
                return "";
            }
            case "rebalance":
                rebalance(CONSUMERS.get(options.get("id")).push);
                return "";
            // What a group has consumed of a topic by its members' own word: a row a queue.
            case "consume-status": return consumeStatus(options);
            // As if it had started so many ms ago: mqadmin compares subscriptions only 2 minutes after that.
            case "backdate": {
                Object impl = CONSUMERS.get(options.get("id")).push.getDefaultMQPushConsumerImpl();
                Field started = impl.getClass().getDeclaredField("consumerStartTimestamp");
                started.setAccessible(true);
                started.setLong(impl, System.currentTimeMillis() - Long.parseLong(options.get("ms")));
                return "";
            }
            case "suspend":
                CONSUMERS.get(options.get("id")).push.suspend();
                return "";
            case "resume":
                CONSUMERS.get(options.get("id")).push.resume();
                return "";
            case "persist":
                CONSUMERS.get(options.get("id")).push.getDefaultMQPushConsumerImpl().persistConsumerOffset();
                return "";
            case "stop":
                if (PullBench.stop(options.get("id")) || TransactBench.stop(options.get("id"))) {
                    return "";
                }
                CONSUMERS.remove(options.get("id")).push.shutdown();
                return "";
            // What it was given can be asked for afterwards.
            case "shutdown":
                CONSUMERS.get(options.get("id")).push.shutdown();
                return "";
            default: throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    /**
     * 4.9's mqadmin takes its keys from tools.yml and ignores what it is called with, so they are written there as well.
     * Messages go through a new producer from now on, because a producer's keys are settled when it is made.
     */
    private static void signAs(String accessKey, String secretKey) throws Exception {
        Path tools = Paths.get(System.getenv("ROCKETMQ_HOME"), "conf", "tools.yml");
        if (accessKey.isEmpty()) {
            signer = null;
            Files.deleteIfExists(tools);
        } else {
            signer = new AclClientRPCHook(new SessionCredentials(accessKey, secretKey));
            Files.write(tools, ("accessKey: " + accessKey + "\nsecretKey: " + secretKey + "\n").getBytes(StandardCharsets.UTF_8));
        }
        if (producer != null) {
            producer.shutdown();
            producer = null;
        }
    }

    private static String mqadmin(String[] args) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream before = System.out;
        System.setProperty("rocketmq.namesrv.addr", namesrv);
        try (PrintStream captured = new PrintStream(bytes, true)) {
            System.setOut(captured);
            MQAdminStartup.main0(args, signer);
        } finally {
            System.setOut(before);
        }
        return new String(bytes.toByteArray(), StandardCharsets.UTF_8);
    }

    /** Which queues of a topic a consumer holds. */
    private static String queues(DefaultMQPushConsumer push, String topic) {
        List<String> held = new ArrayList<>();
        for (MessageQueue queue : push.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
            if (queue.getTopic().equals(topic)) {
                held.add(queue.getBrokerName() + ":" + queue.getQueueId());
            }
        }
        Collections.sort(held);
        return String.join(",", held);
    }

    private static DefaultMQProducer started(DefaultMQProducer made) throws Exception {
        made.setNamesrvAddr(namesrv);
        made.setSendMsgTimeout(10000);
        made.start();
        return made;
    }

    /**
     * topic, count, [size], [tag], [prefix], [keys=prefix], [key=whole], [queue=broker:id], [batch], [trace], [body64],
     * [number=property that holds the number], [mode=async|oneway], [delay=level], [timer=ms] (5.x); bodies are prefix +
     * number.
     */
    private static String produce(Map<String, String> options) throws Exception {
        if (options.containsKey("trace") && tracedProducer == null) {
            tracedProducer = started(new DefaultMQProducer("WORKBENCH_TRACED", signer, true, null));
        } else if (!options.containsKey("trace") && Workbench.producer == null) {
            Workbench.producer = started(new DefaultMQProducer("WORKBENCH_PRODUCER", signer));
        }
        DefaultMQProducer producer = options.containsKey("trace") ? tracedProducer : Workbench.producer;
        String topic = options.get("topic");
        int count = Integer.parseInt(options.get("count"));
        int size = Integer.parseInt(options.getOrDefault("size", "0"));
        int batch = Integer.parseInt(options.getOrDefault("batch", "1"));
        String prefix = options.getOrDefault("prefix", "m");
        MessageQueue queue = null;
        if (options.containsKey("queue")) {
            String[] parts = options.get("queue").split(":");
            queue = new MessageQueue(topic, parts[0], Integer.parseInt(parts[1]));
        }
        String last = "";
        long beganNs = System.nanoTime();
        int rate = Integer.parseInt(options.getOrDefault("rate", "0"));
        for (int at = 0; at < count; at += batch) {
            if (rate > 0) {
                LockSupport.parkNanos(beganNs + at * 1_000_000_000L / rate - System.nanoTime());
            }
            List<Message> messages = new ArrayList<>();
            for (int i = at; i < Math.min(count, at + batch); i++) {
                byte[] text = (prefix + i).getBytes(StandardCharsets.UTF_8);
                byte[] body = Arrays.copyOf(text, Math.max(size, text.length));
                Arrays.fill(body, text.length, body.length, (byte) '.');
                if (options.containsKey("body64")) {
                    body = Base64.getDecoder().decode(options.get("body64"));
                }
                Message message = new Message(topic, options.get("tag"), body);
                if (options.containsKey("keys")) {
                    message.setKeys(options.get("keys") + i);
                }
                if (options.containsKey("key")) {
                    message.setKeys(options.get("key"));
                }
                if (options.containsKey("number")) {
                    message.putUserProperty(options.get("number"), String.valueOf(i));
                }
                if (options.containsKey("delay")) {
                    message.setDelayTimeLevel(Integer.parseInt(options.get("delay")));
                }
                if (options.containsKey("timer")) {
                    MessageAccessor.putProperty(message, "TIMER_DELAY_MS", options.get("timer"));
                }
                messages.add(message);
            }
            if (options.containsKey("mode")) {
                last = sendWithoutWaiting(producer, messages, options.get("mode"));
                continue;
            }
            SendResult result;
            if (options.containsKey("shards")) {
                String key = "shard-" + at % Integer.parseInt(options.get("shards"));
                MessageAccessor.putProperty(messages.get(0), "__SHARDINGKEY", key);
                result = producer.send(messages.get(0), new SelectMessageQueueByHash(), key);
            } else if (messages.size() == 1) {
                result = queue == null ? producer.send(messages.get(0)) : producer.send(messages.get(0), queue);
            } else {
                result = queue == null ? producer.send(messages) : producer.send(messages, queue);
            }
            last = result.getMsgId() + "\t" + result.getOffsetMsgId();
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                last += "\t" + result.getSendStatus();
            }
        }
        return last;
    }

    /** Sends each message as one; async answers the last message's ids when all are stored. */
    private static String sendWithoutWaiting(DefaultMQProducer producer, List<Message> messages, String mode) throws Exception {
        if (mode.equals("oneway")) {
            for (Message message : messages) {
                producer.sendOneway(message);
            }
            return "";
        }
        CountDownLatch answered = new CountDownLatch(messages.size());
        List<Object> results = Collections.synchronizedList(new ArrayList<>());
        for (Message message : messages) {
            producer.send(message, new SendCallback() {
                @Override public void onSuccess(SendResult result) {
                    results.add(result.getMsgId() + "\t" + result.getOffsetMsgId());
                    answered.countDown();
                }

                @Override public void onException(Throwable error) {
                    results.add(error);
                    answered.countDown();
                }
            });
        }
        if (!answered.await(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("only " + results.size() + " of " + messages.size() + " were answered");
        }
        for (Object result : results) {
            if (result instanceof Throwable) {
                throw new IllegalStateException((Throwable) result);
            }
        }
        return results.get(results.size() - 1).toString();
    }

    /** id, group, topic, [expr], [orderly], [from=first|last], [stuck=prefix], [fail=prefix], [broadcast], [pop] (5.x, with setConsumeMode), [batch], [threads], [sql], [trace], [collect], [max=reconsume times], [instance], [strategy=class], [queues=of ByConfig], [rooms=of ByMachineRoom], [routes=ms between questions for routes], [heartbeat=ms between heartbeats], [also=second topic], [each=ms a message takes], [raise=prefix], [nothing=prefix], [timeout=consumeTimeout in min], [spans=file for when it worked on what], [once: what is retried does not get stuck]. */
    private static String consume(Map<String, String> options) throws Exception {
        Consumer consumer = new Consumer();
        DefaultMQPushConsumer push = new DefaultMQPushConsumer(
            options.get("group"), signer, strategy(options), options.containsKey("trace"), null);
        push.setNamesrvAddr(namesrv);
        push.setConsumeFromWhere("last".equals(options.get("from"))
            ? ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET : ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (options.containsKey("broadcast")) {
            setBroadcasting(push);
        }
        if (options.containsKey("pop")) {
            push.getClass().getMethod("setClientRebalance", boolean.class).invoke(push, false);
        }
        if (options.containsKey("batch")) {
            push.setConsumeMessageBatchMaxSize(Integer.parseInt(options.get("batch")));
        }
        if (options.containsKey("threads")) {
            push.setConsumeThreadMin(Integer.parseInt(options.get("threads")));
            push.setConsumeThreadMax(Integer.parseInt(options.get("threads")));
        }
        if (options.containsKey("max")) {
            push.setMaxReconsumeTimes(Integer.parseInt(options.get("max")));
        }
        if (options.containsKey("instance")) {
            push.setInstanceName(options.get("instance"));
        }
        if (options.containsKey("ip")) {
            push.setClientIP(options.get("ip"));
        }
        if (options.containsKey("routes")) {
            push.setPollNameServerInterval(Integer.parseInt(options.get("routes")));
        }
        if (options.containsKey("heartbeat")) {
            push.setHeartbeatBrokerInterval(Integer.parseInt(options.get("heartbeat")));
        }
        if (options.containsKey("timeout")) {
            push.setConsumeTimeout(Long.parseLong(options.get("timeout")));
        }
        if (options.containsKey("collect")) {
            consumer.bodies = Collections.synchronizedList(new ArrayList<>());
        }
        if (options.containsKey("sql")) {
            push.subscribe(options.get("topic"), MessageSelector.bySql(options.get("sql")));
        } else {
            push.subscribe(options.get("topic"), options.getOrDefault("expr", "*"));
        }
        if (options.containsKey("also")) {
            push.subscribe(options.get("also"), "*");
        }
        if (options.containsKey("spans")) {
            consumer.spans = new PrintStream(new java.io.FileOutputStream(options.get("spans")), true);
        }
        consumer.eachMs = Long.parseLong(options.getOrDefault("each", "0"));
        consumer.stuckPrefix = options.get("stuck");
        consumer.isStuckOnce = options.containsKey("once");
        consumer.raisePrefix = options.get("raise");
        consumer.nullPrefix = options.get("nothing");
        String failing = options.get("fail");
        if (options.containsKey("orderly")) {
            push.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                handle(consumer, messages, failing)
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            push.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                handle(consumer, messages, failing) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : begins(messages, consumer.nullPrefix) ? null : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        push.start();
        consumer.push = push;
        CONSUMERS.put(options.get("id"), consumer);
        return push.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
    }

    private static AllocateMessageQueueStrategy strategy(Map<String, String> options) throws Exception {
        String name = options.getOrDefault("strategy", "AllocateMessageQueueAveragely");
        switch (name) {
            case "AllocateMachineRoomNearby": return nearby();
            case "AllocateMessageQueueByConfig": {
                AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
                byConfig.setMessageQueueList(new ArrayList<>());
                for (String queue : options.get("queues").split(",")) {
                    String[] parts = queue.split(":");
                    byConfig.getMessageQueueList().add(
                        new MessageQueue(options.get("topic"), parts[0], Integer.parseInt(parts[1])));
                }
                return byConfig;
            }
            case "AllocateMessageQueueByMachineRoom": {
                AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                byRoom.setConsumeridcs(new HashSet<>(Arrays.asList(options.get("rooms").split(","))));
                return byRoom;
            }
            default: return (AllocateMessageQueueStrategy) Class
                .forName("org.apache.rocketmq.client.consumer.rebalance." + name).getDeclaredConstructor().newInstance();
        }
    }

    /** Rooms are what stands behind the last sign of a broker's name (broker-a) and of an instance's (name.a). */
    private static AllocateMessageQueueStrategy nearby() {
        return new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(),
            new AllocateMachineRoomNearby.MachineRoomResolver() {
                @Override
                public String brokerDeployIn(MessageQueue queue) {
                    return queue.getBrokerName().substring(queue.getBrokerName().lastIndexOf('-') + 1);
                }

                @Override
                public String consumerDeployIn(String clientId) {
                    String instance = clientId.split("@")[1];
                    return instance.substring(instance.lastIndexOf('.') + 1);
                }
            });
    }

    /** What a consumer does by itself every 30 s (ask for routes) and every 20 s (share). */
    private static void rebalance(DefaultMQPushConsumer push) throws Exception {
        push.getDefaultMQPushConsumerImpl().getmQClientFactory().updateTopicRouteInfoFromNameServer();
        push.getDefaultMQPushConsumerImpl().getmQClientFactory().rebalanceImmediately();
    }

    /** MessageModel moved to another package in 5.x, so one source for both versions has to find it by its value. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void setBroadcasting(DefaultMQPushConsumer push) throws Exception {
        Class type = push.getMessageModel().getDeclaringClass();
        push.getClass().getMethod("setMessageModel", type).invoke(push, Enum.valueOf(type, "BROADCASTING"));
    }

    /** A consumer without a listener, for those that pull: what they read is counted and kept in the same way. */
    static Consumer collecting(String stuckPrefix) {
        Consumer consumer = new Consumer();
        consumer.stuckPrefix = stuckPrefix;
        consumer.bodies = Collections.synchronizedList(new ArrayList<>());
        return consumer;
    }

    private static boolean begins(List<MessageExt> messages, String prefix) {
        return prefix != null && messages.stream()
            .anyMatch(message -> new String(message.getBody(), StandardCharsets.UTF_8).startsWith(prefix));
    }

    /** group, topic, client: client id, broker:queue and offset a row, as Java's tools read the broker's answer (223). */
    private static String consumeStatus(Map<String, String> options) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(signer);
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName(Long.toString(System.nanoTime()));
        admin.start();
        try {
            List<String> rows = new ArrayList<>();
            admin.getConsumeStatus(options.get("topic"), options.get("group"), options.getOrDefault("client", ""))
                .forEach((client, offsets) -> offsets.forEach((queue, offset) -> rows.add(String.join("\t", client,
                    queue.getBrokerName() + ":" + queue.getQueueId(), offset.toString()))));
            Collections.sort(rows);
            return String.join("\n", rows);
        } finally {
            admin.shutdown();
        }
    }

    static boolean handle(Consumer consumer, List<MessageExt> messages, String failing) {
        consumer.started.addAndGet(messages.size());
        for (MessageExt message : messages) {
            long beganNs = System.nanoTime();
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            if (consumer.bodies != null) {
                consumer.attempts.add(String.join("\t", body, String.valueOf(message.getReconsumeTimes()),
                    message.getBrokerName() + ":" + message.getQueueId(),
                    String.valueOf(System.currentTimeMillis() - message.getBornTimestamp())));
                consumer.read.add(String.join("\t", message.getMsgId(), message.getTopic(), String.valueOf(message.getTags()),
                    String.valueOf(message.getKeys()), new java.util.TreeMap<>(message.getProperties()).toString()));
            }
            String stuck = consumer.stuckPrefix;
            try {
                if (consumer.eachMs > 0) {
                    Thread.sleep(consumer.eachMs);
                }
                boolean passes = consumer.isStuckOnce && message.getReconsumeTimes() > 0;
                if (stuck != null && body.startsWith(stuck) && !passes) {
                    consumer.gate.await();
                }
            } catch (InterruptedException e) {
                return false;
            }
            if (consumer.raisePrefix != null && body.startsWith(consumer.raisePrefix)) {
                throw new IllegalStateException("raised at " + body);
            }
            if (failing != null && body.startsWith(failing) || begins(Arrays.asList(message), consumer.nullPrefix)) {
                return false;
            }
            if (consumer.spans != null) {
                consumer.spans.println(String.join("\t", message.getBrokerName() + ":" + message.getQueueId(),
                    String.valueOf(message.getQueueOffset()), String.valueOf(beganNs), String.valueOf(System.nanoTime())));
            }
        }
        if (consumer.bodies != null) {
            messages.forEach(message -> consumer.bodies.add(new String(message.getBody(), StandardCharsets.UTF_8)));
        }
        consumer.consumed.addAndGet(messages.size());
        return true;
    }
}
