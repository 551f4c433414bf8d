package purgatorio

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The longest wait, unless a test names another one, and the time between two looks.
const (
	waitTimeout = 10 * time.Second
	pollEvery   = 5 * time.Millisecond
)

// Clock is the brokers' time.
type Clock struct{ kafka *Kafka }

// Clock returns the brokers' time, which a test can move. A client's own timers are out of its reach.
func (k *Kafka) Clock() *Clock { return &Clock{k} }

// ShareGroup is a share group (KIP-932).
type ShareGroup struct {
	// ID is its name.
	ID    string
	kafka *Kafka
}

// ShareGroup returns a share group, which need not exist yet.
func (k *Kafka) ShareGroup(id string) *ShareGroup { return &ShareGroup{id, k} }

// Fault is a fault rule of a cluster.
type Fault struct {
	// ID is its number, unique within the cluster.
	ID    int `json:"id"`
	kafka *Kafka
}

type faultCounts struct {
	ID, Matched, Fired, Held int
}

func (f *Fault) counts() (faultCounts, error) {
	var answer struct{ Faults []faultCounts }
	if err := f.kafka.do(ListFaults{Fired: Ptr(0)}, &answer); err != nil {
		return faultCounts{}, err
	}
	for _, each := range answer.Faults {
		if each.ID == f.ID {
			return each, nil
		}
	}
	return faultCounts{}, fmt.Errorf("there is no fault rule %d, or no longer", f.ID)
}

// RunningBrokers returns the ids of the running brokers.
func (k *Kafka) RunningBrokers() ([]int, error) {
	var answer struct {
		Brokers []struct {
			ID    int
			State string
		}
	}
	err := k.do(ListBrokers{}, &answer)
	var running []int
	for _, each := range answer.Brokers {
		if each.State == "running" {
			running = append(running, each.ID)
		}
	}
	return running, err
}

func (k *Kafka) done(operation Operation) error {
	_, err := k.Do(operation)
	return err
}

// first returns the options that were given, if any were.
func first[T any](options []T) T {
	var none T
	if len(options) == 0 {
		return none
	}
	return options[0]
}

// given returns a pointer to a value, and nil if it was left out.
func given[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

// with returns the names and values of both.
func with(rule, more map[string]any) map[string]any {
	all := map[string]any{}
	for _, each := range []map[string]any{rule, more} {
		for name, value := range each {
			all[name] = value
		}
	}
	return all
}

// list returns texts as the operations take them.
func list(texts []string) []any {
	all := make([]any, len(texts))
	for number, each := range texts {
		all[number] = each
	}
	return all
}

// unlessRefused returns no error if the cluster has refused what cannot be done now, or to what is not there.
func unlessRefused(err error) error {
	var refused *Refused
	if errors.As(err, &refused) && refused.Status != http.StatusBadRequest {
		return nil
	}
	return err
}

// answerUnlessRefused returns what an operation answers, and nil as unlessRefused does.
func answerUnlessRefused[T any](k *Kafka, operation Operation) (*T, error) {
	answer := new(T)
	if err := k.do(operation, answer); err != nil {
		return nil, unlessRefused(err)
	}
	return answer, nil
}

// until looks again and again, and returns the first result that is enough.
func until[T any](name string, options any, timeout time.Duration, look func() (T, bool, error)) (T, error) {
	if timeout == 0 {
		timeout = waitTimeout
	}
	giveUp := time.Now().Add(timeout)
	for {
		found, enough, err := look()
		if enough || err != nil {
			return found, err
		}
		if time.Now().After(giveUp) {
			return found, fmt.Errorf("still waiting after %v: %s %+v", timeout, name, options)
		}
		time.Sleep(pollEvery)
	}
}
