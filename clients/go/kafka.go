// Package purgatorio gives tests a Kafka cluster, which is a process of its own:
//
//	func TestBilling(t *testing.T) {
//		kafka := purgatorio.Start(t, purgatorio.Topic("orders", 6))
//		client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Brokers()...))
//
// The cluster ends with the test. If the test fails, what the cluster waits for, and why, is logged.
package purgatorio

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	// A cluster that hangs must not hold up the tests behind it.
	reportTimeout = 2 * time.Second

	// So long before `go test -timeout` ends the process, a test that still runs has its report.
	reportBeforeTimeout = time.Second
)

// Kafka is a running cluster. Its methods may be called by any goroutine.
type Kafka struct {
	// Bootstrap has the addresses of the brokers, with commas between.
	Bootstrap string
	// AdminURL is where the page is that shows what waits, and the HTTP API.
	AdminURL string
	// SchemaRegistryURL is where the schema registry is; empty without Args("--registry").
	SchemaRegistryURL string

	token   string
	process *process
}

// Option is something that is asked of a cluster.
type Option func(*options)

type options struct {
	brokers  int
	topics   []string
	settings []string
	args     []string
	command  string
}

// Brokers asks for a number of brokers; it is 3 otherwise.
func Brokers(count int) Option { return func(o *options) { o.brokers = count } }

// Topic asks for a topic to begin with, which a reset brings back empty.
func Topic(name string, partitions int) Option {
	return func(o *options) { o.topics = append(o.topics, fmt.Sprintf("%s:%d", name, partitions)) }
}

// Setting asks for a setting of the brokers by Kafka's name, such as "log.retention.ms".
func Setting(name string, value any) Option {
	return func(o *options) { o.settings = append(o.settings, fmt.Sprintf("%s=%v", name, value)) }
}

// Args gives further flags to `purgatorio cluster`, such as "--import", "testdata".
func Args(args ...string) Option { return func(o *options) { o.args = append(o.args, args...) } }

// Command names the command; otherwise it is in the environment variable PURGATORIO, or purgatorio on the PATH.
func Command(command string) Option { return func(o *options) { o.command = command } }

// Start starts a cluster for a test, and ends it with the test. The test fails if the cluster does not start.
func Start(t testing.TB, options ...Option) *Kafka {
	t.Helper()
	kafka, err := Run(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	kafka.reportTo(t)
	return kafka
}

// Run starts a cluster that several tests share, in TestMain. Close ends it; it ends with this process at the latest.
func Run(given ...Option) (*Kafka, error) {
	asked := &options{}
	for _, each := range given {
		each(asked)
	}
	started, told, err := startProcess(asked)
	if err != nil {
		return nil, err
	}
	return &Kafka{
		Bootstrap:         told.Bootstrap,
		AdminURL:          told.AdminURL,
		SchemaRegistryURL: told.SchemaRegistryURL,
		token:             told.Token,
		process:           started,
	}, nil
}

// For gives a shared cluster to a test: it is as it was at its start, and what waits is logged if the test fails.
func (k *Kafka) For(t testing.TB) *Kafka {
	t.Helper()
	if err := k.Reset(); err != nil {
		t.Fatal(err)
	}
	k.reportTo(t)
	return k
}

// reportTo logs the report if a test fails: as soon as it has, before its clients are closed, if that takes longer than a
// look. A test that panics has it then, and one that never ends has it shortly before its time is over.
func (k *Kafka) reportTo(t testing.TB) {
	ended, watched := make(chan bool, 1), make(chan struct{})
	timeout := timeoutOf(t)
	go func() {
		defer close(watched)
		for !t.Failed() {
			select {
			case panics := <-ended:
				if panics || t.Failed() {
					t.Log(k.whyText())
				}
				return
			case <-timeout:
				// What a test logs is lost when its process is ended so.
				fmt.Fprintf(os.Stderr, "%s has not ended, and the time of go test is nearly over\n%s\n", t.Name(), k.whyText())
				return
			case <-time.After(pollEvery):
			}
		}
		t.Log(k.whyText())
	}()
	t.Cleanup(func() {
		ended <- isPanicking()
		<-watched
	})
}

// timeoutOf returns what ends shortly before the time of a test does; nil if it has no limit.
func timeoutOf(t testing.TB) <-chan time.Time {
	limited, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return nil
	}
	deadline, ok := limited.Deadline()
	if !ok {
		return nil
	}
	left := time.Until(deadline)
	return time.After(left - min(reportBeforeTimeout, left/4))
}

// isPanicking returns whether a panic has this cleanup run: Failed is false of a test that panics until its cleanups have
// ended.
func isPanicking() bool {
	callers := make([]uintptr, 100)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for {
		frame, more := frames.Next()
		if frame.Function == "runtime.gopanic" {
			return true
		}
		if !more {
			return false
		}
	}
}

func (k *Kafka) whyText() string {
	return fmt.Sprintf("%s\nKafka at %s", k.reportText(), k.Bootstrap)
}

func (k *Kafka) reportText() string {
	made := make(chan string, 1)
	go func() {
		report, err := k.Report()
		if err != nil {
			report = err.Error()
		}
		made <- report
	}()
	select {
	case report := <-made:
		return report
	case <-time.After(reportTimeout):
		return fmt.Sprintf("the Kafka cluster makes no report within %v", reportTimeout)
	}
}

// Brokers returns the addresses of the brokers, for kgo.SeedBrokers and the like.
func (k *Kafka) Brokers() []string { return strings.Split(k.Bootstrap, ",") }

// Close ends the cluster, and returns when its process is gone. It may be called again.
func (k *Kafka) Close() { k.process.end() }

// TopicOptions has what may be left out of Topic.
type TopicOptions struct {
	// Partitions is 1 if it is not given.
	Partitions int

	// Replicas is three, or as many as there are brokers, if it is not given.
	Replicas int

	// Configs are by Kafka's names: {"cleanup.policy": "compact"}.
	Configs map[string]string
}

// Topic creates a topic, and returns its name when it can be written to.
func (k *Kafka) Topic(name string, options ...TopicOptions) (string, error) {
	o := first(options)
	return name, k.done(CreateTopic{
		Name: name, Partitions: Ptr(max(1, o.Partitions)), Replicas: given(o.Replicas), Configs: o.Configs,
	})
}

// Ptr returns a pointer to a value, for what may be left out of an operation: MoveLeader{Topic: "orders", To: Ptr(2)}.
func Ptr[T any](value T) *T { return &value }

// Refused is what a cluster answers that does not do an operation.
type Refused struct {
	// Status is that of HTTP: 400 cannot be, 404 is not there, 409 refused, 503 not now.
	Status  int
	Message string
}

func (r *Refused) Error() string { return r.Message }

// IsRefused returns whether an error is a refusal with this status.
func IsRefused(err error, status int) bool {
	var refused *Refused
	return errors.As(err, &refused) && refused.Status == status
}
