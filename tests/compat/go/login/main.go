// Logs in by SASL and produces for some seconds: CLIENT BOOTSTRAP MECHANISM USER PASSWORD CA SECONDS.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(name, user, password string) sasl.Mechanism {
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: password}.AsMechanism()
	}
}

func run(args []string) (int, error) {
	authority, err := os.ReadFile(args[5])
	if err != nil {
		return 0, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(args[1], ",")...),
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
		kgo.SASL(mechanism(args[2], args[3], args[4])),
		kgo.AllowAutoTopicCreation(),
	)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	seconds, _ := strconv.Atoi(args[6])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	context, cancel := context.WithTimeout(context.Background(), time.Duration(seconds+10)*time.Second)
	defer cancel()
	if err := client.Ping(context); err != nil { // a producer would try again until its time is over
		return 0, err
	}
	sent := 0
	for {
		record := &kgo.Record{Topic: "orders", Value: []byte("x")}
		if err := client.ProduceSync(context, record).FirstErr(); err != nil {
			return sent, err
		}
		sent++
		if time.Now().After(end) {
			return sent, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func main() {
	sent, err := run(os.Args[1:])
	if err != nil {
		fmt.Printf("refused %v\n", err)
		return
	}
	fmt.Printf("sent %d\n", sent)
}
