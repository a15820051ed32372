package embedded_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/admin"
)

// sendSQS sends a message to the FIFO ingress queue, as an SDK would.
func (r *running) sendSQS(t *testing.T, id, attribute string) {
	t.Helper()
	text := func(value string) map[string]string {
		return map[string]string{"DataType": "String", "StringValue": value}
	}
	body, err := json.Marshal(map[string]any{
		"QueueUrl": "ingress.fifo", "MessageBody": id, "MessageGroupId": "g", "MessageDeduplicationId": id,
		"MessageAttributes": map[string]any{"once-stream": text("orders"), "once-id": text(id), "a": text(attribute)},
	})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	response, err := http.DefaultClient.Do(request)
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
