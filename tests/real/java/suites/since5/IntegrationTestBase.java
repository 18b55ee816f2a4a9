package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.TopicAttributes;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.attribute.TopicMessageType;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.test.util.MQAdminTestUtils;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Stands in for the suites' own class: the servers that it would start run elsewhere, at -Dsuite.namesrv. */
public class IntegrationTestBase {
    private static final String NAME_SERVER = System.getProperty("suite.namesrv");
    private static final int TOPIC_CREATE_TIME_S = 30;
    private static final Iterator<BrokerController> BROKERS = brokers().iterator();

    /** Never started: BaseConf reads its port. */
    public static NamesrvController createAndStartNamesrv() {
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(Integer.parseInt(NAME_SERVER.split(":")[1]));
        return new NamesrvController(new NamesrvConfig(), server);
    }

    public static BrokerController createAndStartBroker(String nsAddr) {
        return BROKERS.next();
    }

    private static List<BrokerController> brokers() {
        List<BrokerController> brokers = new ArrayList<>();
        DefaultMQAdminExt admin = new DefaultMQAdminExt(10_000);
        admin.setInstanceName("suite");
        admin.setNamesrvAddr(NAME_SERVER);
        try {
            admin.start();
            for (BrokerData broker : new TreeMap<>(admin.examineBrokerClusterInfo().getBrokerAddrTable()).values()) {
                brokers.add(ExternalBroker.at(broker.getBrokerName(), broker.selectBrokerAddr(), admin));
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        return brokers;
    }

    public static boolean initTopic(String topic, String nsAddr, String clusterName, int queueNumbers, CQType cqType) {
        return initTopic(topic, nsAddr, clusterName, queueNumbers, cqType, TopicMessageType.NORMAL);
    }

    public static boolean initTopic(String topic, String nsAddr, String clusterName, int queueNumbers,
        CQType cqType, TopicMessageType messageType) {
        Map<String, String> attributes = new HashMap<>();
        if (cqType != CQType.SimpleCQ) {
            attributes.put("+" + TopicAttributes.QUEUE_TYPE_ATTRIBUTE.getName(), cqType.toString());
        }
        if (messageType != TopicMessageType.NORMAL) {
            attributes.put("+" + TopicAttributes.TOPIC_MESSAGE_TYPE_ATTRIBUTE.getName(), messageType.toString());
        }
        return MQAdminTestUtils.createTopic(nsAddr, clusterName, topic, queueNumbers, attributes, TOPIC_CREATE_TIME_S);
    }

    public static boolean initTopic(String topic, String nsAddr, String clusterName, CQType cqType) {
        return initTopic(topic, nsAddr, clusterName, BaseConf.QUEUE_NUMBERS, cqType);
    }

    public static boolean initTopic(String topic, String nsAddr, String clusterName, TopicMessageType messageType) {
        return initTopic(topic, nsAddr, clusterName, BaseConf.QUEUE_NUMBERS, CQType.SimpleCQ, messageType);
    }

    public static void initMQAdmin(String nsAddr) {
        try {
            MQAdminTestUtils.startAdmin(nsAddr);
        } catch (MQClientException e) {
            throw new IllegalStateException(e);
        }
    }
}
