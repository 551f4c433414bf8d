package purgatorio

import (
	"encoding/base64"
	"encoding/json"
)

const recordsPerRead = 10_000

// Record is a record of a topic.
type Record struct {
	Topic     string
	Partition int
	Offset    int64
	// Key and Value are nil if they are null.
	Key, Value []byte
	Headers    []Header
	// TimestampMs is the time of the record; 0 in a record to be written is the time at which it is.
	TimestampMs int64
}

// Header is a header of a record.
type Header struct {
	Name  string
	Value []byte
}

// Text returns a record with a value, for Produce.
func Text(value string) Record { return Record{Value: []byte(value)} }

// Produce appends records with acks=all, without a client. The partition of a record is that of its key, as Kafka's
// producers choose it; records without a key take turns.
func (k *Kafka) Produce(topic string, records ...Record) error {
	written := make([]map[string]any, len(records))
	for number, each := range records {
		written[number] = each.written(nil)
	}
	_, err := k.Do(ProduceRecords{Topic: topic, Records: written})
	return err
}

// ProduceTo appends records to a partition, as Produce does.
func (k *Kafka) ProduceTo(topic string, partition int, records ...Record) error {
	written := make([]map[string]any, len(records))
	for number, each := range records {
		written[number] = each.written(&partition)
	}
	_, err := k.Do(ProduceRecords{Topic: topic, Records: written})
	return err
}

// RecordsOptions has what may be left out of Records.
type RecordsOptions struct {
	// IsolationLevel is read_uncommitted, or read_committed, which leaves out what transactions have aborted, and what
	// comes from the first open one on.
	IsolationLevel string
}

// Records returns the committed records of a topic, by partition and offset, without a client.
func (k *Kafka) Records(topic string, options ...RecordsOptions) ([]Record, error) {
	isolation := given(first(options).IsolationLevel)
	var found []Record
	partition, offset := 0, 0
	for {
		read := ReadRecords{
			Topic: topic, Partition: &partition, Offset: &offset, Limit: Ptr(recordsPerRead), IsolationLevel: isolation,
		}
		var answer struct {
			Records []readRecord `json:"records"`
			More    bool         `json:"more"`
		}
		err := k.do(read, &answer)
		if partition > 0 && IsRefused(err, 404) {
			return found, nil // it was the last partition
		}
		if err != nil {
			return nil, err
		}
		for _, each := range answer.Records {
			found = append(found, each.record(topic))
		}
		if answer.More {
			offset = int(found[len(found)-1].Offset) + 1
		} else {
			partition, offset = partition+1, 0
		}
	}
}

func (r Record) written(partition *int) map[string]any {
	headers := make([]map[string]any, len(r.Headers))
	for number, each := range r.Headers {
		headers[number] = map[string]any{"name": each.Name, "value_base64": encoded(each.Value)}
	}
	written := map[string]any{"key_base64": encoded(r.Key), "value_base64": encoded(r.Value), "headers": headers}
	if partition != nil {
		written["partition"] = *partition
	}
	if r.TimestampMs != 0 {
		written["timestamp_ms"] = r.TimestampMs
	}
	return written
}

// encoded returns bytes as base64; nil for nil.
func encoded(value []byte) any {
	if value == nil {
		return nil
	}
	return base64.StdEncoding.EncodeToString(value)
}

type readHeader struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 *string `json:"value_base64"`
}

type readRecord struct {
	Partition   int          `json:"partition"`
	Offset      int64        `json:"offset"`
	TimestampMs int64        `json:"timestamp_ms"`
	Key         *string      `json:"key"`
	KeyBase64   *string      `json:"key_base64"`
	Value       *string      `json:"value"`
	ValueBase64 *string      `json:"value_base64"`
	Headers     []readHeader `json:"headers"`
}

func (r readRecord) record(topic string) Record {
	record := Record{
		Topic:       topic,
		Partition:   r.Partition,
		Offset:      r.Offset,
		Key:         decoded(r.Key, r.KeyBase64),
		Value:       decoded(r.Value, r.ValueBase64),
		TimestampMs: r.TimestampMs,
	}
	for _, each := range r.Headers {
		record.Headers = append(record.Headers, Header{each.Name, decoded(each.Value, each.ValueBase64)})
	}
	return record
}

func decoded(text, coded *string) []byte {
	if coded != nil {
		decoded, _ := base64.StdEncoding.DecodeString(*coded)
		return decoded
	}
	if text != nil {
		return []byte(*text)
	}
	return nil
}

// Answer is what an operation answers.
type Answer map[string]any

// Into reads an answer into a struct with json tags.
func (a Answer) Into(target any) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, target)
}
