import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Sends messages of 1 KiB in one of the ways that a Java program would, and prints how many seconds that took. */
class SendBench {
    private static final int BATCH = 100;
    /** More of them wait longer at the broker than it lets them (waitTimeMillsInSendQueue). */
    private static final int MOST_IN_FLIGHT = 512;

    private SendBench() {
    }

    /**
     * Arguments: name server, mode, topic, count, group. "letters" fills a dead-letter topic by batches, "batch" sends
     * batches, "async" sends to a retry topic one by one without waiting for answers; "direct" has a consumer of the
     * group consume dead letters, one after the other, as the Dashboard does it (DlqMessageService.batchResend).
     */
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[3]);
        double seconds;
        if (args[1].equals("direct")) {
            seconds = consumeDirectly(args[0], args[2], args[4], count);
        } else {
            DefaultMQProducer producer = new DefaultMQProducer("bench");
            producer.setNamesrvAddr(args[0]);
            producer.start();
            seconds = args[1].equals("async") ? sendAsync(producer, args[2], count)
                : sendBatches(producer, args[2], count, args[1].equals("letters"));
            producer.shutdown();
        }
        System.out.printf("%.4f%n", seconds);
        System.exit(0);
    }

    private static Message message(String topic, int number, boolean isLetter) {
        byte[] body = new byte[1024];
        Arrays.fill(body, (byte) 'x');
        byte[] start = ("{\"order\": " + number + "} ").getBytes(StandardCharsets.UTF_8);
        System.arraycopy(start, 0, body, 0, start.length);
        Message message = new Message(topic, "paid", "order-" + number, body);
        if (isLetter) {
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_RETRY_TOPIC, "BenchOrders");
            MessageAccessor.putProperty(message, "DLQ_ORIGIN_TOPIC", "BenchOrders");
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_ORIGIN_MESSAGE_ID,
                "7F0000010000277100000000000" + (10000 + number % 10000));
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_MAX_RECONSUME_TIMES, "16");
        }
        return message;
    }

    private static double sendBatches(DefaultMQProducer producer, String topic, int count, boolean areLetters)
        throws Exception {
        long start = System.nanoTime();
        for (int number = 0; number < count; number += BATCH) {
            List<Message> batch = new ArrayList<>();
            for (int i = number; i < Math.min(number + BATCH, count); i++) {
                batch.add(message(topic, i, areLetters));
            }
            producer.send(batch);
        }
        return (System.nanoTime() - start) / 1e9;
    }

    private static double sendAsync(DefaultMQProducer producer, String topic, int count) throws Exception {
        Semaphore free = new Semaphore(MOST_IN_FLIGHT);
        AtomicReference<Throwable> failed = new AtomicReference<>();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                free.release();
            }

            @Override
            public void onException(Throwable e) {
                failed.set(e);
                free.release();
            }
        };
        long start = System.nanoTime();
        for (int number = 0; number < count; number++) {
            free.acquire();
            producer.send(message(topic, number, true), callback);
        }
        free.acquire(MOST_IN_FLIGHT);
        if (failed.get() != null) {
            throw new IllegalStateException(failed.get());
        }
        return (System.nanoTime() - start) / 1e9;
    }

    private static double consumeDirectly(String namesrv, String topic, String group, int count) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.subscribe("BenchOrders", "*");
        consumer.registerMessageListener(
            (MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(namesrv);
        admin.start();
        String clientId = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        DefaultMQPullConsumer reader = new DefaultMQPullConsumer("bench-reader");
        reader.setNamesrvAddr(namesrv);
        reader.start();
        List<String> ids = new ArrayList<>();
        for (MessageQueue queue : reader.fetchSubscribeMessageQueues(topic)) {
            for (long offset = 0; ids.size() < count; ) {
                PullResult found = reader.pull(queue, "*", offset, 32);
                if (found.getMsgFoundList() == null) {
                    break;
                }
                for (MessageExt message : found.getMsgFoundList()) {
                    ids.add(message.getMsgId());
                }
                offset = found.getNextBeginOffset();
            }
        }
        long start = System.nanoTime();
        for (String id : ids.subList(0, count)) {
            admin.consumeMessageDirectly(group, clientId, topic, id);
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        admin.shutdown();
        reader.shutdown();
        consumer.shutdown();
        return seconds;
    }
}
