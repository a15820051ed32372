package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/front/batch"
)

// keysOf returns the keys of the lines of a batch.
func keysOf(body string) (keys []string) {
	for line := range strings.Lines(body) {
		var r struct{ Key string }
		_ = json.Unmarshal([]byte(line), &r)
		keys = append(keys, r.Key)
	}
	return keys
}

// answers is a server that answers each line: 202, or the problem that is named for the key.
func answers(refuse map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/x-ndjson")
		for i, key := range keysOf(string(body)) {
			status, name, _ := strings.Cut(refuse[key], " ")
			if name == "" {
				_, _ = fmt.Fprintf(w, `{"status":202,"id":%q,"replayed":%v}`+"\n", key, status == "replayed")
				continue
			}
			_, _ = fmt.Fprintf(w, `{"status":%s,"problem":{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#%s","title":"T","status":%s,"line":%d,"retry_after":7}}`+"\n", status, name, status, i+1)
		}
	}
}

func batchOf(keys ...string) (messages []client.Message) {
	for _, key := range keys {
		messages = append(messages, client.Message{Stream: "orders", Key: key, Body: []byte("x")})
	}
	return messages
}

// outcomes describes results: the id of an acknowledged message, or the error.
func outcomes(results []client.Result) (list []string) {
	for _, r := range results {
		var p *client.Problem
		var open *client.UnacknowledgedError
		switch {
		case r.Err == nil && r.Receipt.Replayed:
			list = append(list, r.Receipt.ID+" replayed")
		case r.Err == nil:
			list = append(list, r.Receipt.ID)
		case errors.As(r.Err, &open):
			list = append(list, fmt.Sprintf("%s open, unsent %v", open.Key, open.Unsent))
		case errors.As(r.Err, &p):
			list = append(list, fmt.Sprintf("%s %d %s, ambiguous %v", p.Key, p.Status, p.Type, p.Ambiguous))
		default:
			list = append(list, r.Err.Error())
		}
	}
	return list
}

func want(t *testing.T, results []client.Result, list ...string) {
	t.Helper()
	if d := cmp.Diff(list, outcomes(results)); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

func TestSendBatchHasAResultForEachMessageInOrder(t *testing.T) {
	c, s := newClient(t, client.Options{}, answers(map[string]string{"b": "replayed", "c": "422 key-reuse"}))
	messages := append(batchOf("a", "b", "c", "", "é"), client.Message{Stream: "orders", Key: "d", Group: "g"})
	results := c.SendBatch(t.Context(), messages)
	want(t, results, "a", "b replayed", "c 422 key-reuse, ambiguous false", "key-1", "describe message: key must be at most 256 characters of printable ASCII", "d")
	if r := results[5].Receipt; len(s.tries) != 1 || s.tries[0].Path != "/v1/streams/orders/batch" || r.Group != "g" || r.Stream != "orders" || r.Status != "accepted" {
		t.Errorf("tries %+v, receipt %+v", s.tries, r)
	}
}

func TestSendBatchRetriesOnlyMessagesWithoutAnAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var reasons []error
		c, s := newClient(t, client.Options{OnRetry: func(err error, _ time.Duration) { reasons = append(reasons, err) }},
			answers(map[string]string{"b": "503 unavailable", "c": "422 key-reuse", "d": "409 leased"}), cut, answers(map[string]string{"d": "400 invalid-message"}))
		want(t, c.SendBatch(t.Context(), batchOf("a", "b", "c", "d")), "a", "b", "c 422 key-reuse, ambiguous false", "d 400 invalid-message, ambiguous true")
		var sent []string
		for _, try := range s.tries {
			sent = append(sent, strings.Join(keysOf(try.Body), " "))
		}
		if d := cmp.Diff([]string{"a b c d", "b d", "b d"}, sent); d != "" {
			t.Errorf("sent (-want +got):\n%s", d)
		}
		if waited := time.Since(start); waited < 7*time.Second || len(reasons) != 2 || !errors.Is(reasons[0], client.Unavailable) {
			t.Errorf("waited %v, retried because of %v", waited, reasons)
		}
	})
}

