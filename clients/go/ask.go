package purgatorio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"
)

// An operation may move the brokers' time, or restore a snapshot: both take seconds at most.
const askTimeout = 90 * time.Second

var client = &http.Client{Timeout: askTimeout}

// Operation is something that is done to a cluster: KillBroker{ID: 2}, and all others in operations.go.
type Operation interface {
	http() (method, path string)
}

// Do does an operation, and returns the answer; the error is a *Refused if the cluster does not do it.
func (k *Kafka) Do(operation Operation) (Answer, error) {
	answer := Answer{}
	if err := k.do(operation, &answer); err != nil {
		return nil, err
	}
	return answer, nil
}

func (k *Kafka) do(operation Operation, answer any) error {
	method, path := operation.http()
	path, query, body := filled(path, operation)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var content io.Reader
	if method != http.MethodGet {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, k.AdminURL+"/api/v1"+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token := k.knownToken(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the Kafka cluster does not answer: %w\n%s", err, k.process.errors)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var told struct {
			Error string `json:"error"`
		}
		if err := json.NewDecoder(response.Body).Decode(&told); err != nil {
			told.Error = response.Status
		}
		return &Refused{response.StatusCode, told.Error}
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// knownToken returns the token that the cluster has made, or the one that it was given in the environment.
func (k *Kafka) knownToken() string {
	if k.token != "" {
		return k.token
	}
	return os.Getenv("PURGATORIO_ADMIN_TOKEN")
}

// filled returns the path, the query and the body of an operation, by the tags of its fields.
func filled(path string, operation Operation) (string, url.Values, map[string]any) {
	query, body := url.Values{}, map[string]any{}
	value := reflect.ValueOf(operation)
	for number := range value.NumField() {
		tag, given := value.Type().Field(number).Tag, value.Field(number)
		kind := given.Kind()
		if (kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map) && given.IsNil() {
			continue
		}
		if kind == reflect.Pointer {
			given = given.Elem()
		}
		if name := tag.Get("path"); name != "" {
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(fmt.Sprint(given.Interface())))
		} else if name := tag.Get("query"); name != "" {
			query.Set(name, fmt.Sprint(given.Interface()))
		} else if tag.Get("whole") != "" {
			for _, key := range given.MapKeys() {
				body[key.String()] = given.MapIndex(key).Interface()
			}
		} else {
			body[tag.Get("body")] = given.Interface()
		}
	}
	return path, query, body
}
