import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Times RocketMQ's own strategies: each client calls allocate once, with all queues and all ids, as clients do.
 * Arguments: a file of sorted queues (topic, broker, id by tab), one of sorted ids, a file for the shares, and cases such
 * as AVG:1000:20: the first 1000 ids are the group, and 20 of them, evenly spread, are asked. Prints "case, seconds" a
 * line; the file gets "case, client id, the queues' numbers in the list" a line.
 */
public class AllocateBench {
    private AllocateBench() {
    }

    public static void main(String[] args) throws Exception {
        List<MessageQueue> queues = new ArrayList<>();
        Map<MessageQueue, Integer> numbers = new LinkedHashMap<>();
        for (String line : Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8)) {
            String[] parts = line.split("\t");
            MessageQueue queue = new MessageQueue(parts[0], parts[1], Integer.parseInt(parts[2]));
            numbers.put(queue, queues.size());
            queues.add(queue);
        }
        List<String> ids = Files.readAllLines(Paths.get(args[1]), StandardCharsets.UTF_8);
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(Paths.get(args[2]), StandardCharsets.UTF_8))) {
            for (int i = 3; i < args.length; i++) {
                String[] parts = args[i].split(":");
                List<String> group = ids.subList(0, Integer.parseInt(parts[1]));
                measure(args[i], strategy(parts[0]), Integer.parseInt(parts[2]), queues, numbers, group, out);
            }
        }
    }

    private static AllocateMessageQueueStrategy strategy(String name) {
        switch (name) {
            case "AVG": return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE": return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH": return new AllocateMessageQueueConsistentHash();
            default: throw new IllegalArgumentException("unknown strategy " + name);
        }
    }

    private static void measure(String name, AllocateMessageQueueStrategy strategy, int count, List<MessageQueue> queues,
        Map<MessageQueue, Integer> numbers, List<String> ids, PrintWriter out) {
        List<String> asked = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            asked.add(ids.get((int) ((long) i * ids.size() / count)));
        }
        // What is compiled on the way shall not count.
        for (String id : asked.subList(0, count / 10)) {
            strategy.allocate("Group", id, queues, ids);
        }
        List<List<MessageQueue>> shares = new ArrayList<>(count);
        long startedAt = System.nanoTime();
        for (String id : asked) {
            shares.add(strategy.allocate("Group", id, queues, ids));
        }
        double seconds = (System.nanoTime() - startedAt) / 1e9;
        System.out.println(name + "\t" + seconds);
        for (int i = 0; i < count; i++) {
            StringBuilder line = new StringBuilder();
            for (MessageQueue queue : shares.get(i)) {
                line.append(line.length() == 0 ? "" : " ").append(numbers.get(queue));
            }
            out.println(name + "\t" + asked.get(i) + "\t" + line);
        }
    }
}
