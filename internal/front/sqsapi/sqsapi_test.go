package sqsapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// A system is the handler in front of real queues.
type system struct {
	testing.TB
	url            string
	handler        *Handler
	standard, fifo *pebblequeue.Queue
}

// limits are the largest bodies of streams.
var limits = map[string]int{"orders": record.MaxBody, "odd.fifo": record.SmallBody}

func start(t testing.TB) *system {
	t.Helper()
	db, err := pebbledb.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := &system{TB: t, standard: open(t, db, "ingress"), fifo: open(t, db, "ingress.fifo")}
	s.handler, err = New(Config{
		Ingress: s.standard, IngressFIFO: s.fifo,
		Stream: func(name string) bool { return name == "orders" || name == "odd.fifo" },
		Check:  func(m *record.Message) error { return record.Stream{MaxBody: limits[m.Stream]}.CheckBody(m) },
		Counts: func(q queue.Queue) (int, int, int) {
			c := q.(*pebblequeue.Queue).Stats()
			return c.Ready, c.InFlight, c.Delayed
		},
		Trusted: []string{wire.Sender},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func open(t testing.TB, db *pebble.DB, name string) *pebblequeue.Queue {
	t.Helper()
	q, err := pebblequeue.Open(db, name, pebblequeue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// call posts an action and returns the status, the answer, and the error code of the older
// protocol.
func (s *system) call(action, body string) (int, map[string]any, string) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.url+"/", strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	if action != "" {
		request.Header.Set("X-Amz-Target", targetPrefix+action)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(answer, &out); err != nil {
		s.Fatalf("%s: %v", answer, err)
	}
	if response.Header.Get("Content-Type") != contentType || response.Header.Get("X-Amzn-Requestid") == "" {
		s.Errorf("headers %v", response.Header)
	}
	return response.StatusCode, out, response.Header.Get("X-Amzn-Query-Error")
}

func (s *system) ok(action, body string) map[string]any {
	s.Helper()
	status, out, _ := s.call(action, body)
	if status != http.StatusOK {
		s.Fatalf("%s: %d %v", action, status, out)
	}
	return out
}

func (s *system) receive(q *pebblequeue.Queue) []queue.Delivery {
	s.Helper()
	out, err := q.Receive(s.Context(), 10, time.Minute, 0)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

func TestASentMessageArrivesAndTheAnswerPassesTheChecksOfSDKs(t *testing.T) {
	s := start(t)
	out := s.ok("SendMessage", `{"QueueUrl":"https://sqs.eu-central-1.amazonaws.com/123/ingress","MessageBody":"hello","MessageAttributes":{
		"once-stream":{"DataType":"String","StringValue":"orders"},"bin":{"DataType":"Binary","BinaryValue":"SGVsbG8="},"n":{"DataType":"Number.int","StringValue":"5"}}}`)
	got := s.receive(s.standard)
	if len(got) != 1 || got[0].ID != out["MessageId"] || got[0].Body != "hello" || got[0].Sender != ownSender {
		t.Fatalf("received %+v, answered %v", got, out)
	}
	if diff := cmp.Diff(map[string]string{"once-stream": "orders", "n": "5"}, got[0].Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	delete(out, "MessageId")
	if len(out) != 2 || out["MD5OfMessageBody"] != "5d41402abc4b2a76b9719d911017c592" || len(out["MD5OfMessageAttributes"].(string)) != 32 {
		t.Errorf("answered %v", out)
	}
	out = s.ok("SendMessage", `{"QueueUrl":"x/orders","MessageBody":"m","MessageAttributes":{"attribName1":{"DataType":"String","StringValue":"attribValue 1"}}}`)
	if out["MD5OfMessageAttributes"] != "19e27d4e946b072f3f58da80d94fd778" {
		t.Errorf("checksum of attributes %v", out)
	}
}

func TestAStreamsNameIsAQueueBoundToIt(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		name, extra, stream string
		queue               *pebblequeue.Queue
	}{
		{"orders", "", "orders", s.standard},
		{"orders.fifo", `,"MessageGroupId":"g","MessageDeduplicationId":"d"`, "orders", s.fifo},
		{"odd.fifo", `,"MessageGroupId":"g","MessageDeduplicationId":"d"`, "odd.fifo", s.fifo},
		{"orders", `,"MessageAttributes":{"once-stream":{"DataType":"String","StringValue":"named"}}`, "named", s.standard},
	} {
		s.ok("SendMessage", `{"QueueUrl":"`+c.name+`","MessageBody":"x"`+c.extra+`}`)
		got := s.receive(c.queue)
		if len(got) != 1 || got[0].Attributes[wire.AttrStream] != c.stream {
			t.Errorf("%s: received %+v", c.name, got)
		}
		c.queue.Delete(t.Context(), []string{got[0].Receipt})
	}
}

func TestAFIFOSendKeepsGroupAndIdentity(t *testing.T) {
	s := start(t)
	out := s.ok("SendMessage", `{"QueueUrl":"/orders.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d-1"}`)
	if out["SequenceNumber"] == "" || out["SequenceNumber"] == nil {
		t.Errorf("answered %v", out)
	}
	m, origin, err := wire.FromQueue(&s.receive(s.fifo)[0], wire.Defaults{Trusted: []string{wire.Sender}})
	if err != nil || m.ID != "d-1" || m.Group != "g" || m.Stream != "orders" || origin != wire.FromDeduplicationID {
		t.Errorf("%+v, %d, %v", m, origin, err)
	}
	s.ok("SendMessage", `{"QueueUrl":"/orders.fifo","MessageBody":"x","MessageGroupId":"h","MessageAttributes":{"once-id":{"DataType":"String","StringValue":"mine"}}}`)
}

func TestASenderCannotTakeOnAnIdentity(t *testing.T) {
	s := start(t)
	s.ok("SendMessage", `{"QueueUrl":"orders","MessageBody":"x","MessageAttributes":{"once-meta":{"DataType":"String","StringValue":"{\"principal\":\"alice\"}"}},
		"MessageSystemAttributes":{"SenderId":{"DataType":"String","StringValue":"once"}}}`)
	if m, _, err := wire.FromQueue(&s.receive(s.standard)[0], wire.Defaults{Trusted: []string{wire.Sender}}); err != nil || m.Principal != "" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := New(Config{Ingress: s.standard, IngressFIFO: s.fifo, Stream: func(string) bool { return true }, Trusted: []string{ownSender}}); err == nil {
		t.Error("made a handler whose sender is trusted")
	}
}

func TestABatchReportsTheResultOfEachEntry(t *testing.T) {
	s := start(t)
	out := s.ok("SendMessageBatch", `{"QueueUrl":"orders.fifo","Entries":[
		{"Id":"a","MessageBody":"1","MessageGroupId":"g","MessageDeduplicationId":"1"},
		{"Id":"b","MessageBody":"2"},
		{"Id":"c","MessageBody":"3\u0000","MessageGroupId":"g","MessageDeduplicationId":"3"},
		{"Id":"d","MessageBody":"4","MessageGroupId":"g","MessageDeduplicationId":"4"}]}`)
	codes := map[string]string{}
	for _, f := range out["Failed"].([]any) {
		e := f.(map[string]any)
		codes[e["Id"].(string)] = e["Code"].(string)
		if e["SenderFault"] != true {
			t.Errorf("%v", e)
		}
	}
	if diff := cmp.Diff(map[string]string{"b": "MissingParameter", "c": "InvalidMessageContents"}, codes); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	sent := out["Successful"].([]any)
	if len(sent) != 2 || sent[0].(map[string]any)["Id"] != "a" || sent[1].(map[string]any)["MD5OfMessageBody"] != "a87ff679a2f3e71d9181a67b7542122c" {
		t.Errorf("sent %v", sent)
	}
	var got []string
	for _, d := range s.receive(s.fifo) {
		got = append(got, d.Body)
	}
	if diff := cmp.Diff([]string{"1", "4"}, got); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	s.ok("SendMessageBatch", `{"QueueUrl":"orders","Entries":[{"Id":"a","MessageBody":""}]}`)
}

func TestErrorsAreThoseOfSQS(t *testing.T) {
	s := start(t)
	entries := func(n int, entry string) string {
		return `{"QueueUrl":"orders","Entries":[` + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + `]}`
	}
	big := strings.Repeat("x", record.MaxBody)
	var five []string
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		five = append(five, `{"Id":"`+id+`","MessageBody":"`+big+`"}`)
	}
	send := func(rest string) string { return `{"QueueUrl":"orders","MessageBody":"x"` + rest + `}` }
	fifo := func(rest string) string { return `{"QueueUrl":"orders.fifo","MessageBody":"x"` + rest + `}` }
	attributes := func(json string) string { return send(`,"MessageAttributes":{` + json + `}`) }
	many := `"a":{"DataType":"String","StringValue":"1"}`
	for _, c := range "bcdefghij" {
		many += `,"` + string(c) + `":{"DataType":"String","StringValue":"1"}`
	}
	for _, c := range []struct{ name, action, body, shape, code string }{
		{"no such queue", "SendMessage", `{"QueueUrl":"http://h/0/nope","MessageBody":"x"}`, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"},
		{"no such queue by name", "GetQueueUrl", `{"QueueName":"nope.fifo"}`, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"},
		{"no queue", "SendMessage", `{}`, "MissingParameter", "MissingParameter"},
		{"no body", "SendMessage", `{"QueueUrl":"orders"}`, "MissingParameter", "MissingParameter"},
		{"not JSON", "SendMessage", `{`, "InvalidParameterValue", "InvalidParameterValue"},
		{"not UTF-8", "SendMessage", send(`,"x":"` + "\xff" + `"`), "InvalidMessageContents", "InvalidMessageContents"},
		{"wrong type", "SendMessage", `{"QueueUrl":7}`, "InvalidParameterValue", "InvalidParameterValue"},
		{"odd character", "SendMessage", `{"QueueUrl":"orders","MessageBody":"\u0001"}`, "InvalidMessageContents", "InvalidMessageContents"},
		{"body too large", "SendMessage", `{"QueueUrl":"orders","MessageBody":"` + big + `x"}`, "InvalidParameterValue", "InvalidParameterValue"},
		{"request too large", "SendMessage", `{"QueueUrl":"` + strings.Repeat("x", maxRequest) + `"}`, "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong"},
		{"delay", "SendMessage", send(`,"DelaySeconds":901`), "InvalidParameterValue", "InvalidParameterValue"},
		{"delay in a group", "SendMessage", fifo(`,"MessageGroupId":"g","MessageDeduplicationId":"d","DelaySeconds":1`), "InvalidParameterValue", "InvalidParameterValue"},
		{"no group", "SendMessage", fifo(`,"MessageDeduplicationId":"d"`), "MissingParameter", "MissingParameter"},
		{"no identity", "SendMessage", fifo(`,"MessageGroupId":"g"`), "InvalidParameterValue", "InvalidParameterValue"},
		{"odd deduplication id", "SendMessage", fifo(`,"MessageGroupId":"g","MessageDeduplicationId":"d d"`), "InvalidParameterValue", "InvalidParameterValue"},
		{"odd group", "SendMessage", fifo(`,"MessageGroupId":"g g","MessageDeduplicationId":"d"`), "InvalidParameterValue", "InvalidParameterValue"},
		{"deduplication on a standard queue", "SendMessage", send(`,"MessageDeduplicationId":"d"`), "InvalidParameterValue", "InvalidParameterValue"},
		{"attribute type", "SendMessage", attributes(`"a":{"DataType":"Text","StringValue":"x"}`), "InvalidParameterValue", "InvalidParameterValue"},
		{"attribute value", "SendMessage", attributes(`"a":{"DataType":"String","BinaryValue":"eA=="}`), "InvalidParameterValue", "InvalidParameterValue"},
		{"attribute name", "SendMessage", attributes(`"AWS.a":{"DataType":"String","StringValue":"x"}`), "InvalidParameterValue", "InvalidParameterValue"},
		{"attribute number", "SendMessage", attributes(`"a":{"DataType":"Number","StringValue":"x"}`), "InvalidParameterValue", "InvalidParameterValue"},
		{"attribute characters", "SendMessage", attributes(`"a":{"DataType":"String","StringValue":"\u0001"}`), "InvalidMessageContents", "InvalidMessageContents"},
		{"ten attributes on a bound queue", "SendMessage", attributes(many), "InvalidParameterValue", "InvalidParameterValue"},
		{"eleven attributes", "SendMessage", attributes(many + `,"k":{"DataType":"String","StringValue":"1"}`), "InvalidParameterValue", "InvalidParameterValue"},
		{"empty batch", "SendMessageBatch", entries(0, ""), "EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest"},
		{"eleven entries", "SendMessageBatch", entries(11, `{"Id":"a"}`), "TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"},
		{"same id", "SendMessageBatch", entries(2, `{"Id":"a","MessageBody":"x"}`), "BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"},
		{"odd id", "SendMessageBatch", entries(1, `{"Id":"a b","MessageBody":"x"}`), "InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId"},
		{"batch too large", "SendMessageBatch", entries(1, strings.Join(five, ",")), "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong"},
		{"unknown attribute", "GetQueueAttributes", `{"QueueUrl":"orders","AttributeNames":["Nope"]}`, "InvalidAttributeName", "InvalidAttributeName"},
		{"unsupported action", "ReceiveMessage", `{}`, "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"},
		{"no action", "", `{}`, "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, code := s.call(c.action, c.body)
			if status != http.StatusBadRequest || out["__type"] != "com.amazonaws.sqs#"+c.shape || code != c.code+";Sender" || out["message"] == "" {
				t.Errorf("%d %v %q", status, out, code)
			}
		})
	}
	if n := s.standard.Len() + s.fifo.Len(); n != 0 {
		t.Errorf("%d messages of refused requests", n)
	}
}

func TestOnlyPOSTIsAnswered(t *testing.T) {
	s := start(t)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(`{"QueueUrl":"orders","MessageBody":"x"}`))
		r.Header.Set("X-Amz-Target", targetPrefix+"SendMessage")
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "UnsupportedOperation") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
	if n := s.standard.Len(); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
}

func TestTheErrorForAnUnsupportedActionNamesTheSupportedOnes(t *testing.T) {
	s := start(t)
	_, out, _ := s.call("PurgeQueue", `{}`)
	for _, word := range []string{"PurgeQueue", "SendMessage", "SendMessageBatch", "GetQueueUrl", "GetQueueAttributes"} {
		if !strings.Contains(out["message"].(string), word) {
			t.Errorf("%q does not name %s", out["message"], word)
		}
	}
}

func TestQueueURLsLeadBackToTheirQueues(t *testing.T) {
	s := start(t)
	for _, name := range []string{"ingress", "ingress.fifo", "orders", "orders.fifo"} {
		url := s.ok("GetQueueUrl", `{"QueueName":"`+name+`"}`)["QueueUrl"].(string)
		if !strings.HasPrefix(url, s.url+"/") || !strings.HasSuffix(url, "/"+name) {
			t.Errorf("%s is at %s", name, url)
		}
		attributes := s.ok("GetQueueAttributes", `{"QueueUrl":"`+url+`","AttributeNames":["All"]}`)["Attributes"].(map[string]any)
		if fifo := attributes["FifoQueue"] == "true"; fifo != queue.FIFO(name) {
			t.Errorf("%s: %v", name, attributes)
		}
	}
}

func TestAQueueURLHasTheSchemeOfItsRequest(t *testing.T) {
	s := start(t)
	// a request to an https URL has a TLS state
	for _, scheme := range []string{"http", "https"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, scheme+"://queues.test/", strings.NewReader(`{"QueueName":"orders"}`))
		r.Header.Set("X-Amz-Target", targetPrefix+"GetQueueUrl")
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		if want := `{"QueueUrl":"` + scheme + `://queues.test/000000000000/orders"}`; w.Body.String() != want {
			t.Errorf("got %s, want %s", w.Body, want)
		}
	}
}

func TestAttributesCountMessages(t *testing.T) {
	s := start(t)
	s.ok("SendMessage", `{"QueueUrl":"orders","MessageBody":"x"}`)
	s.ok("SendMessage", `{"QueueUrl":"orders","MessageBody":"x","DelaySeconds":60}`)
	got := s.ok("GetQueueAttributes", `{"QueueUrl":"orders","AttributeNames":["ApproximateNumberOfMessages","ApproximateNumberOfMessagesDelayed","Policy"]}`)
	want := map[string]any{"Attributes": map[string]any{"ApproximateNumberOfMessages": "1", "ApproximateNumberOfMessagesDelayed": "1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

func TestAnUnreachableQueueIsAServerError(t *testing.T) {
	s := start(t)
	_ = s.standard.Close()
	status, out, code := s.call("SendMessage", `{"QueueUrl":"orders","MessageBody":"x"}`)
	if status != http.StatusInternalServerError || code != "InternalError;Receiver" || strings.Contains(out["message"].(string), "closed") {
		t.Errorf("%d %v %q", status, out, code)
	}
	out = s.ok("SendMessageBatch", `{"QueueUrl":"orders","Entries":[{"Id":"a","MessageBody":"x"}]}`)
	if f := out["Failed"].([]any)[0].(map[string]any); f["SenderFault"] != false || f["Code"] != "InternalError" {
		t.Errorf("%v", f)
	}
}

func FuzzAnswer(f *testing.F) {
	s := start(f)
	f.Add("SendMessage", []byte(`{"QueueUrl":"orders","MessageBody":"x","MessageAttributes":{"a":{"DataType":"String","StringValue":"b"}}}`))
	f.Add("SendMessage", []byte(`{"QueueUrl":"orders.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d"}`))
	f.Add("SendMessageBatch", []byte(`{"QueueUrl":"ingress","Entries":[{"Id":"a","MessageBody":"x","DelaySeconds":1}]}`))
	f.Add("GetQueueUrl", []byte(`{"QueueName":"ingress"}`))
	f.Add("GetQueueAttributes", []byte(`{"QueueUrl":"ingress","AttributeNames":["All"]}`))
	f.Fuzz(func(t *testing.T, action string, body []byte) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("X-Amz-Target", targetPrefix+action)
		_, err := s.handler.answer(r, httptest.NewRecorder())
		var e *apiError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("an input is our fault: %v", err)
		}
		for _, q := range []*pebblequeue.Queue{s.standard, s.fifo} {
			out, err := q.Receive(t.Context(), 10, time.Minute, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range out {
				if d.Sender != ownSender {
					t.Fatalf("sent by %q", d.Sender)
				}
				q.Delete(t.Context(), []string{d.Receipt})
			}
		}
	})
}

func TestABodyThatItsStreamDoesNotTakeIsRefusedBeforeItIsAccepted(t *testing.T) {
	s := start(t)
	for name, c := range map[string]struct {
		stream, body, meta string
		taken              bool
	}{
		"the largest":                 {"orders", strings.Repeat("x", 1<<20-200), "", true},
		"the largest of its stream":   {"odd.fifo", strings.Repeat("x", record.SmallBody), "", true},
		"a byte more":                 {"odd.fifo", strings.Repeat("x", record.SmallBody+1), "", false},
		"as large when it is read":    {"odd.fifo", base64.StdEncoding.EncodeToString(make([]byte, record.SmallBody)), `{"encoding":"base64"}`, true},
		"a byte more when it is read": {"odd.fifo", base64.StdEncoding.EncodeToString(make([]byte, record.SmallBody+1)), `{"encoding":"base64"}`, false},
	} {
		attributes := map[string]any{wire.AttrStream: map[string]string{"DataType": "String", "StringValue": c.stream}}
		if c.meta != "" {
			attributes[wire.AttrMeta] = map[string]string{"DataType": "String", "StringValue": c.meta}
		}
		request, err := json.Marshal(map[string]any{
			"QueueUrl": "ingress", "Entries": []any{
				map[string]any{"Id": "a", "MessageBody": c.body, "MessageAttributes": attributes}, map[string]any{"Id": "b", "MessageBody": "small", "MessageAttributes": attributes},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		failed := fmt.Sprint(s.ok("SendMessageBatch", string(request))["Failed"])
		if refused := strings.Contains(failed, "Id:a") && strings.Contains(failed, "body must be at most 262144 bytes in this stream"); refused == c.taken || strings.Contains(failed, "Id:b") {
			t.Errorf("%s: %s", name, failed)
		}
		if got := s.receive(s.standard); c.taken && len(got) != 2 || !c.taken && len(got) != 1 {
			t.Errorf("%s: %d messages", name, len(got))
		}
	}
}
