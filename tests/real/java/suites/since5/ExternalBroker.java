package org.apache.rocketmq.test.base;

import java.lang.reflect.Field;
import java.util.Properties;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.broker.out.BrokerOuterAPI;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.OffsetWrapper;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import sun.misc.Unsafe;

/** What tests read from a broker in their own process, asked of one elsewhere; its settings are changed there too. */
final class ExternalBroker extends BrokerController {
    private static final long TIMEOUT_MS = 10_000;
    private String address;
    private Config config;
    private StoreConfig storeConfig;
    private Store store;
    private Topics topics;
    private Offsets offsets;
    private Outer outer;

    private ExternalBroker() {
        super(null, null, null, null);
    }

    static ExternalBroker at(String name, String address, DefaultMQAdminExt admin) throws Exception {
        Asking asking = new Asking(name, address, admin);
        ExternalBroker broker = bare(ExternalBroker.class);
        broker.address = address;
        broker.config = new Config(asking);
        broker.config.setBrokerName(name);
        broker.config.restore();
        broker.storeConfig = new StoreConfig(asking);
        broker.store = bare(Store.class);
        broker.store.asking = asking;
        broker.topics = bare(Topics.class);
        broker.topics.asking = asking;
        broker.offsets = bare(Offsets.class);
        broker.offsets.asking = asking;
        broker.outer = bare(Outer.class);
        return broker;
    }

