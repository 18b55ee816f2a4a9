package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.test.util.MQAdmin;

/** Stands in for the suites' own class: the servers that it would start run elsewhere, at -Dsuite.namesrv. */
public class IntegrationTestBase {
    private static final String NAME_SERVER = System.getProperty("suite.namesrv");
    private static final int TOPIC_CREATE_TIME_S = 30;
    private static Iterator<String> brokerNames;

    /** Never started: BaseConf reads its port. */
    public static NamesrvController createAndStartNamesrv() {
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(Integer.parseInt(NAME_SERVER.split(":")[1]));
        List<String> names = new ArrayList<>(MQAdmin.getCluster(NAME_SERVER).getBrokerAddrTable().keySet());
        names.sort(null);
        brokerNames = names.iterator();
        return new NamesrvController(new NamesrvConfig(), server);
    }

    /** Never started: BaseConf reads its name and its cluster's. */
    public static BrokerController createAndStartBroker(String nsAddr) {
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName(brokerNames.next());
        return new BrokerController(config, new NettyServerConfig(), new NettyClientConfig(), new MessageStoreConfig());
    }

    public static boolean initTopic(String topic, String nsAddr, String clusterName, int queueNumbers) {
        return MQAdmin.createTopic(nsAddr, clusterName, topic, queueNumbers, TOPIC_CREATE_TIME_S);
    }

    public static boolean initTopic(String topic, String nsAddr, String clusterName) {
        return initTopic(topic, nsAddr, clusterName, 8);
    }
}
