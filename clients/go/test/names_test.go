package test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"purgatorio"
	"purgatorio/franz"
)

// The names of the Python kit, in Go.

// must returns a value, if there is no error.
func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// all fails the test if there is an error.
func all(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func sending(t *testing.T, kafka *purgatorio.Kafka) chan error {
	t.Helper()
	client := newClient(t, kafka, kgo.ClientID("shop"))
	sent := make(chan error, 1)
	record := &kgo.Record{Topic: "orders", Partition: 0, Value: []byte("paid")}
	client.Produce(context.Background(), record, func(_ *kgo.Record, err error) { sent <- err })
	return sent
}

func holdAll(t *testing.T, kafka *purgatorio.Kafka) {
	t.Helper()
	all(t, kafka.HoldFollower(1), kafka.HoldFollower(2), kafka.HoldFollower(3))
}

func TestAHeldFollowerLetsAcksAllWaitUntilItIsReleased(t *testing.T) {
	kafka := shared.For(t)
	holdAll(t, kafka)
	sent := sending(t, kafka)
	wanted := purgatorio.UntilParkedOptions{Api: "Produce", Topic: "orders", Client: "shop"}
	parked := must[[]purgatorio.Parked](t)(kafka.UntilParked(wanted))
	if parked[0].Purgatory != "Produce" || !strings.Contains(parked[0].Missing, "is at 0 of 1") || parked[0].LeftMs <= 0 {
		t.Errorf("parked %+v", parked)
	}
	all(t, kafka.Release())
	all(t, <-sent)
}

func TestAParkedRequestIsExpired(t *testing.T) {
	kafka := shared.For(t)
	holdAll(t, kafka)
	sent := sending(t, kafka)
	first := must[[]purgatorio.Parked](t)(kafka.UntilParked(purgatorio.UntilParkedOptions{Client: "shop"}))[0]
	all(t, kafka.Expire(first))
	if err := kafka.Expire(first); !purgatorio.IsRefused(err, 404) {
		t.Error(err)
	}
	all(t, kafka.Release(1), kafka.Release(2, 3))
	all(t, <-sent)
}

func TestLeadersAreFoundMovedAndTakenAway(t *testing.T) {
	kafka := shared.For(t)
	leader := must[int](t)
	if moved := leader(kafka.MoveLeader("orders", purgatorio.MoveLeaderOptions{Partition: 1, To: 2})); moved != 2 {
		t.Error(moved)
	}
	if found := leader(kafka.Leader("orders", purgatorio.LeaderOptions{Partition: 1})); found != 2 {
		t.Error(found)
	}
	all(t, kafka.NoLeader("orders"))
	leader(kafka.MoveLeader("orders"))
}

func TestBrokersAreStoppedKilledPausedCutOffAndComeBack(t *testing.T) {
	kafka := shared.For(t)
	all(t, kafka.Stop(1))
	if running := must[[]int](t)(kafka.RunningBrokers()); len(running) != 2 || running[0] != 2 {
		t.Error(running)
	}
	all(t, kafka.Start(1), kafka.Kill(2), kafka.Start(2), kafka.Pause(3), kafka.Resume(3), kafka.Resume())
	all(t, kafka.Partition([]int{1}, []int{2, 3}), kafka.Heal())
	if added := must[int](t)(kafka.AddBroker(purgatorio.AddBrokerOptions{Rack: "b"})); added != 4 {
		t.Error(added)
	}
	all(t, kafka.UntilInSync("orders"))
	if err := kafka.Kill(9); !purgatorio.IsRefused(err, 404) {
		t.Error(err)
	}
}

func TestTheBrokersTimeIsMoved(t *testing.T) {
	kafka := shared.For(t)
	holdAll(t, kafka)
	sending(t, kafka)
	must[[]purgatorio.Parked](t)(kafka.UntilParked(purgatorio.UntilParkedOptions{Client: "shop"}))
	all(t, kafka.Clock().Freeze())
	before := must[int](t)(kafka.Clock().NowMs())
	ended := must[[]purgatorio.Ended](t)(kafka.Clock().Advance(6.5))
	if now := must[int](t)(kafka.Clock().NowMs()); now != before+6_500 {
		t.Error(now - before)
	}
	if len(ended) == 0 || ended[0].WaitedMs < 5000 {
		t.Errorf("ended %+v", ended)
	}
	all(t, kafka.Clock().Unfreeze(), kafka.Release())
}

func TestFaultsAreCountedHeldAndRemoved(t *testing.T) {
	kafka := shared.For(t)
	rule := must[*purgatorio.Fault](t)
	fault := rule(kafka.Fault(map[string]any{"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "count": 1}))
	sent := sending(t, kafka)
	if fired := must[int](t)(fault.UntilFired()); fired != 1 {
		t.Error(fired)
	}
	all(t, <-sent)
	hidden := rule(kafka.Hide(2))
	slow := rule(kafka.Network("latency", map[string]any{"latency_ms": 1}))
	faults := must[[]*purgatorio.Fault](t)(kafka.Faults())
	if len(faults) != 3 || faults[1].ID != hidden.ID || faults[2].ID != slow.ID {
		t.Error(faults)
	}
	all(t, kafka.Quota(map[string]any{"producer_byte_rate": 1_000_000}, purgatorio.QuotaOptions{ClientID: "shop"}))
	all(t, hidden.Remove(), hidden.Remove(), faults[2].Release(), kafka.ClearFaults())
	if _, err := fault.Fired(); err == nil || !strings.Contains(err.Error(), "there is no fault rule") {
		t.Error(err)
	}
}

func TestGroupsAreWaitedForAndTheirMembersExpire(t *testing.T) {
	kafka := shared.For(t)
	if group := must[*purgatorio.Group](t)(kafka.Group("billing")); group != nil {
		t.Error(group)
	}
	consumer := newClient(t, kafka, kgo.ClientID("biller"), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"))
	go consumer.PollFetches(within(t))
	wanted := purgatorio.UntilGroupOptions{State: "Stable", Members: 1}
	group := must[*purgatorio.Group](t)(kafka.UntilGroup("billing", wanted))
	if group.Members[0].Client != "biller" {
		t.Errorf("group %+v", group)
	}
	if text := must[string](t)(kafka.Explain("billing")); !strings.Contains(text, "billing") {
		t.Error(text)
	}
	if _, err := kafka.Explain("biling"); !purgatorio.IsRefused(err, 404) {
		t.Error(err)
	}
	if text := must[string](t)(kafka.Explain("")); !strings.Contains(text, "brokers: 1 at ") {
		t.Error(text)
	}
	member := purgatorio.ExpireMemberOptions{Member: "biller"}
	if expired := must[string](t)(kafka.ExpireMember("billing", member)); expired != group.Members[0].ID {
		t.Error(expired)
	}
	_, err := kafka.UntilGroup("billing", purgatorio.UntilGroupOptions{Members: 9, Timeout: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "still waiting after 1ms: UntilGroup") {
		t.Error(err)
	}
}

func TestASnapshotIsRestoredAndLogsAreCleaned(t *testing.T) {
	kafka := shared.For(t)
	must[string](t)(kafka.Topic("prices", purgatorio.TopicOptions{Configs: map[string]string{"cleanup.policy": "compact"}}))
	tea := func(value string) purgatorio.Record {
		return purgatorio.Record{Key: []byte("tea"), Value: []byte(value)}
	}
	all(t, kafka.Produce("prices", tea("1")))
	snapshot := must[string](t)(kafka.Snapshot())
	all(t, kafka.Produce("prices", tea("2")), kafka.Compact(purgatorio.CompactOptions{Topic: "prices"}), kafka.ApplyRetention())
	read := must[[]purgatorio.Record](t)
	if found := read(kafka.Records("prices")); len(found) != 1 || string(found[0].Value) != "2" {
		t.Error(found)
	}
	all(t, kafka.Restore(snapshot))
	if found := read(kafka.Records("prices")); len(found) != 1 || string(found[0].Value) != "1" {
		t.Error(found)
	}
}

func TestWhatThisClusterDoesNotHaveIsRefused(t *testing.T) {
	kafka := shared.For(t)
	var refused *purgatorio.Refused
	if err := kafka.AddAcls("allow User:alice READ topic orders"); !errors.As(err, &refused) {
		t.Error(err)
	}
	if err := kafka.ExpireTransaction("payer"); !errors.As(err, &refused) {
		t.Error(err)
	}
	if records := must[[]purgatorio.InFlight](t)(kafka.ShareGroup("mailers").InFlight()); len(records) != 0 {
		t.Error(records)
	}
	if locks := must[int](t)(kafka.ShareGroup("mailers").ExpireLocks()); locks != 0 {
		t.Error(locks)
	}
}

// franz-go by itself waits until the followers are no longer in sync, for 45 s.
func TestAContextEndsAProduceRequestThatIsUnderWay(t *testing.T) {
	kafka := shared.For(t)
	holdAll(t, kafka)
	client := newClient(t, kafka)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	start := time.Now()
	err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr()
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// franz-go by itself waits as long as above, and cannot be asked not to.
func TestAContextEndsAProduceRequestOfATransaction(t *testing.T) {
	kafka := shared.For(t)
	client := must[*kgo.Client](t)(kgo.NewClient(franz.TransactionalOptions(kafka, "payer")...))
	defer client.Close()
	all(t, client.BeginTransaction())
	holdAll(t, kafka)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	start := time.Now()
	err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr()
	if !errors.Is(err, kgo.ErrAborting) || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	all(t, kafka.Release(1), kafka.Release(2), kafka.Release(3))
	all(t, client.EndTransaction(within(t), kgo.TryAbort))
}

func TestATransactionIsCommitted(t *testing.T) {
	kafka := shared.For(t)
	client, err := kgo.NewClient(franz.TransactionalOptions(kafka, "payer")...)
	all(t, err)
	defer client.Close()
	all(t, client.BeginTransaction())
	all(t, client.ProduceSync(within(t), &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr())
	all(t, client.EndTransaction(within(t), kgo.TryCommit))
	if read := must[[]purgatorio.Record](t)(kafka.Records("orders")); len(read) != 1 {
		t.Error(read)
	}
}
