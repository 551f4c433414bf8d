package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	timeout = 30 * time.Second
	pause   = 100 * time.Millisecond
)

// franz works with franz-go.
type franz struct {
	bootstrap []string
	producer  *kgo.Client
}

func (f *franz) init(id string) (err error) {
	f.producer, err = kgo.NewClient(
		kgo.SeedBrokers(f.bootstrap...), kgo.TransactionalID(id), kgo.TransactionTimeout(20*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	_, _, err = f.producer.ProducerID(context.Background())
	for errors.Is(err, kerr.ConcurrentTransactions) { // Apache Kafka is still ending the transaction of a fenced producer
		time.Sleep(pause)
		_, _, err = f.producer.ProducerID(context.Background())
	}
	return err
}

func (f *franz) begin() error { return f.producer.BeginTransaction() }

func (f *franz) send(topic, value string) error {
	return f.producer.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr()
}

func (f *franz) commit() error { return f.producer.EndTransaction(context.Background(), kgo.TryCommit) }

func (f *franz) abort() error { return f.producer.EndTransaction(context.Background(), kgo.TryAbort) }

func isolation(name string) kgo.Opt {
	if name == "committed" {
		return kgo.FetchIsolationLevel(kgo.ReadCommitted())
	}
	return kgo.FetchIsolationLevel(kgo.ReadUncommitted())
}

func (f *franz) read(topic, level string, count int) (values []string, err error) {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap...), kgo.ConsumePartitions(start), isolation(level))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	for len(values) < count && ctx.Err() == nil {
		consumer.PollRecords(ctx, count-len(values)).EachRecord(func(record *kgo.Record) {
			values = append(values, string(record.Value))
		})
	}
	return values, nil
}

func (f *franz) fenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}

func (f *franz) copy(ctx context.Context, source, target, group, id string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(f.bootstrap...), kgo.TransactionalID(id), kgo.TransactionTimeout(20*time.Second),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(source), kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(time.Second), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for ctx.Err() == nil {
		polled, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		records := session.PollFetches(polled).Records()
		stop()
		if len(records) == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		failures := kgo.AbortingFirstErrPromise(session.Client())
		for _, record := range records {
			session.Produce(context.Background(), &kgo.Record{Topic: target, Key: record.Value, Value: record.Value}, failures.Promise())
		}
		committed, err := session.End(context.Background(), failures.Err() == nil)
		switch {
		case err != nil:
			return err
		case committed:
			say("copied", len(records))
		default:
			say("aborted", failures.Err())
		}
	}
	return nil
}
