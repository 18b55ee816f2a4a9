import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Producers of transactions, and both sides of request and reply. */
final class TransactBench {
    private static final Map<String, Transactions> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<String, Runnable> REPLIERS = new ConcurrentHashMap<>();

    private TransactBench() {
    }

    private static final class Transactions implements TransactionListener {
        TransactionMQProducer producer;
        volatile LocalTransactionState local;
        volatile LocalTransactionState check;
        /** Body and number of checks of each half message that a broker asked about, in that order. */
        final List<String> checked = Collections.synchronizedList(new ArrayList<>());

        @Override public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return local;
        }

        @Override public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            checked.add(body + "\t" + message.getProperty("TRANSACTION_CHECK_TIMES"));
            return check;
        }
    }

    /** id, group, topic, count, [prefix], local and check=commit|rollback|unknown, [key]: a row of ids for each message. */
    static String send(String namesrv, Map<String, String> options) throws Exception {
        Transactions ours = PRODUCERS.get(options.get("id"));
        if (ours == null) {
            ours = new Transactions();
            ours.producer = new TransactionMQProducer(options.get("group"));
            ours.producer.setNamesrvAddr(namesrv);
            ours.producer.setInstanceName(options.get("id"));
            ours.producer.setHeartbeatBrokerInterval(1000);
            ours.producer.setTransactionListener(ours);
            ours.producer.start();
            PRODUCERS.put(options.get("id"), ours);
        }
        ours.local = state(options.get("local"));
        ours.check = state(options.getOrDefault("check", "unknown"));
        List<String> rows = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(options.get("count")); i++) {
            String body = options.getOrDefault("prefix", "m") + i;
            Message message = new Message(options.get("topic"), body.getBytes(StandardCharsets.UTF_8));
            if (options.containsKey("key")) {
                message.setKeys(options.get("key"));
            }
            SendResult result = ours.producer.sendMessageInTransaction(message, null);
            rows.add(result.getMsgId() + "\t" + result.getOffsetMsgId());
        }
        return String.join("\n", rows);
    }

    private static LocalTransactionState state(String name) {
        switch (name) {
            case "commit": return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
            default: return LocalTransactionState.UNKNOW;
        }
    }

    static String checked(Map<String, String> options) {
        List<String> checked = PRODUCERS.get(options.get("id")).checked;
        synchronized (checked) {
            return String.join("\n", checked);
        }
    }

    /** id, group, topic: answers each request with "re:" and its body. */
    static String reply(String namesrv, Map<String, String> options) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(options.get("group") + "-replies");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(options.get("id"));
        producer.start();
        DefaultMQPushConsumer push = new DefaultMQPushConsumer(options.get("group"));
        push.setNamesrvAddr(namesrv);
        push.setInstanceName(options.get("id"));
        push.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        push.subscribe(options.get("topic"), "*");
        push.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = "re:" + new String(message.getBody(), StandardCharsets.UTF_8);
                try {
                    producer.send(MessageUtil.createReplyMessage(message, body.getBytes(StandardCharsets.UTF_8)));
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        push.start();
        REPLIERS.put(options.get("id"), () -> {
            push.shutdown();
            producer.shutdown();
        });
        return "";
    }

    /** id, topic, count: sends requests one after the other; the bodies of what came back. */
    static String request(String namesrv, Map<String, String> options) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(options.get("id"));
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(options.get("id"));
        producer.start();
        try {
            List<String> bodies = new ArrayList<>();
            for (int i = 0; i < Integer.parseInt(options.get("count")); i++) {
                Message request = new Message(options.get("topic"), ("q" + i).getBytes(StandardCharsets.UTF_8));
                bodies.add(new String(producer.request(request, 20000).getBody(), StandardCharsets.UTF_8));
            }
            return String.join(",", bodies);
        } finally {
            producer.shutdown();
        }
    }

    static boolean stop(String id) {
        Transactions ours = PRODUCERS.remove(id);
        Runnable replier = REPLIERS.remove(id);
        if (ours != null) {
            ours.producer.shutdown();
        }
        if (replier != null) {
            replier.run();
        }
        return ours != null || replier != null;
    }
}
