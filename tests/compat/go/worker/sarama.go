package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

const batch = 20

// withSarama works with Sarama.
type withSarama struct {
	bootstrap []string
	producer  sarama.SyncProducer
}

func config(id string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Partitioner = sarama.NewHashPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = 20 * time.Second
	config.Net.MaxOpenRequests = 1
	return config
}

func (w *withSarama) init(id string) (err error) {
	config := config(id)
	config.Producer.Partitioner = sarama.NewManualPartitioner
	w.producer, err = sarama.NewSyncProducer(w.bootstrap, config)
	for errors.Is(err, sarama.ErrConcurrentTransactions) { // Apache Kafka is still ending a fenced producer's transaction
		time.Sleep(pause)
		w.producer, err = sarama.NewSyncProducer(w.bootstrap, config)
	}
	return err
}

func (w *withSarama) begin() error { return w.producer.BeginTxn() }

func (w *withSarama) send(topic, value string) error {
	_, _, err := w.producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
	return err
}

func (w *withSarama) commit() error { return w.producer.CommitTxn() }

func (w *withSarama) abort() error { return w.producer.AbortTxn() }

func (w *withSarama) read(topic, isolation string, count int) (values []string, err error) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	if isolation == "committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(w.bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	messages, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer messages.Close()
	for late := time.After(timeout); len(values) < count; {
		select {
		case message := <-messages.Messages():
			values = append(values, string(message.Value))
		case <-late:
			return values, nil
		}
	}
	return values, nil
}

func (w *withSarama) fenced(err error) bool {
	return errors.Is(err, sarama.ErrProducerFenced) || errors.Is(err, sarama.ErrInvalidProducerEpoch)
}

// copier copies the records of all claims with one producer, one transaction at a time.
//
// Sarama commits offsets in a transaction without the member's generation, and reads committed offsets that a pending
// transaction is about to change (no KIP-447): it ignores what it knows that it has copied.
type copier struct {
	producer sarama.SyncProducer
	turn     chan struct{}
	copied   map[int32]int64
	target   string
	group    string
	failed   func(error)
}

func (c *copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c *copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		messages := []*sarama.ConsumerMessage{message}
		for len(messages) < batch && len(claim.Messages()) > 0 {
			if message, open := <-claim.Messages(); open {
				messages = append(messages, message)
			}
		}
		c.turn <- struct{}{}
		err := c.transaction(messages)
		<-c.turn
		if err != nil {
			c.failed(err)
			return err
		}
	}
	return nil
}

func (c *copier) transaction(messages []*sarama.ConsumerMessage) error {
	for len(messages) > 0 && messages[0].Offset < c.copied[messages[0].Partition] {
		messages = messages[1:]
	}
	if len(messages) == 0 {
		return nil
	}
	if err := c.producer.BeginTxn(); err != nil {
		return err
	}
	for _, message := range messages {
		value := sarama.ByteEncoder(message.Value)
		if _, _, err := c.producer.SendMessage(&sarama.ProducerMessage{Topic: c.target, Key: value, Value: value}); err != nil {
			return err
		}
	}
	last := messages[len(messages)-1]
	if err := c.producer.AddMessageToTxn(last, c.group, nil); err != nil {
		return err
	}
	if err := c.producer.CommitTxn(); err != nil {
		return err
	}
	c.copied[last.Partition] = last.Offset + 1
	say("copied", len(messages))
	return nil
}

func (w *withSarama) copy(ctx context.Context, source, target, group, id string) error {
	// It waits until the last transaction of this id has ended: only then are the group's offsets true.
	producer, err := sarama.NewSyncProducer(w.bootstrap, config(id))
	if err != nil {
		return err
	}
	defer producer.Close()
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = time.Second
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumerGroup(w.bootstrap, group, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	copier := &copier{producer, make(chan struct{}, 1), map[int32]int64{}, target, group, func(err error) { fail(err) }}
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{source}, copier); err != nil {
			say("consume", err)
		}
	}
	return context.Cause(ctx)
}
