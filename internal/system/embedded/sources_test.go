package embedded_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const withSources = `
streams:
  orders:  {destinations: [ledger]}
  uploads: {destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
ingress:
  orders:  {from: eventbridge, id: $.detail.order, fifo: true, group: $.detail.customer}
  uploads: {from: s3}
`

// postSQS posts SendMessage to a queue, and returns the status and the answer.
func (r *running) postSQS(t *testing.T, queue, body string, fields map[string]any) (int, string) {
	t.Helper()
	in := map[string]any{"QueueUrl": "http://" + r.address + "/000000000000/" + queue, "MessageBody": body}
	maps.Copy(in, fields)
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address+"/", strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	response, err := r.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

func TestTheQueueOfASourceOnThisMachineReadsItsMessagesAsOnAWS(t *testing.T) {
	p := &place{t: t, dir: t.TempDir(), config: withSources}
	r := p.start()
	defer r.stop()
	group := map[string]any{"MessageGroupId": "g"}
	event := `{"id":"1","detail":{"order":"o-1","customer":"c-7"}}`
	upload := `{"Records":[{"eventName":"e","s3":{"bucket":{"name":"b"},"object":{"key":"k","sequencer":"1"}}},{"eventName":"e","s3":{"bucket":{"name":"b"},"object":{"key":"l","sequencer":"2"}}}]}`
	for range 2 {
		if status, answer := r.postSQS(t, "ingress-orders.fifo", event, group); status != http.StatusOK || !strings.Contains(answer, "MessageId") {
			t.Errorf("%d %s", status, answer)
		}
		if status, answer := r.postSQS(t, "ingress-uploads", upload, nil); status != http.StatusOK {
			t.Errorf("%d %s", status, answer)
		}
	}
	for name, refused := range map[string]struct {
		queue, body string
		fields      map[string]any
		want        string
	}{
		"no identity":     {"ingress-orders.fifo", `{"detail":{}}`, group, "$.detail.order is missing"},
		"not its kind":    {"ingress-orders", event, nil, "does not exist"},
		"unknown":         {"ingress-nobody", event, nil, "does not exist"},
		"a delay":         {"ingress-uploads", upload, map[string]any{"DelaySeconds": 3}, "DelaySeconds"},
		"another stream":  {"ingress-uploads", upload, map[string]any{"MessageAttributes": map[string]any{"once-stream": map[string]any{"DataType": "String", "StringValue": "orders"}}}, "once-stream must be uploads"},
		"without a group": {"ingress-orders.fifo", event, nil, "MessageGroupId"},
	} {
		if status, answer := r.postSQS(t, refused.queue, refused.body, refused.fields); status != http.StatusBadRequest || !strings.Contains(answer, refused.want) {
			t.Errorf("%s: %d %s, want %q", name, status, answer, refused.want)
		}
	}
	r.idle(t)
	lines, err := os.ReadFile(filepath.Join(p.dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(lines); strings.Count(got, "\n") != 3 || strings.Count(got, `"group":"c-7"`) != 1 || strings.Count(got, `"group":"b/k"`) != 1 || strings.Count(got, `"group":"b/l"`) != 1 {
		t.Errorf("effects:\n%s", got)
	}
}