func TestSendBatchSplitsWhatIsTooLarge(t *testing.T) {
	var keys, list []string
	for i := range 2100 {
		keys = append(keys, fmt.Sprint(i))
	}
	list = append(list, keys...)
	c, s := newClient(t, client.Options{}, answers(nil))
	want(t, c.SendBatch(t.Context(), batchOf(keys...)), list...)
	var sizes []int
	for _, try := range s.tries {
		sizes = append(sizes, len(keysOf(try.Body)))
	}
	if d := cmp.Diff([]int{1000, 1000, 100}, sizes); d != "" {
		t.Errorf("messages of each request (-want +got):\n%s", d)
	}

	c, s = newClient(t, client.Options{}, answers(nil))
	messages := batchOf(keys[:20]...)
	for i := range messages {
		messages[i].Body = bytes.Repeat([]byte("x"), 200<<10)
	}
	want(t, c.SendBatch(t.Context(), messages), list[:20]...)
	if len(s.tries) < 2 {
		t.Errorf("%d requests", len(s.tries))
	}
	for _, try := range s.tries {
		if len(try.Body) > 5<<19 {
			t.Errorf("a request of %d bytes", len(try.Body))
		}
	}
}

func TestSendBatchSendsAMessageThatIsLargerThanARequestAlone(t *testing.T) {
	c, s := newClient(t, client.Options{}, answers(nil))
	messages := batchOf("a", "b", "c")
	messages[1].Body = make([]byte, 2<<20)
	want(t, c.SendBatch(t.Context(), messages), "a", "b", "c")
	if len(s.tries) != 3 {
		t.Errorf("%d requests", len(s.tries))
	}
}

func TestTextThatIsNotUTF8IsReplacedInALine(t *testing.T) {
	c, s := newClient(t, client.Options{}, answers(nil))
	c.SendBatch(t.Context(), []client.Message{{Stream: "orders", Key: "k", Group: "a\xff"}})
	if want := `{"key":"k","group":"a\ufffd"}` + "\n"; s.tries[0].Body != want {
		t.Errorf("%q", s.tries[0].Body)
	}
}

func TestSendBatchHalvesARequestThatIsTooLargeForAProxy(t *testing.T) {
	proxy := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(keysOf(string(body))) > 2 || strings.Contains(string(body), `"huge"`) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answers(nil)(w, r)
	}
	c, _ := newClient(t, client.Options{}, proxy)
	want(t, c.SendBatch(t.Context(), batchOf("a", "b", "c", "d", "e")), "a", "b", "c", "d", "e")
	want(t, c.SendBatch(t.Context(), batchOf("a", "huge")), "a", "huge 413 , ambiguous true")
}

func TestSendBatchSendsOneByOneToAServerWithoutBatches(t *testing.T) {
	old := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/batch") {
			problem(404, "unknown-route")(w, r)
			return
		}
		accept(w, r)
	}
	c, s := newClient(t, client.Options{}, old)
	want(t, c.SendBatch(t.Context(), batchOf("a", "b")), "a", "b")
	if len(s.tries) != 3 || s.tries[2].Key != `"b"` {
		t.Errorf("tries %+v", s.tries)
	}
}

func TestAnAnswerToABatchThatIsNotOfAOnceServerIsAmbiguous(t *testing.T) {
	right := `{"status":202,"id":"a","replayed":false}` + "\n"
	for name, step := range map[string]http.HandlerFunc{
		"a login page":       plain(200, "<html>", "Content-Type", "text/html"),
		"too few results":    plain(200, right, "Content-Type", "application/x-ndjson"),
		"too many results":   plain(200, right+right+right, "Content-Type", "application/x-ndjson"),
		"another id":         plain(200, right+right, "Content-Type", "application/x-ndjson"),
		"another status":     plain(200, right+strings.Replace(right, "202", "200", 1), "Content-Type", "application/x-ndjson"),
		"a problem of other": plain(200, right+`{"status":422,"problem":{"type":"about:blank"}}`+"\n", "Content-Type", "application/x-ndjson"),
	} {
		t.Run(name, func(t *testing.T) {
			c, s := newClient(t, client.Options{}, step)
			want(t, c.SendBatch(t.Context(), batchOf("a", "b")), "a 200 , ambiguous true", "b 200 , ambiguous true")
			if len(s.tries) != 1 {
				t.Errorf("%d tries", len(s.tries))
			}
		})
	}
}

