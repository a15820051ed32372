package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// A meter is a proxy to DynamoDB that counts requests, and units as DynamoDB reports them. It
// requests the units on behalf of clients that do not.
type meter struct {
	proxy *httputil.ReverseProxy

	mu sync.Mutex
	usage
	failed error
}

// usage is the result of the count.
type usage struct {
	requests      int
	writes, reads float64 // units
}

// price is in write units: on demand, a read unit costs a fifth of one.
func (u usage) price() float64 { return u.writes + u.reads/5 }

func newMeter(endpoint string) (*meter, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	m := &meter{}
	m.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // which is signed
		},
		ModifyResponse: func(r *http.Response) error { m.note(m.count(r)); return nil },
	}
	return m, nil
}

// reset returns the counts since the last call.
func (m *meter) reset() (usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage
	m.usage = usage{}
	return u, m.failed
}

func (m *meter) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = errors.Join(m.failed, err)
}

// asked is the key of a request's context under which the number of items it asks for is kept.
type asked struct{}

// ServeHTTP asks for the units, and hands the call on.
func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		m.note(fmt.Errorf("read request: %w", err))
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in["ReturnConsumedCapacity"] = json.RawMessage(`"TOTAL"`)
	if _, conditional := in["ConditionExpression"]; conditional {
		// a failed condition costs a write of this item
		in["ReturnValuesOnConditionCheckFailure"] = json.RawMessage(`"ALL_OLD"`)
	}
	body, err := json.Marshal(in)
	if err != nil {
		m.note(fmt.Errorf("write request: %w", err))
	}
	r = r.WithContext(context.WithValue(r.Context(), asked{}, batchKeys(in["RequestItems"])))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	m.proxy.ServeHTTP(w, r)
}

// batchKeys returns the number of items that a batch requests; 0 for any other call.
func batchKeys(items json.RawMessage) int {
	var tables map[string]struct{ Keys []json.RawMessage }
	if json.Unmarshal(items, &tables) != nil {
		return 0
	}
	n := 0
	for _, t := range tables {
		n += len(t.Keys)
	}
	return n
}

// count adds up one answer and leaves it readable.
func (m *meter) count(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_, operation, _ := strings.Cut(r.Request.Header.Get("X-Amz-Target"), ".")
	units, err := consumed(r.StatusCode, body)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	switch operation {
	case "GetItem", "Query":
		m.reads += units
	case "BatchGetItem":
		n, _ := r.Request.Context().Value(asked{}).(int)
		// an item that is not there costs a unit too; DynamoDB Local leaves it out of a batch
		m.reads += units + float64(n-found(body))
	default:
		m.writes += units
	}
	return nil
}

// found counts the items of a batch that are there.
func found(body []byte) int {
	var out struct{ Responses map[string][]json.RawMessage }
	if json.Unmarshal(body, &out) != nil {
		return 0
	}
	n := 0
	for _, items := range out.Responses {
		n += len(items)
	}
	return n
}

// consumed returns the units of an answer. A failed condition costs a write of the stored item,
// which the answer contains, but its units do not include.
func consumed(status int, body []byte) (float64, error) {
	var out struct {
		ConsumedCapacity json.RawMessage
		Item             map[string]any
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return 0, err
	}
	if status != http.StatusOK {
		if !bytes.Contains(body, []byte("ConditionalCheckFailedException")) {
			return 0, fmt.Errorf("answer %d: %s", status, body)
		}
		return max(1, math.Ceil(float64(size(out.Item))/1024)), nil
	}
	type capacity struct{ CapacityUnits float64 }
	var one capacity
	if json.Unmarshal(out.ConsumedCapacity, &one) == nil {
		return one.CapacityUnits, nil
	}
	var list []capacity
	if err := json.Unmarshal(out.ConsumedCapacity, &list); err != nil {
		return 0, fmt.Errorf("no units in %.100q: %w", body, err)
	}
	sum := 0.0
	for _, c := range list {
		sum += c.CapacityUnits
	}
	return sum, nil
}

// size is about what DynamoDB counts of an item: its names and its values.
func size(item map[string]any) int {
	n := 0
	for name, value := range item {
		n += len(name) + valueSize(value)
	}
	return n
}

// valueSize is that of a value with its type, such as {"S": "text"}.
func valueSize(typed any) int {
	n := 0
	object, _ := typed.(map[string]any)
	for kind, value := range object {
		switch v := value.(type) {
		case string:
			n += len(v)
		case map[string]any: // M
			n += 3 + size(v)
		case []any: // L, or a set
			for _, element := range v {
				n += 1 + valueSize(map[string]any{kind: element})
			}
		default: // BOOL, NULL
			n++
		}
	}
	return n
}
