import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask for messages themselves, for Workbench. */
class PullBench {
    private static final Map<String, DefaultLitePullConsumer> LITE = new ConcurrentHashMap<>();
    /** How to end those that run by themselves. */
    private static final Map<String, Runnable> RUNNING = new ConcurrentHashMap<>();

    private PullBench() {
    }

    /** id, group, topic, [expr], [assign]: from the first message on, unless the group has an offset. */
    static String start(String namesrv, Map<String, String> options) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(options.get("group"));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (options.containsKey("assign")) {
            consumer.start();
            consumer.assign(consumer.fetchMessageQueues(options.get("topic")));
        } else {
            consumer.subscribe(options.get("topic"), options.getOrDefault("expr", "*"));
            consumer.start();
        }
        LITE.put(options.get("id"), consumer);
        return "";
    }

    /** id, count: polls for that many messages or 20 s; answers their bodies. */
    static String poll(Map<String, String> options) {
        DefaultLitePullConsumer consumer = LITE.get(options.get("id"));
        int count = Integer.parseInt(options.get("count"));
        List<String> bodies = new ArrayList<>();
        long giveUpAt = System.currentTimeMillis() + 20000;
        while (bodies.size() < count && System.currentTimeMillis() < giveUpAt) {
            for (MessageExt message : consumer.poll(200)) {
                bodies.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
        }
        return String.join(",", bodies);
    }

    /** id, [stuck=prefix]: has a lite consumer poll by itself from now on, as a program would. */
    static Workbench.Consumer pollOn(Map<String, String> options) {
        DefaultLitePullConsumer lite = LITE.remove(options.get("id"));
        Workbench.Consumer consumer = Workbench.collecting(options.get("stuck"));
        Thread thread = new Thread(() -> {
            while (lite.isRunning()) {
                Workbench.handle(consumer, lite.poll(200), null);
            }
        });
        thread.setDaemon(true);
        thread.start();
        RUNNING.put(options.get("id"), lite::shutdown);
        return consumer;
    }

    /**
     * id, group, topic, [keeps]: a DefaultMQPullConsumer in a group like others, with a thread a queue that keeps its
     * position by itself: always where the broker's answer leads, or with keeps only from messages to messages.
     */
    @SuppressWarnings("deprecation")
    static Workbench.Consumer pullOn(String namesrv, Map<String, String> options) throws Exception {
        DefaultMQPullConsumer pull = new DefaultMQPullConsumer(options.get("group"));
        pull.setNamesrvAddr(namesrv);
        pull.setRegisterTopics(Collections.singleton(options.get("topic")));
        pull.start();
        Workbench.Consumer consumer = Workbench.collecting(null);
        List<Thread> threads = new ArrayList<>();
        for (MessageQueue queue : pull.fetchSubscribeMessageQueues(options.get("topic"))) {
            Thread thread = new Thread(() -> pullQueue(pull, queue, consumer, options.containsKey("keeps")));
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        RUNNING.put(options.get("id"), () -> {
            threads.forEach(Thread::interrupt);
            pull.shutdown();
        });
        return consumer;
    }

    @SuppressWarnings("deprecation")
    private static void pullQueue(DefaultMQPullConsumer pull, MessageQueue queue, Workbench.Consumer consumer, boolean keeps) {
        try {
            long position = Math.max(0, pull.fetchConsumeOffset(queue, true));
            while (!Thread.currentThread().isInterrupted()) {
                PullResult result = pull.pullBlockIfNotFound(queue, "*", position, 32);
                boolean found = result.getPullStatus() == PullStatus.FOUND;
                if (found) {
                    Workbench.handle(consumer, result.getMsgFoundList(), null);
                }
                if (found || !keeps) {
                    position = result.getNextBeginOffset();
                }
                pull.updateConsumeOffset(queue, position);
            }
        } catch (Exception e) {
            if (!Thread.currentThread().isInterrupted()) {
                e.printStackTrace();
            }
        }
    }

    /** id: has the consumer send its offsets now, and forgets it. */
    static boolean stop(String id) {
        Runnable end = RUNNING.remove(id);
        if (end != null) {
            end.run();
            return true;
        }
        DefaultLitePullConsumer consumer = LITE.remove(id);
        if (consumer == null) {
            return false;
        }
        consumer.commitSync();
        consumer.shutdown();
        return true;
    }

    /** group, topic, [expr]: what DefaultMQPullConsumer reads of all queues from the group's offsets on, and commits. */
    @SuppressWarnings("deprecation")
    static String pullAll(String namesrv, Map<String, String> options) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(options.get("group"));
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        List<String> bodies = new ArrayList<>();
        try {
            Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(options.get("topic"));
            for (MessageQueue queue : queues) {
                long offset = Math.max(0, consumer.fetchConsumeOffset(queue, true));
                while (true) {
                    PullResult result = consumer.pull(queue, options.getOrDefault("expr", "*"), offset, 32);
                    offset = result.getNextBeginOffset();
                    for (MessageExt message : result.getPullStatus() == PullStatus.FOUND
                        ? result.getMsgFoundList() : Collections.<MessageExt>emptyList()) {
                        bodies.add(new String(message.getBody(), StandardCharsets.UTF_8));
                    }
                    if (result.getPullStatus() == PullStatus.NO_NEW_MSG) {
                        break;
                    }
                }
                consumer.updateConsumeOffset(queue, offset);
            }
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persistAll(new HashSet<>(queues));
        } finally {
            consumer.shutdown();
        }
        return String.join(",", bodies);
    }
}