func TestTheMediaTypeOfAnAnswerToABatchMayHaveParameters(t *testing.T) {
	c, _ := newClient(t, client.Options{}, plain(200, `{"status":202,"id":"a","replayed":false}`+"\n", "Content-Type", "Application/X-NDJSON; charset=utf-8"))
	want(t, c.SendBatch(t.Context(), batchOf("a")), "a")
}

func TestAProblemOfTheWholeBatchIsThatOfEachMessage(t *testing.T) {
	c, s := newClient(t, client.Options{}, problem(404, "unknown-stream"))
	var keys, list []string
	for i := range 1001 {
		keys, list = append(keys, fmt.Sprint(i)), append(list, fmt.Sprintf("%d 404 unknown-stream, ambiguous false", i))
	}
	want(t, c.SendBatch(t.Context(), batchOf(keys...)), list...)
	if len(s.tries) != 1 {
		t.Errorf("%d tries", len(s.tries))
	}
}

func TestNothingIsSentBehindAMessageWhoseFateIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, client.Options{MaxElapsed: time.Second}, cut)
		keys := make([]string, 1001)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		results := outcomes(c.SendBatch(t.Context(), batchOf(keys...)))
		if results[999] != "999 open, unsent false" || results[1000] != "1000 open, unsent true" {
			t.Errorf("results %q", results[999:])
		}
		for _, try := range s.tries {
			if len(keysOf(try.Body)) != 1000 {
				t.Errorf("a try of %d messages", len(keysOf(try.Body)))
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, _ := newClient(t, client.Options{}, cut)
	for _, r := range c.SendBatch(ctx, batchOf("a")) {
		if !errors.Is(r.Err, context.Canceled) {
			t.Errorf("result %+v", r)
		}
	}
}

func TestTheServerReadsTheSameMessageFromALine(t *testing.T) {
	for name, m := range map[string]client.Message{
		"JSON":            {ContentType: "application/json", Body: []byte(`{"a": [1, "é"]}`)},
		"JSON of lines":   {ContentType: "application/json", Body: []byte("{\n}")},
		"JSON in spaces":  {ContentType: "application/json", Body: []byte(" {} ")},
		"not JSON at all": {ContentType: "application/json", Body: []byte("{")},
		"JSON, not UTF-8": {ContentType: "application/json", Body: []byte("\"\xff\"")},
		"half a pair":     {ContentType: "application/json", Body: []byte(`"\ud800"`)},
		"problem":         {ContentType: "application/problem+json", Body: []byte("null")},
		"text":            {ContentType: "text/plain; charset=utf-8", Body: []byte("a\n\"b\"\u2028<&>\x00\ufffd")},
		"bytes of text":   {ContentType: "text/plain", Body: []byte("\xff")},
		"bytes":           {ContentType: "application/octet-stream", Body: []byte{0, 255}},
		"no type":         {Body: []byte("{}")},
		"empty":           {ContentType: "text/plain"},
		"empty JSON":      {ContentType: "application/json"},
		"other names":     {Source: "sö<", Sequence: 1, Group: "g\"\\ü"},
		"a number":        {Source: "s", Epoch: 1, Sequence: 2, Group: "g", DependsOn: map[string]uint64{"o": 3}, Parents: []uint64{17}, Seen: 1 << 40, Headers: map[string]string{"x-a": " 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			m.Stream = "orders"
			if m.Source == "" {
				m.Key = "k"
			}
			var line string
			c, _ := newClient(t, client.Options{MaxElapsed: 1}, func(_ http.ResponseWriter, r *http.Request) { // one try
				body, _ := io.ReadAll(r.Body)
				line = string(body)
				panic(errCut)
			})
			c.SendBatch(t.Context(), []client.Message{m})
			records, err := batch.Read(batch.NDJSON, []byte(line))
			if err != nil || len(records) != 1 || records[0].Err != nil {
				t.Fatalf("line %q: %+v, %v", line, records, err)
			}
			got := records[0].Message
			if string(got.Body) != string(m.Body) || got.ContentType != m.ContentType || got.ID != m.Key || got.Group != m.Group || got.Source != m.Source ||
				got.Epoch != m.Epoch || got.Sequence != m.Sequence || got.DependsOn["o"] != m.DependsOn["o"] || !slices.Equal(got.Parents, m.Parents) || got.Seen != m.Seen || len(m.Headers) > 0 && got.Headers["X-A"] != "1" {
				t.Errorf("line %q is read as %+v", line, got)
			}
		})
	}
}
