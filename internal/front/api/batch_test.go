package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

const (
	ordersBatch = "/v1/streams/orders/batch"
	chatBatch   = "/v1/streams/chat/batch"
	ndjson      = "Content-Type: application/x-ndjson"
	cborSeq     = "Content-Type: application/cbor-seq"
)

// A result is the answer to one record of a batch.
type result struct {
	Status   int
	ID       string
	Replayed bool
	Problem  *struct {
		Type, Detail string
		RetryAfter   int `json:"retry_after"`
		Line         int
	}
}

// String returns the status, with the id and a mark of a repetition, or with the problem's type.
func (r result) String() string {
	switch {
	case r.Problem != nil:
		return fmt.Sprint(r.Status, " ", r.Problem.Type[strings.IndexByte(r.Problem.Type, '#')+1:])
	case r.Replayed:
		return fmt.Sprint(r.Status, " ", r.ID, " replayed")
	}
	return fmt.Sprint(r.Status, " ", r.ID)
}

// results reads an answer of JSON lines, and checks each against the OpenAPI document.
func (w *world) results(got response) (list []result) {
	w.t.Helper()
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/x-ndjson" || !strings.HasSuffix(got.body, "\n") {
		w.t.Fatalf("answer %d %v %q", got.status, got.header, got.body)
	}
	schema := w.spec.doc.Components.Schemas["BatchResult"].Value
	for line := range strings.Lines(got.body) {
		var r result
		var any any
		if err := errors.Join(json.Unmarshal([]byte(line), &r), json.Unmarshal([]byte(line), &any), schema.VisitJSON(any)); err != nil {
			w.t.Errorf("line %q: %v", line, err)
		}
		list = append(list, r)
	}
	return list
}

// wantResults checks the results of a batch of JSON lines.
func (w *world) wantResults(got response, want ...string) []result {
	w.t.Helper()
	list := w.results(got)
	var texts []string
	for _, r := range list {
		texts = append(texts, r.String())
	}
	if d := cmp.Diff(want, texts); d != "" {
		w.t.Errorf("results (-want +got):\n%s", d)
	}
	return list
}

func lines(list ...string) string { return strings.Join(list, "\n") + "\n" }

func TestABatchHasOneResultForEachMessageInOrder(t *testing.T) {
	const path = "/v1/streams/payments/batch" // its groups count their messages
	w := newWorld(t)
	batch := lines(`{"key":"a","group":"g","body":{"n": 1}}`, ``, `{"key":"b","content_type":"text/plain","body":"t\u00e9xt"}`, `{"key":"c","body_base64":"AAE="}`, `{"key":"d"}`)
	w.wantResults(w.send("POST", path, batch, ndjson), "202 a", "202 b", "202 c", "202 d")
	w.wantResults(w.send("POST", path, batch, ndjson), "202 a replayed", "202 b replayed", "202 c replayed", "202 d replayed")
	w.settled()
	for _, group := range []string{"g", "b", "c", "d"} {
		if n := w.applied("payments", group); n != 1 {
			t.Errorf("%d messages of group %s are applied", n, group)
		}
	}
}

func TestAMessageOfABatchIsTheSameAsAMessageByItself(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	for _, c := range []struct {
		record, body string
		headers      []string
	}{
		{`{"key":"a","group":"g","content_type":"application/json","headers":{"x-one":"1"},"body":{"n" : 1}}`, `{"n" : 1}`, []string{"Idempotency-Key: a", "Once-Group: g", "Content-Type: application/json", "X-One: 1"}},
		{`{"key":"b","content_type":"text/plain","body":"a\nb\\"}`, "a\nb\\", []string{"Idempotency-Key: b", "Content-Type: text/plain"}},
		{`{"key":"c","body_base64":"/wA="}`, "\xff\x00", []string{"Idempotency-Key: c"}},
		{`{"source":"s","epoch":2,"sequence":3,"depends_on":{"other":4},"body":[]}`, "[]", []string{"Once-Source: s", "Once-Epoch: 2", "Once-Sequence: 3", "Once-Depends-On: other=4", "Content-Type: application/json"}},
	} {
		w.wantStatus(w.send("POST", orders, c.body, c.headers...), 202)
		alone := w.queue.message()
		if r := w.results(w.send("POST", ordersBatch, lines(c.record), ndjson))[0]; r.Status != 202 || !r.Replayed {
			t.Errorf("%s: %+v", c.record, r)
		}
		together := w.queue.message()
		alone.Accepted = together.Accepted
		if d := cmp.Diff(alone, together); d != "" {
			t.Errorf("%s (-alone +in a batch):\n%s", c.record, d)
		}
	}
}

