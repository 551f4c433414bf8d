// Command member is a member with franz-go or Sarama: `CLIENT BOOTSTRAP TOPIC GROUP SESSION_MS`; see `groups/harness.py`.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// say prints a line, with the member's name, in one write.
func say(words ...any) {
	os.Stdout.WriteString(os.Getenv("MEMBER") + " " + fmt.Sprintln(words...))
}

func indexes(partitions []int32) string {
	words := make([]string, len(partitions))
	for i, partition := range partitions {
		words[i] = strconv.Itoa(int(partition))
	}
	return strings.Join(words, ",")
}

func main() {
	bootstrap, topic, group := strings.Split(os.Args[2], ","), os.Args[3], os.Args[4]
	milliseconds, err := strconv.Atoi(os.Args[5])
	check(err)
	session := time.Duration(milliseconds) * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	switch os.Args[1] {
	case "franz-go":
		franz(ctx, bootstrap, topic, group, session)
	case "sarama":
		withSarama(ctx, bootstrap, topic, group, session)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// franz consumes with franz-go, whose default assignor is cooperative-sticky.
func franz(ctx context.Context, bootstrap []string, topic, group string, session time.Duration) {
	revoked := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		say("revoked", indexes(partitions[topic]))
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/5), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			say("assigned", indexes(partitions[topic]))
		}),
		kgo.OnPartitionsRevoked(revoked), kgo.OnPartitionsLost(revoked),
	)
	check(err)
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			say("record", record.Partition, record.Offset, string(record.Key), string(record.Value))
			if err := client.CommitRecords(context.Background(), record); err == nil {
				say("committed", record.Partition, record.Offset+1)
			}
		})
	}
	client.Close()
}

type handler struct{ topic string }

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	say("owns", indexes(session.Claims()[h.topic]))
	return nil
}

func (h handler) Cleanup(sarama.ConsumerGroupSession) error {
	say("owns", "")
	return nil
}

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		say("record", message.Partition, message.Offset, string(message.Key), string(message.Value))
		session.MarkMessage(message, "")
		// A commit waits behind a long poll on the same connection: one for all that have come.
		if len(claim.Messages()) == 0 {
			session.Commit()
			say("committed", message.Partition, message.Offset+1)
		}
	}
	return nil
}

// withSarama consumes with Sarama, which calls the handler anew for each generation of the group.
func withSarama(ctx context.Context, bootstrap []string, topic, group string, session time.Duration) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Group.Session.Timeout = session
	config.Consumer.Group.Heartbeat.Interval = session / 5
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	member, err := sarama.NewConsumerGroup(bootstrap, group, config)
	check(err)
	for ctx.Err() == nil {
		if err := member.Consume(ctx, []string{topic}, handler{topic}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	check(member.Close())
}
