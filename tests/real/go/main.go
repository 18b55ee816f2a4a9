// A push consumer of the Go client, for tests: a JSON line on stdout for each message that its listener is given.
//
// It runs until SIGTERM, then stores its offsets and leaves. Everything else that it has to say goes to the log.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	namesrv  = flag.String("namesrv", "", "name servers, joined by ;")
	group    = flag.String("group", "", "the group")
	topics   = flag.String("topics", "", "the topics, joined by commas")
	instance = flag.String("instance", "", "the end of the client's id")
	log      = flag.String("log", "", "the file of the client's log")
	orderly  = flag.Bool("orderly", false, "consume each queue in order")
	workers  = flag.Int("workers", 1, "messages that are consumed at once, of a topic")
	pause    = flag.Duration("pause", 0, "how long the listener takes for a message")
	batch    = flag.Int("batch", 1, "messages that the listener is given at once")
	count    = flag.Int64("count", 0, "print no messages, but end after so many, and say how long they took")
)

type line struct {
	Body       string `json:"body"`
	BrokerName string `json:"brokerName"`
	QueueID    int    `json:"queueId"`
	Offset     int64  `json:"queueOffset"`
}

func main() {
	flag.Parse()
	// Before the client begins: until it is told where, its log goes to stderr.
	if err := rlog.SetOutputPath(*log); err != nil {
		fail(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	push, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(strings.Split(*namesrv, ";")),
		consumer.WithGroupName(*group),
		consumer.WithInstance(*instance),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(*orderly),
		consumer.WithConsumeGoroutineNums(*workers),
		consumer.WithConsumeMessageBatchMaxSize(*batch),
	)
	if err != nil {
		fail(err)
	}
	listener := listen
	if *count > 0 {
		listener = measure
	}
	for _, topic := range strings.Split(*topics, ",") {
		if err := push.Subscribe(topic, consumer.MessageSelector{}, listener); err != nil {
			fail(err)
		}
	}
	if err := push.Start(); err != nil {
		fail(err)
	}
	<-stop
	if err := push.Shutdown(); err != nil {
		fail(err)
	}
}

var printing sync.Mutex

func listen(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	printing.Lock()
	for _, message := range messages {
		queue := message.Queue
		text, err := json.Marshal(line{string(message.Body), queue.BrokerName, queue.QueueId, message.QueueOffset})
		if err != nil {
			fail(err)
		}
		fmt.Println(string(text))
	}
	printing.Unlock()
	time.Sleep(*pause)
	return consumer.ConsumeSuccess, nil
}

var (
	seen      atomic.Int64
	first     sync.Once
	startedAt time.Time
	cpuAt     float64
)

// Says "seconds cpuSeconds", from the first message on, at the last of those that are counted.
func measure(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	first.Do(func() { startedAt, cpuAt = time.Now(), cpuSeconds() })
	number := int64(len(messages))
	if now := seen.Add(number); now >= *count && now-number < *count {
		fmt.Printf("%.4f %.4f\n", time.Since(startedAt).Seconds(), cpuSeconds()-cpuAt)
		os.Exit(0)
	}
	return consumer.ConsumeSuccess, nil
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