func (w *world) wantStatus(got response, status int) {
	w.t.Helper()
	if got.status != status {
		w.t.Errorf("answer %d %q, want %d", got.status, got.body, status)
	}
}

func TestABadRecordFailsAloneWithItsLine(t *testing.T) {
	w := newWorld(t)
	w.send("POST", ordersBatch, lines(`{"key":"before"}`, `{"key":"after"}`), ndjson)
	for _, c := range []struct{ record, want, detail string }{
		{`{"key":"x","boody":1}`, "400 malformed-request", `unknown field "boody"`},
		{`{"key":"x","body":1`, "400 malformed-request", "ends early"},
		{`{"key":"x","body":{"a":}}`, "400 malformed-request", "not JSON"},
		{`nonsense`, "400 malformed-request", "not JSON"},
		{`["key"]`, "400 malformed-request", "a record must be a JSON object, not an array."},
		{`{"key":"x"} {"key":"y"}`, "400 malformed-request", "text after"},
		{`{"key":7}`, "400 malformed-request", "key must not be a number"},
		{`{"key":"x","sequence":-1}`, "400 malformed-request", "sequence must not be a number"},
		{`{"key":"x","group":{}}`, "400 malformed-request", "group must not be an object."},
		{"{\"key\":\"x\xff\"}", "400 malformed-request", "UTF-8"},
		{`{"key":"\ud800"}`, "400 malformed-request", "surrogate"},
		{`{"key":"x","body":1,"body_base64":""}`, "400 malformed-request", "exclude"},
		{`{"key":"x","body_base64":"%"}`, "400 malformed-request", "base64"},
		{`{"key":"x","content_type":"text/plain","body":1}`, "400 malformed-request", "JSON string"},
		{`{"key":"x","content_type":"te xt","body":"1"}`, "415 unsupported-media-type", ""},
		{`{"key":""}`, "400 malformed-key", "empty"},
		{`{"body":1}`, "400 missing-key", ""},
		{`{"key":"x","sequence":1}`, "400 invalid-message", "source"},
		{`{"key":"` + strings.Repeat("x", 257) + `"}`, "400 invalid-message", "id"},
		{`{"key":"x","headers":{"Once-Group":"g"}}`, "400 malformed-request", "Once-"},
		{`{"key":"x","headers":{"a b":"g"}}`, "400 malformed-request", "name"},
		{`{"key":"x","headers":{"a":"g\r\nb: c"}}`, "400 malformed-request", "control"},
		{`{"key":"x","headers":{"x-a":"1","X-A":"2"}}`, "400 malformed-request", "twice"},
		{`{"source":"s","sequence":1,"depends_on":{"a":0}}`, "400 malformed-request", "depends_on"},
		{`{"key":"x","content_type":"text/plain","body":"` + strings.Repeat("x", record.MaxBody+1) + `"}`, "413 too-large", ""},
	} {
		got := w.wantResults(w.send("POST", ordersBatch, lines(`{"key":"before"}`, "", c.record, `{"key":"after"}`), ndjson), "202 before replayed", c.want, "202 after replayed")
		if p := got[1].Problem; p == nil || p.Line != 3 || !strings.Contains(p.Detail, c.detail) || strings.Contains(p.Detail, "fields") {
			t.Errorf("%.80s: %+v", c.record, p)
		}
	}
}

func TestOfAFieldThatIsThereTwiceTheLastCounts(t *testing.T) {
	w := newWorld(t)
	w.wantResults(w.send("POST", ordersBatch, lines(`{"key":"a","key":"b"}`, `{"key":"x","KEY":"c"}`), ndjson), "202 b", "202 c")
}

