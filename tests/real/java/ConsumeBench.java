import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Consumes so many messages of a topic, and says how long that took from the first one on, what CPU time the process
 * used meanwhile, and how old messages were when the listener got them: "seconds cpuSeconds p50Ms p99Ms".
 */
class ConsumeBench {
    private ConsumeBench() {
    }

    /** Arguments: name server, group, topic, batch, count, [orderly]. */
    public static void main(String[] args) throws Exception {
        long count = Long.parseLong(args[4]);
        AtomicLong seen = new AtomicLong();
        AtomicLong firstNs = new AtomicLong();
        AtomicLong firstCpuNs = new AtomicLong();
        int[] agesMs = new int[(int) count];
        CountDownLatch all = new CountDownLatch(1);
        com.sun.management.OperatingSystemMXBean system =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        DefaultMQPushConsumer push = new DefaultMQPushConsumer(args[1]);
        push.setNamesrvAddr(args[0]);
        push.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        push.setConsumeMessageBatchMaxSize(Integer.parseInt(args[3]));
        push.subscribe(args[2], "*");
        Consumer<List<MessageExt>> listen = messages -> {
            if (firstNs.compareAndSet(0, System.nanoTime())) {
                firstCpuNs.set(system.getProcessCpuTime());
            }
            long now = System.currentTimeMillis();
            long before = seen.getAndAdd(messages.size());
            for (MessageExt message : messages) {
                if (before < count) {
                    agesMs[(int) before++] = (int) (now - message.getBornTimestamp());
                }
            }
            if (before >= count) {
                all.countDown();
            }
        };
        if (args.length > 5) {
            push.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                listen.accept(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            push.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                listen.accept(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        push.start();
        System.out.println("started");
        all.await();
        double seconds = (System.nanoTime() - firstNs.get()) / 1e9;
        double cpuSeconds = (system.getProcessCpuTime() - firstCpuNs.get()) / 1e9;
        Arrays.sort(agesMs);
        System.out.printf("%.4f %.4f %d %d%n", seconds, cpuSeconds, agesMs[(int) (count / 2)],
            agesMs[(int) (count * 99 / 100)]);
        push.shutdown();
        System.exit(0);
    }
}
