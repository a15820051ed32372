package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/front/durable"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/follow"
)

// A world is the protocol on the real engine, with a clock of its own.
type world struct {
	t       *testing.T
	handler http.Handler
	now     time.Time
	options durable.Options
	// handled is called by the handler of the stream, if it is set.
	handled func()
}

func newWorld(t *testing.T, change ...func(*durable.Options)) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	clock := func() time.Time { return w.now }
	store := memstore.New(clock)
	hub := &follow.Hub{LookAgain: time.Hour}
	nothing := func(context.Context, *record.Attempt, record.Message) error {
		if w.handled != nil {
			w.handled()
		}
		return nil
	}
	engine, err := dedup.New(dedup.Config{
		Store: store, Queues: struct{ record.Queues }{}, Now: clock, Appended: hub.Appended,
		Streams: []record.Stream{{Name: "room", Handler: durable.Wrap(nothing), LogRetention: time.Hour}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.options = durable.Options{
		Engine: engine, Logs: follow.NewLogs(store, hub), Load: store.Load, Writable: func(string) bool { return true },
		Now: clock, Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&w.options)
	}
	w.handler = durable.New(w.options)
	return w
}

// do sends a request and returns the answer. Headers are "Name: value" in lines.
func (w *world) do(method, path, headers, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, durable.Prefix+path, strings.NewReader(body))
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	return answer
}

// expect is do, with an error if the status or the body is another one. An empty body is not
// compared.
func (w *world) expect(status int, text, method, path, headers, body string) {
	w.t.Helper()
	if answer := w.do(method, path, headers, body); answer.Code != status || text != "" && answer.Body.String() != text {
		w.t.Errorf("%s %s: %d %s, want %d %s", method, path, answer.Code, answer.Body, status, text)
	}
}

const values = "Content-Type: application/json"

func TestAnAppendToAStreamThatIsStillReadKeepsItsEntries(t *testing.T) {
	w := newWorld(t)
	w.expect(201, "", "PUT", "room/g", values+"\nStream-TTL: 10", "[1]")
	w.now = w.now.Add(4 * time.Second)
	w.expect(200, "[1]", "GET", "room/g", "", "") // before half of the TTL: the record is not written
	w.now = w.now.Add(7 * time.Second)
	w.expect(204, "", "POST", "room/g", values, "[2]")
	w.expect(200, "[1,2]", "GET", "room/g", "", "")
	w.now = w.now.Add(11 * time.Second)
	w.expect(404, "", "POST", "room/g", values, "[3]")
	w.expect(201, "", "PUT", "room/g", values, "[4]")
	w.expect(200, "[4]", "GET", "room/g", "", "")
}

func TestAnAppendOfTooManyValuesIsRefusedWithTheReason(t *testing.T) {
	w := newWorld(t)
	w.expect(201, "", "PUT", "room/g", values, "")
	many := "[0" + strings.Repeat(",0", 9999) + "]"
	answer := w.do("POST", "room/g", values, many)
	if answer.Code != http.StatusRequestEntityTooLarge || !strings.Contains(answer.Body.String(), "The 10000 values of the array are too many") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	w.expect(200, "[]", "GET", "room/g", "", "")
	w.expect(204, "", "POST", "room/g", values, "[0"+strings.Repeat(",0", 7999)+"]")
}

func TestOneWaitingReaderTooManyIsRefused(t *testing.T) {
	w := newWorld(t, func(o *durable.Options) { o.MaxFollowing = 1 })
	w.expect(201, "", "PUT", "room/g", values, "")
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan struct{})
	follower := &waiting{ResponseRecorder: httptest.NewRecorder(), begun: waits}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.handler.ServeHTTP(follower, httptest.NewRequestWithContext(ctx, "GET", durable.Prefix+"room/g?offset=now&live=sse", nil))
	}()
	<-waits
	for _, live := range []string{"sse", "long-poll"} {
		w.expect(429, "", "GET", "room/g?offset=now&live="+live, "", "")
	}
	w.expect(200, "[]", "GET", "room/g", "", "")
	cancel()
	<-done
	gone, stop := context.WithCancel(t.Context())
	stop()
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, httptest.NewRequestWithContext(gone, "GET", durable.Prefix+"room/g?offset=now&live=long-poll", nil))
	if answer.Code == http.StatusTooManyRequests {
		t.Error("the reader that is gone still has its place")
	}
}

func TestOneWritingRequestTooManyIsRefused(t *testing.T) {
	w := newWorld(t, func(o *durable.Options) { o.MaxWriting = 1 })
	w.expect(201, "", "PUT", "room/g", values, "")
	begun, end := make(chan struct{}), make(chan struct{})
	w.handled = func() {
		w.handled = nil
		close(begun)
		<-end
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.expect(204, "", "POST", "room/g", values, "[1]")
	}()
	<-begun
	w.expect(429, "", "POST", "room/g", values, "[2]")
	w.expect(429, "", "PUT", "room/other", values, "[2]")
	w.expect(200, "[]", "GET", "room/g", "", "")
	close(end)
	<-done
	w.expect(204, "", "POST", "room/g", values, "[2]")
	w.expect(200, "[1,2]", "GET", "room/g", "", "")
}

func TestALongHeaderThatTheStreamWouldKeepIsRefused(t *testing.T) {
	w := newWorld(t)
	w.expect(201, "", "PUT", "room/g", values, "")
	long := strings.Repeat("0", 1025)
	for _, header := range []string{"Stream-Seq: " + long, "Producer-Id: " + long + "\nProducer-Epoch: 0\nProducer-Seq: 0"} {
		w.expect(400, "", "POST", "room/g", values+"\n"+header, "[1]")
	}
	w.expect(400, "", "PUT", "room/h", values+"\nStream-Expires-At: 2027-01-01T00:00:00."+long+"Z", "")
	w.expect(400, "", "PUT", "room/h", "Content-Type: text/plain; x="+long, "")
	w.expect(204, "", "POST", "room/g", values+"\nStream-Seq: "+long[1:], "[1]")
}

// A waiting is an answer that says when its first part was sent.
type waiting struct {
	*httptest.ResponseRecorder
	begun chan struct{}
}

func (w *waiting) Flush() {
	w.ResponseRecorder.Flush()
	if w.begun != nil {
		close(w.begun)
		w.begun = nil
	}
}

func TestReadsOfExpiredStreamsTakeNoMemory(t *testing.T) {
	u := durable.NewUses()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 100_000 {
		now = now.Add(time.Second)
		u.Note(record.GroupKey{Stream: "room", Group: fmt.Sprint(i)}, now, time.Minute)
	}
	if n := u.Len(); n > 2000 {
		t.Errorf("%d reads are remembered; 60 still count", n)
	}
	if at := u.Last(record.GroupKey{Stream: "room", Group: "99950"}); !at.Equal(now.Add(-49 * time.Second)) {
		t.Errorf("a read that counts is remembered at %v", at)
	}
}