func TestTheSameKeyTwiceInABatchIsARepetitionOrKeyReuse(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	w.wantResults(w.send("POST", ordersBatch, lines(`{"key":"a","body":1}`, `{"key":"a","body":1}`, `{"key":"a","body":2}`, `{"key":"a","group":"g","body":1}`, `{"key":"b","body":1}`), ndjson),
		"202 a", "202 a replayed", "422 key-reuse", "422 key-reuse", "202 b")
	if n := w.queue.taken.Load(); n != 2 {
		t.Errorf("%d messages are on the queue, want 2", n)
	}
	w.wantResults(w.send("POST", ordersBatch, lines(`{"key":"a","body":3}`, `{"key":"a","body":1}`, `{"key":"a","body":1}`), ndjson),
		"422 key-reuse", "202 a replayed", "202 a replayed")
	w.wantResults(w.send("POST", chatBatch, lines(`{"source":"s","sequence":1,"body":1}`, `{"source":"s","sequence":1,"body":1}`, `{"source":"s","sequence":1,"body":2}`, `{"source":"s","sequence":1,"group":"g","body":2}`), ndjson),
		"202 s/0/1", "202 s/0/1 replayed", "422 key-reuse", "202 s/0/1")
}

func TestANumberedStreamNeedsNumbersInEachRecord(t *testing.T) {
	w := newWorld(t)
	w.wantResults(w.send("POST", chatBatch, lines(`{"source":"s","sequence":1}`, `{"key":"a"}`, `{"source":"s","sequence":2}`), ndjson), "202 s/0/1", "400 invalid-message", "202 s/0/2")
}

func TestABatchKeepsTheOrderOfAGroup(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	var list, want []string
	for i := range 50 {
		list, want = append(list, fmt.Sprintf(`{"key":"%d","group":"g"}`, i)), append(want, fmt.Sprint(i))
	}
	w.send("POST", ordersBatch, lines(list...), ndjson)
	if d := cmp.Diff(want, w.queue.names()); d != "" {
		t.Error(d)
	}
}

func TestNoMessageIsAcceptedBehindOneOfItsGroupThatWasNot(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused, q.full = true, "g2" })
	batch := lines(`{"key":"g1","group":"g"}`, `{"key":"h1","group":"h"}`, `{"key":"g2","group":"g"}`, `{"key":"g3","group":"g"}`, `{"key":"h2","group":"h"}`, `{"key":"g2","group":"g"}`)
	got := w.wantResults(w.send("POST", ordersBatch, batch, ndjson), "202 g1", "202 h1", "503 unavailable", "503 unavailable", "202 h2", "503 unavailable")
	if p := got[3].Problem; p == nil || !strings.Contains(p.Detail, "before this one") || p.RetryAfter != 1 {
		t.Errorf("the message behind: %+v", p)
	}
	if d := cmp.Diff([]string{"g1", "h1", "h2"}, w.queue.names()); d != "" {
		t.Errorf("on the queue (-want +got):\n%s", d)
	}
	if n := strings.Count(w.log.String(), "level=ERROR"); n != 1 || strings.Contains(w.log.String(), "g2") {
		t.Errorf("log:\n%s", w.log.String())
	}
	w.queue.set(func(q *ingress) { q.full = "" })
	w.wantResults(w.send("POST", ordersBatch, batch, ndjson), "202 g1 replayed", "202 h1 replayed", "202 g2 replayed", "202 g3 replayed", "202 h2 replayed", "202 g2 replayed")
}

func TestIfTheStoreFailsEveryMessageIsToBeSentAgain(t *testing.T) {
	w := newWorld(t)
	w.store.away.Store(true)
	batch := lines(`{"key":"a","group":"g"}`, `bad`, `{"key":"b","group":"g"}`, `{"key":"c"}`)
	w.wantResults(w.send("POST", ordersBatch, batch, ndjson), "503 unavailable", "400 malformed-request", "503 unavailable", "503 unavailable")
	w.store.away.Store(false)
	w.wantResults(w.send("POST", ordersBatch, batch, ndjson), "202 a", "400 malformed-request", "202 b", "202 c")
	if strings.Contains(w.log.String(), `"a"`) || strings.Count(w.log.String(), "level=ERROR") != 1 {
		t.Errorf("log:\n%s", w.log.String())
	}
}

