package purgatorio

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	startTimeout  = 30 * time.Second
	stopTimeout   = 10 * time.Second
	maxErrorBytes = 10_000
)

// What differs from a broker's own settings in tests: short sessions, and leaders stay where a test puts them.
var testSettings = []string{
	"group.min.session.timeout.ms=1",
	"group.consumer.heartbeat.interval.ms=100",
	"leader.imbalance.check.interval.ms=300000",
}

// ready is the line of JSON that a cluster prints.
type ready struct {
	Bootstrap         string `json:"bootstrap"`
	AdminURL          string `json:"admin_url"`
	SchemaRegistryURL string `json:"schema_registry_url"`
	Token             string `json:"token"`
}

// process is `purgatorio cluster --print-json --with-parent`, which ends with this process.
type process struct {
	command *exec.Cmd
	input   io.Closer
	errors  *tail
	stop    sync.Once
}

// command returns the words of the command: the option, the environment variable PURGATORIO, or purgatorio on the PATH.
func command(given string) []string {
	if given == "" {
		given = os.Getenv("PURGATORIO")
	}
	if given == "" {
		given = "purgatorio"
	}
	if _, err := os.Stat(given); err == nil {
		return []string{given}
	}
	return strings.Fields(given)
}

func (o *options) flags() []string {
	flags := []string{"cluster", "--port", "0", "--print-json", "--with-parent", "--log-level", "warning"}
	if o.brokers > 0 {
		flags = append(flags, "--brokers", fmt.Sprint(o.brokers))
	}
	for _, each := range o.topics {
		flags = append(flags, "--seed-topic", each)
	}
	for _, each := range append(append([]string{}, testSettings...), o.settings...) {
		flags = append(flags, "--set", each)
	}
	return append(flags, o.args...)
}

func startProcess(o *options) (*process, *ready, error) {
	words := command(o.command)
	started := &process{command: exec.Command(words[0], append(words[1:], o.flags()...)...), errors: &tail{}}
	started.command.Stderr = started.errors
	input, err := started.command.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	output, err := started.command.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	started.input = input
	if err := started.command.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("there is no command %s: install it from a clone (pip install PATH), or set PURGATORIO to it", words[0])
		}
		return nil, nil, fmt.Errorf("the Kafka cluster did not start: %w", err)
	}
	timer := time.AfterFunc(startTimeout, func() { _ = started.command.Process.Kill() })
	line, err := bufio.NewReader(output).ReadBytes('\n')
	timer.Stop()
	told := &ready{}
	if err == nil {
		err = json.Unmarshal(line, told)
	}
	if err != nil {
		_ = started.command.Process.Kill()
		_ = started.command.Wait()
		return nil, nil, fmt.Errorf("the Kafka cluster did not start: %s", started.errors)
	}
	return started, told, nil
}

// end closes the standard input of the cluster, which ends in order, and waits until its process is gone.
func (p *process) end() {
	p.stop.Do(func() {
		_ = p.input.Close()
		timer := time.AfterFunc(stopTimeout, func() { _ = p.command.Process.Kill() })
		_ = p.command.Wait()
		timer.Stop()
	})
}

// tail keeps the end of what is written to it.
type tail struct {
	mutex sync.Mutex
	kept  []byte
}

func (t *tail) Write(more []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.kept = append(t.kept, more...)
	if over := len(t.kept) - maxErrorBytes; over > 0 {
		t.kept = t.kept[over:]
	}
	return len(more), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.kept)
}
