// Command worker is a worker with franz-go or Sarama: `CLIENT BOOTSTRAP`; see `transactions/harness.py`.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// client does the commands; copy runs until the context ends, and returns why it has to be called anew.
type client interface {
	init(id string) error
	begin() error
	send(topic, value string) error
	commit() error
	abort() error
	read(topic, isolation string, count int) ([]string, error)
	copy(ctx context.Context, source, target, group, id string) error
	fenced(err error) bool
}

// say prints a line in one write.
func say(words ...any) {
	os.Stdout.WriteString(strings.Join(strings.Fields(fmt.Sprintln(words...)), " ") + "\n")
}

func main() {
	bootstrap := strings.Split(os.Args[2], ",")
	clients := map[string]client{"franz-go": &franz{bootstrap: bootstrap}, "sarama": &withSarama{bootstrap: bootstrap}}
	used := clients[os.Args[1]]
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if words[0] == "copy" {
			copyUntilInputEnds(used, lines, words[1:])
			say("ok")
			continue
		}
		values, err := do(used, words)
		switch {
		case err != nil && used.fenced(err):
			say("fenced")
		case err != nil:
			say("error", err)
		case values != nil:
			say("values", strings.Join(values, ","))
		default:
			say("ok")
		}
	}
}

func do(used client, words []string) (values []string, err error) {
	switch words[0] {
	case "init":
		err = used.init(words[1])
	case "begin":
		err = used.begin()
	case "send":
		err = used.send(words[1], words[2])
	case "commit":
		err = used.commit()
	case "abort":
		err = used.abort()
	case "read":
		var count int
		if count, err = strconv.Atoi(words[3]); err == nil {
			values, err = used.read(words[1], words[2], count)
		}
	default:
		err = fmt.Errorf("unknown command %s", words[0])
	}
	return values, err
}

func copyUntilInputEnds(used client, lines *bufio.Scanner, words []string) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for lines.Scan() {
		}
		stop()
	}()
	for ctx.Err() == nil {
		if err := used.copy(ctx, words[0], words[1], words[2], words[3]); err != nil && ctx.Err() == nil {
			say("restarted", err)
			time.Sleep(pause)
		}
	}
}