func TestABatchIsRefusedAsAWhole(t *testing.T) {
	w := newWorld(t)
	record := `{"key":"a"}`
	many := strings.Repeat(record+"\n", 1001)
	for _, c := range []struct {
		name, path, body string
		headers          []string
		want             problem.Type
	}{
		{"unknown stream", "/v1/streams/nobody/batch", record, []string{ndjson}, problem.UnknownStream},
		{"intruder", ordersBatch, record, []string{ndjson, "Test-Principal: intruder"}, problem.Forbidden},
		{"no content type", ordersBatch, record, nil, problem.UnsupportedMediaType},
		{"another content type", ordersBatch, record, []string{"Content-Type: application/json"}, problem.UnsupportedMediaType},
		{"two content types", ordersBatch, record, []string{ndjson, cborSeq}, problem.UnsupportedMediaType},
		{"another encoding", ordersBatch, record, []string{ndjson, "Content-Encoding: br"}, problem.UnsupportedMediaType},
		{"two encodings", ordersBatch, record, []string{ndjson, "Content-Encoding: gzip", "Content-Encoding: gzip"}, problem.UnsupportedMediaType},
		{"not gzip", ordersBatch, record, []string{ndjson, "Content-Encoding: gzip"}, problem.MalformedRequest},
		{"not zstd", ordersBatch, record, []string{ndjson, "Content-Encoding: zstd"}, problem.MalformedRequest},
		{"cut gzip", ordersBatch, string(gzipped(t, record)[:20]), []string{ndjson, "Content-Encoding: gzip"}, problem.MalformedRequest},
		{"cut zstd", ordersBatch, string(zstded(t, strings.Repeat(record+"\n", 50))[:20]), []string{ndjson, "Content-Encoding: zstd"}, problem.MalformedRequest},
		{"a group for all", ordersBatch, record, []string{ndjson, "Once-Group: g"}, problem.MalformedRequest},
		{"no record", ordersBatch, "\n\n", []string{ndjson}, problem.MalformedRequest},
		{"no item", ordersBatch, "", []string{cborSeq}, problem.MalformedRequest},
		{"1001 records", ordersBatch, many, []string{ndjson}, problem.TooLarge},
		{"1001 items", ordersBatch, strings.Repeat("\xa0", 1001), []string{cborSeq}, problem.TooLarge},
		{"a broken item", ordersBatch, "\xa1\x63key\x61b" + "\xa1\x63key", []string{cborSeq}, problem.MalformedRequest},
		{"too many bytes", ordersBatch, record + strings.Repeat(" ", 4<<20), []string{ndjson}, problem.TooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantProblem(t, w.send("POST", c.path, c.body, c.headers...), c.want)
			if n := w.queue.taken.Load(); n != 0 {
				t.Errorf("%d messages were accepted", n)
			}
		})
	}
	w.wantStatus(w.send("POST", ordersBatch, many[:1000*len(record+"\n")], ndjson), 200)
	w.wantStatus(w.send("POST", ordersBatch, record+strings.Repeat(" ", 4<<20-len(record)), ndjson), 200)
}

func TestMessagesOfABatchInheritItsTrace(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w.send("POST", ordersBatch, lines(`{"key":"a"}`), ndjson, "Traceparent: "+parent, "X-Other: stays")
	if d := cmp.Diff(map[string]string{"Traceparent": parent}, w.queue.message().Headers); d != "" {
		t.Error(d)
	}
	w.send("POST", ordersBatch, lines(`{"key":"b","headers":{"traceparent":"own"}}`), ndjson, "Traceparent: "+parent)
	if d := cmp.Diff(map[string]string{"Traceparent": "own"}, w.queue.message().Headers); d != "" {
		t.Error(d)
	}
}

func TestABatchUnderAPrincipalIsItsOwn(t *testing.T) {
	w := newWorld(t)
	batch := lines(`{"key":"a"}`)
	w.wantResults(w.send("POST", ordersBatch, batch, ndjson, "Test-Principal: ann"), "202 a")
	w.wantResults(w.send("POST", ordersBatch, batch, ndjson, "Test-Principal: bob"), "202 a")
	w.wantResults(w.send("POST", ordersBatch, batch, ndjson, "Test-Principal: ann"), "202 a replayed")
}

func TestAnEndInABatchIsRefusedWhateverTheErrorOfTheCheck(t *testing.T) {
	w := newWorld(t, func(_ *world, o *api.Options) {
		o.Allow = func(_ *http.Request, route, _ string) error {
			if route == "Once-End" {
				return errors.New("no")
			}
			return nil
		}
	})
	w.wantResults(w.send("POST", ordersBatch, lines(`{"key":"a","end":true}`, `{"key":"b"}`), ndjson), "403 forbidden", "202 b")
}
