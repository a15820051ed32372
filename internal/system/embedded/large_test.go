package embedded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// sendSQS sends a message to the FIFO ingress queue, as an SDK would.
func (r *running) sendSQS(t *testing.T, id, attribute string) {
	t.Helper()
	r.produce(t, id, id, id, attribute)
}

// produce sends a message by SQS, with an id of the queue's deduplication.
func (r *running) produce(t *testing.T, id, body, dedup, attribute string) {
	t.Helper()
	text := func(value string) map[string]string {
		return map[string]string{"DataType": "String", "StringValue": value}
	}
	data, err := json.Marshal(map[string]any{
		"QueueUrl": "ingress.fifo", "MessageBody": body, "MessageGroupId": "g", "MessageDeduplicationId": dedup,
		"MessageAttributes": map[string]any{"once-stream": text("orders"), "once-id": text(id), "a": text(attribute)},
	})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address, strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	response, err := r.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("message %s: status %d, %v", id, response.StatusCode, err)
	}
}

func TestAMessageWhoseDeadLetterWouldBeTooLargeDoesNotBlockItsGroup(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	defer r.stop()
	r.sendSQS(t, "large", strings.Repeat(`"`, 700<<10))
	r.sendSQS(t, "good", "x")
	r.idle(t)
	if lines := p.lines(); len(lines) != 1 || lines[0].ID != "good" {
		t.Errorf("lines %+v", lines)
	}
	letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{})
	if err != nil || len(letters) != 1 || letters[0].Reason != "invalid" || letters[0].ID != "large" || !strings.Contains(letters[0].Detail, "headers (716801 bytes)") {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	if info, err := r.Redrive(t.Context(), admin.RedriveOptions{}); err != nil || info.Failed != 1 {
		t.Errorf("it was put back without what it lacks: %+v, %v", info, err)
	}
}

const large = `
streams:
  orders: {destinations: [ledger]}
  chain:  {destinations: [orders]}
  topics: {destinations: [ledger, news]}
  count:  {admission: sequence, destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
  orders: {stream: orders}
  news: {sns: news}
`

func TestTheLargestBodiesSurviveARestartADeadLetterAndARedrive(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: large}
	binary := bytes.Repeat([]byte{0, 0xff}, record.MaxBody/2) // base64 in the queues
	refuse := true
	handled := map[string]int{}
	streams := []system.Stream{{Stream: record.Stream{Name: "mine", Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
		if handled[m.ID] = len(m.Body); refuse {
			return &record.RejectError{Detail: "not now"}
		}
		a.Send(record.Effect{To: []string{"ledger"}, Body: m.Body})
		return nil
	}}}}
	p.config = strings.Replace(large, "streams:", "streams:\n  mine: {destinations: [ledger]}", 1)
	r := p.start(streams...)
	for _, stream := range []string{"orders", "chain", "mine"} {
		r.send(t, client.Message{Stream: stream, Key: stream, Group: "g", Body: binary})
	}
	r.idle(t)
	r.stop()
	r = p.start(streams...)
	defer r.stop()
	letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{Content: 1 << 21})
	if err != nil || len(letters) != 1 || letters[0].ID != "mine" || letters[0].Content.Bytes != record.MaxBody {
		t.Fatalf("%d letters, %v", len(letters), err)
	}
	refuse = false
	if info, err := r.Redrive(t.Context(), admin.RedriveOptions{Answered: true}); err != nil || info.Redriven != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	r.idle(t)
	sizes := map[string]int{}
	for _, l := range p.lines() {
		sizes[l.Stream] += len(l.Binary)
	}
	if d := cmp.Diff(map[string]int{"orders": 2 * record.MaxBody, "mine": record.MaxBody}, sizes); d != "" || handled["mine"] != record.MaxBody {
		t.Errorf("bytes of the effects (-want +got):\n%s", d)
	}
	for stream, most := range map[string]int{"orders": record.MaxBody, "chain": record.MaxBody, "mine": record.MaxBody, "topics": record.SmallBody, "count": record.SmallBody} {
		_, err := r.client.Send(t.Context(), client.Message{Stream: stream, Source: "s", Sequence: 1, Body: make([]byte, most+1)})
		problem, ok := errors.AsType[*client.Problem](err)
		if !ok || problem.Status != http.StatusRequestEntityTooLarge || !strings.Contains(problem.Detail, fmt.Sprint(most)) {
			t.Errorf("a byte too much for %s: %v", stream, err)
		}
	}
}
