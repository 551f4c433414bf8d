// Package franz has options of franz-go for tests. It is a module of its own, so that purgatorio itself needs no other.
package franz

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// A member of a group learns of a rebalance by its heartbeat, every 3 s by default: so long a second member waits.
	heartbeat = 100 * time.Millisecond

	// The pauses before a client asks again; by default they are of 250 ms to 2.5 s, and of 5 s between two looks for a
	// leader that has moved.
	retry    = 10 * time.Millisecond
	maxRetry = 100 * time.Millisecond

	// How long a client waits for a cluster that cannot answer.
	giveUp = 10 * time.Second
)

// Cluster is a *purgatorio.Kafka.
type Cluster interface{ Brokers() []string }

// Options returns options with which a client needs milliseconds where others need seconds, and gives up in time:
//
//	client, err := kgo.NewClient(franz.Options(kafka, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"))...)
//
// A record is given up after ten seconds, or when its context ends, even if its request is under way: by default
// franz-go waits for the answer, whatever the context says, since the record may have been written. A test is not to
// wait so long; for a producer with a transactional id see TransactionalOptions.
func Options(kafka Cluster, more ...kgo.Opt) []kgo.Opt {
	options := append(common(kafka), kgo.AllowIdempotentProduceCancellation())
	return append(options, more...)
}

// TransactionalOptions returns options of a producer with a transactional id. When the context of a record ends, or after
// ten seconds, the producer gives up all that it has buffered, with kgo.ErrAborting; abort the transaction then. By
// default franz-go waits for the answer of a request under way, whatever the context says.
//
// BeginTransaction takes no context, and waits until the followers of the transactions' own topic have its entry.
func TransactionalOptions(kafka Cluster, id string, more ...kgo.Opt) []kgo.Opt {
	patience := &patience{waiting: map[*kgo.Record]context.CancelFunc{}}
	options := append(common(kafka), kgo.TransactionalID(id), kgo.WithHooks(patience))
	return append(options, more...)
}

// patience has a client give up its records when that of one of them is over; the client calls its hooks.
type patience struct {
	client  *kgo.Client
	mutex   sync.Mutex
	waiting map[*kgo.Record]context.CancelFunc
}

func (p *patience) OnNewClient(client *kgo.Client) { p.client = client }

func (p *patience) OnProduceRecordBuffered(record *kgo.Record) {
	limited, cancel := context.WithTimeout(record.Context, giveUp)
	p.mutex.Lock()
	p.waiting[record] = cancel
	p.mutex.Unlock()
	context.AfterFunc(limited, func() {
		if p.forget(record) {
			p.client.UnsafeAbortBufferedRecords()
		}
	})
}

func (p *patience) OnProduceRecordUnbuffered(record *kgo.Record, _ error) { p.forget(record) }

// forget returns whether a record was still waited for.
func (p *patience) forget(record *kgo.Record) bool {
	p.mutex.Lock()
	cancel, ok := p.waiting[record]
	delete(p.waiting, record)
	p.mutex.Unlock()
	if ok {
		cancel()
	}
	return ok
}

func common(kafka Cluster) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(kafka.Brokers()...),
		kgo.MetadataMinAge(retry),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return min(retry<<min(tries-1, 10), maxRetry) }),
		kgo.RetryTimeout(giveUp),
		kgo.RecordDeliveryTimeout(giveUp),
		kgo.ProduceRequestTimeout(giveUp / 2),
		kgo.SessionTimeout(giveUp),
		kgo.HeartbeatInterval(heartbeat),
	}
}