    /** Their constructors open files and start threads. */
    private static <T> T bare(Class<T> type) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return type.cast(((Unsafe) field.get(null)).allocateInstance(type));
    }

    @Override
    public String getBrokerAddr() {
        return address;
    }

    @Override
    public BrokerConfig getBrokerConfig() {
        return config;
    }

    @Override
    public MessageStore getMessageStore() {
        return store;
    }

    @Override
    public MessageStoreConfig getMessageStoreConfig() {
        return storeConfig;
    }

    @Override
    public TopicConfigManager getTopicConfigManager() {
        return topics;
    }

    @Override
    public ConsumerOffsetManager getConsumerOffsetManager() {
        return offsets;
    }

    @Override
    public BrokerOuterAPI getBrokerOuterAPI() {
        return outer;
    }

    private static final class Outer extends BrokerOuterAPI {
        private Outer() {
            super(null, null);
        }

        @Override
        public void refreshMetadata() {
        }
    }

    private static final class Asking {
        final String name;
        final String address;
        final DefaultMQAdminExt admin;

        Asking(String name, String address, DefaultMQAdminExt admin) {
            this.name = name;
            this.address = address;
            this.admin = admin;
        }

        MQClientAPIImpl api() {
            return admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl();
        }

        void change(String setting, Object value) {
            Properties changed = new Properties();
            changed.setProperty(setting, String.valueOf(value));
            unchecked(() -> {
                try {
                    admin.updateBrokerConfig(address, changed);
                } catch (MQBrokerException e) {
                    // Switches between two ways of a real broker to do the same.
                    if (!e.getErrorMessage().contains("[sandbox]")) {
                        throw e;
                    }
                }
                return null;
            });
        }
    }

    private interface Request<T> {
        T ask() throws Exception;
    }

    private static <T> T unchecked(Request<T> request) {
        try {
            return request.ask();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private static final class Config extends BrokerConfig {
        private final Asking asking;

        Config(Asking asking) {
            this.asking = asking;
        }

        /** A class that was run before may have changed them. */
        void restore() {
            BrokerConfig defaults = new BrokerConfig();
            setEnableNotifyAfterPopOrderLockRelease(defaults.isEnableNotifyAfterPopOrderLockRelease());
            setEnablePopBufferMerge(defaults.isEnablePopBufferMerge());
            setLongPollingEnable(defaults.isLongPollingEnable());
            setShortPollingTimeMills(defaults.getShortPollingTimeMills());
            setUseServerSideResetOffset(defaults.isUseServerSideResetOffset());
            setEnableSingleTopicRegister(defaults.isEnableSingleTopicRegister());
            setEnableSplitRegistration(defaults.isEnableSplitRegistration());
            setPopConsumerKVServiceEnable(defaults.isPopConsumerKVServiceEnable());
            setPopFromRetryProbabilityForPriority(defaults.getPopFromRetryProbabilityForPriority());
            setPriorityOrderAsc(defaults.isPriorityOrderAsc());
            setUseSeparateRetryQueue(defaults.isUseSeparateRetryQueue());
        }

        @Override
        public void setEnableNotifyAfterPopOrderLockRelease(boolean value) {
            super.setEnableNotifyAfterPopOrderLockRelease(value);
            asking.change("enableNotifyAfterPopOrderLockRelease", value);
        }

        @Override
        public void setEnablePopBufferMerge(boolean value) {
            super.setEnablePopBufferMerge(value);
            asking.change("enablePopBufferMerge", value);
        }

        @Override
        public void setLongPollingEnable(boolean value) {
            super.setLongPollingEnable(value);
            asking.change("longPollingEnable", value);
        }

        @Override
        public void setShortPollingTimeMills(long value) {
            super.setShortPollingTimeMills(value);
            asking.change("shortPollingTimeMills", value);
        }

        @Override
        public void setUseServerSideResetOffset(boolean value) {
            super.setUseServerSideResetOffset(value);
            asking.change("useServerSideResetOffset", value);
        }

        @Override
        public void setEnableSingleTopicRegister(boolean value) {
            super.setEnableSingleTopicRegister(value);
            asking.change("enableSingleTopicRegister", value);
        }

        @Override
        public void setEnableSplitRegistration(boolean value) {
            super.setEnableSplitRegistration(value);
            asking.change("enableSplitRegistration", value);
        }

        @Override
        public void setPopConsumerKVServiceEnable(boolean value) {
            super.setPopConsumerKVServiceEnable(value);
            asking.change("popConsumerKVServiceEnable", value);
        }

        @Override
        public void setPopFromRetryProbabilityForPriority(int value) {
            super.setPopFromRetryProbabilityForPriority(value);
            asking.change("popFromRetryProbabilityForPriority", value);
        }

        @Override
        public void setPriorityOrderAsc(boolean value) {
            super.setPriorityOrderAsc(value);
            asking.change("priorityOrderAsc", value);
        }

        @Override
        public void setUseSeparateRetryQueue(boolean value) {
            super.setUseSeparateRetryQueue(value);
            asking.change("useSeparateRetryQueue", value);
        }
    }

    private static final class StoreConfig extends MessageStoreConfig {
        private final Asking asking;

        StoreConfig(Asking asking) {
            this.asking = asking;
            setAppendTopicForTimerDeleteKey(isAppendTopicForTimerDeleteKey());
        }

        @Override
        public void setAppendTopicForTimerDeleteKey(boolean value) {
            super.setAppendTopicForTimerDeleteKey(value);
            asking.change("appendTopicForTimerDeleteKey", value);
        }
    }

    private static final class Store extends DefaultMessageStore {
        private Asking asking;

        private Store() throws Exception {
            super(null, null, null, null, null);
        }

        @Override
        public long getMinOffsetInQueue(String topic, int queueId) {
            return unchecked(() -> asking.api().getMinOffset(
                asking.address, new MessageQueue(topic, asking.name, queueId), TIMEOUT_MS));
        }

        @Override
        public long getMaxOffsetInQueue(String topic, int queueId) {
            return unchecked(() -> asking.api().getMaxOffset(
                asking.address, new MessageQueue(topic, asking.name, queueId), TIMEOUT_MS));
        }

        @Override
        public long dispatchBehindBytes() {
            return unchecked(() -> Long.parseLong(
                asking.admin.fetchBrokerRuntimeStats(asking.address).getTable().get("dispatchBehindBytes")));
        }
    }

    private static final class Topics extends TopicConfigManager {
        private Asking asking;

        @Override
        public ConcurrentMap<String, TopicConfig> getTopicConfigTable() {
            return unchecked(() -> asking.admin.getAllTopicConfig(asking.address, TIMEOUT_MS).getTopicConfigTable());
        }
    }

    private static final class Offsets extends ConsumerOffsetManager {
        private Asking asking;

        private OffsetWrapper progress(String group, String topic, int queueId) {
            return unchecked(() -> asking.api().getConsumeStats(asking.address, group, topic, TIMEOUT_MS)
                .getOffsetTable().get(new MessageQueue(topic, asking.name, queueId)));
        }

        @Override
        public long queryOffset(String group, String topic, int queueId) {
            return progress(group, topic, queueId).getConsumerOffset();
        }

        @Override
        public long queryPullOffset(String group, String topic, int queueId) {
            return progress(group, topic, queueId).getPullOffset();
        }
    }
}
