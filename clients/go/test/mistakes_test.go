package test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"purgatorio"
)

// Each test of TestMistakes fails on purpose, if it is asked to, by a common mistake: the first line of the report says which.
func TestMistakes(t *testing.T) {
	if os.Getenv("FAIL_ON_PURPOSE") == "" {
		t.Skip("FAIL_ON_PURPOSE is not set")
	}
	t.Run("a consumer starts after the record", func(t *testing.T) {
		kafka := oneTopic(t)
		atEnd := kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd())
		consumer := newClient(t, kafka, kgo.ClientID("late"), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("receipts"), atEnd)
		expectOne(t, consumer)
	})
	t.Run("a group has read the topic before", func(t *testing.T) {
		kafka := oneTopic(t)
		for _, id := range []string{"invoices", "mails"} {
			consumer := newClient(t, kafka, kgo.ClientID(id), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("receipts"))
			expectOne(t, consumer)
			if err := consumer.CommitUncommittedOffsets(within(t)); err != nil {
				t.Fatal(err)
			}
			consumer.Close()
		}
	})
	t.Run("two members share a topic of one partition", func(t *testing.T) {
		kafka := oneTopic(t)
		one := newClient(t, kafka, kgo.ClientID("one"), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("receipts"))
		expectOne(t, one)
		two := newClient(t, kafka, kgo.ClientID("two"), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("receipts"))
		must[*purgatorio.Group](t)(kafka.UntilGroup("billing", purgatorio.UntilGroupOptions{State: "Stable", Members: 2}))
		expectOne(t, two)
	})
	t.Run("the topic has another name", func(t *testing.T) {
		kafka := oneTopic(t)
		expectOne(t, newClient(t, kafka, kgo.ClientID("shipping"), kgo.ConsumeTopics("receipt")))
	})
}

func oneTopic(t *testing.T) *purgatorio.Kafka {
	t.Helper()
	kafka := shared.For(t)
	must[string](t)(kafka.Topic("receipts"))
	if err := kafka.Produce("receipts", purgatorio.Record{Value: []byte("tea")}); err != nil {
		t.Fatal(err)
	}
	return kafka
}

func expectOne(t *testing.T, consumer *kgo.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	if found := consumer.PollFetches(ctx).Records(); len(found) != 1 {
		t.Fatalf("consumed %v", found)
	}
}
