// Package test tries the Go kit with franz-go.
package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"purgatorio"
	"purgatorio/franz"
)

var shared *purgatorio.Kafka

func TestMain(m *testing.M) {
	var err error
	shared, err = purgatorio.Run(purgatorio.Topic("orders", 3))
	if err != nil {
		panic(err)
	}
	code := m.Run()
	shared.Close()
	os.Exit(code)
}

func newClient(t *testing.T, kafka *purgatorio.Kafka, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(franz.Options(kafka, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestFranzGoProducesAndConsumes(t *testing.T) {
	kafka := shared.For(t)
	record := &kgo.Record{Topic: "orders", Key: []byte("17"), Value: []byte("paid")}
	if err := newClient(t, kafka).ProduceSync(within(t), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	consumer := newClient(t, kafka, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"))
	found := consumer.PollFetches(within(t)).Records()
	if len(found) != 1 || string(found[0].Value) != "paid" {
		t.Errorf("consumed %v", found)
	}
	read, err := kafka.Records("orders")
	if err != nil || len(read) != 1 || string(read[0].Key) != "17" || string(read[0].Value) != "paid" {
		t.Errorf("read %v, %v", read, err)
	}
}

func TestTheTestBeforeHasLeftNothing(t *testing.T) {
	kafka := shared.For(t)
	read, err := kafka.Records("orders")
	if err != nil || len(read) != 0 {
		t.Errorf("read %v, %v", read, err)
	}
}

func TestRecordsAreProducedWithoutAClient(t *testing.T) {
	kafka := shared.For(t)
	if _, err := kafka.Topic("bills", purgatorio.TopicOptions{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	whole := purgatorio.Record{
		Key: []byte{0xff}, Value: []byte("paid"), TimestampMs: 5,
		Headers: []purgatorio.Header{{Name: "trace", Value: []byte("9f")}, {Name: "none"}},
	}
	if err := errors.Join(
		kafka.Produce("bills", purgatorio.Text("text")),
		kafka.ProduceTo("bills", 1, whole, purgatorio.Record{}),
	); err != nil {
		t.Fatal(err)
	}
	read, err := kafka.Records("bills")
	if err != nil || len(read) != 3 {
		t.Fatalf("read %v, %v", read, err)
	}
	whole.Topic, whole.Partition = "bills", 1
	if !reflect.DeepEqual(read[1], whole) {
		t.Errorf("read %+v", read[1])
	}
	if read[2].Key != nil || read[2].Value != nil || read[2].Offset != 1 {
		t.Errorf("read %+v", read[2])
	}
}

func TestManyRecordsAreReadInParts(t *testing.T) {
	kafka := shared.For(t)
	for part := range 11 {
		records := make([]purgatorio.Record, 1000)
		for number := range records {
			records[number] = purgatorio.Text(fmt.Sprint(part*1000 + number))
		}
		if err := kafka.ProduceTo("orders", 1, records...); err != nil {
			t.Fatal(err)
		}
	}
	read, err := kafka.Records("orders")
	if err != nil || len(read) != 11_000 || string(read[10_999].Value) != "10999" {
		t.Errorf("read %d records, %v", len(read), err)
	}
}

func TestAFaultFailsARequestOfFranzGoWhichAsksAgain(t *testing.T) {
	kafka := shared.For(t)
	rule := map[string]any{"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "count": 1}
	if _, err := kafka.Do(purgatorio.AddFault{Body: rule}); err != nil {
		t.Fatal(err)
	}
	client := newClient(t, kafka)
	if err := client.ProduceSync(within(t), &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	report, err := kafka.Report()
	if err != nil || !strings.Contains(report, "fired 1 time") {
		t.Errorf("%s, %v", report, err)
	}
}

func TestOperationsAreRefusedWithTheirStatus(t *testing.T) {
	kafka := shared.For(t)
	if _, err := kafka.Do(purgatorio.KillBroker{ID: 9}); !purgatorio.IsRefused(err, 404) {
		t.Error(err)
	}
	if _, err := kafka.Records("bils"); err == nil || err.Error() != "there is no topic 'bils', only orders" {
		t.Error(err)
	}
	moved, err := kafka.Do(purgatorio.MoveLeader{Topic: "orders", To: purgatorio.Ptr(2)})
	var told struct{ Leader int }
	if err != nil || moved.Into(&told) != nil || told.Leader != 2 {
		t.Error(moved, err)
	}
}

func TestAClusterOfItsOwnEndsWithItsTest(t *testing.T) {
	var own *purgatorio.Kafka
	t.Run("inner", func(t *testing.T) {
		own = purgatorio.Start(t, purgatorio.Brokers(1), purgatorio.Setting("log.retention.ms", 1000))
		if len(own.Brokers()) != 1 {
			t.Error(own.Brokers())
		}
	})
	if _, err := own.Report(); err == nil || !strings.Contains(err.Error(), "the Kafka cluster does not answer") {
		t.Error(err)
	}
}

func TestAClusterThatCannotStartSaysWhy(t *testing.T) {
	_, err := purgatorio.Run(purgatorio.Setting("log.retenton.ms", 1))
	if err == nil || !strings.Contains(err.Error(), "did you mean log.retention.ms?") {
		t.Error(err)
	}
	_, err = purgatorio.Run(purgatorio.Command("no-such-command"))
	if err == nil || !strings.Contains(err.Error(), "there is no command no-such-command: install it from a clone") {
		t.Error(err)
	}
}

// TestFailing fails on purpose, if it is asked to: its cluster tells what waits.
func TestFailing(t *testing.T) {
	how := os.Getenv("FAIL_ON_PURPOSE")
	if how == "" {
		t.Skip("FAIL_ON_PURPOSE is not set")
	}
	client := newClient(t, shared, kgo.ClientID("shop")) // before For, whose report comes before its cleanup
	kafka := shared.For(t)
	holdAll(t, kafka)
	if how != "panic" {
		defer client.Close()
	}
	client.TryProduce(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("paid")}, nil)
	must[[]purgatorio.Parked](t)(kafka.UntilParked(purgatorio.UntilParkedOptions{Client: "shop"}))
	switch how {
	case "panic":
		var none []purgatorio.Record
		t.Error(none[0])
	case "hang":
		select {}
	}
	read, err := kafka.Records("orders")
	if err != nil || len(read) != 1 {
		t.Errorf("read %v, %v", read, err)
	}
}
