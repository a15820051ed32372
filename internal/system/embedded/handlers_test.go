package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

// An asked is a request to a handler.
type asked struct {
	Group    string
	Version  uint64
	Attempt  string
	State    json.RawMessage
	Messages []struct {
		ID    string
		Try   int
		Timer string
		Body  json.RawMessage
	}
}

// A shop is a handler over HTTP that adds up the numbers in the bodies of messages, and sends the
// sum of each to the ledger.
type shop struct {
	*httptest.Server
	mu      sync.Mutex
	asked   []asked
	instead func(n int, r *asked, w http.ResponseWriter) (done bool) // n counts from 1
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q asked
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, q)
	n, instead := len(s.asked), s.instead
	s.mu.Unlock()
	if instead != nil && instead(n, &q, w) {
		return
	}
	_, _ = io.WriteString(w, sums(&q, len(q.Messages)))
}

// sums returns the answer for the first messages of a request.
func sums(q *asked, first int) string {
	var sum int
	_ = json.Unmarshal(q.State, &sum) // null is 0
	results := []string{}
	for _, m := range q.Messages[:first] {
		var n int
		_ = json.Unmarshal(m.Body, &n)
		sum += n
		results = append(results, fmt.Sprintf(`{"id":%q,"reply":{"status":201,"body":%d},"effects":[{"to":"ledger","body":%d}]}`, m.ID, sum, sum))
	}
	return fmt.Sprintf(`{"state":%d,"messages":[%s]}`, sum, strings.Join(results, ","))
}

func (s *shop) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *shop) place(t *testing.T) *place {
	t.Helper()
	return &place{t: t, dir: t.TempDir(), config: `
streams: {orders: {destinations: [ledger], retry: {first: 10ms, max: 50ms}}}
destinations: {ledger: {file: DIR/ledger.jsonl}}
handlers: {orders: {url: "` + s.URL + `/orders"}}
`}
}

// number returns a message with a number.
func number(key string, n int) client.Message {
	return client.Message{Stream: "orders", Key: key, Group: "lamp", ContentType: "application/json", Body: fmt.Append(nil, n)}
}

// ledger returns the bodies in the ledger.
func (p *place) ledger() string {
	p.t.Helper()
	var out []string
	for _, l := range p.lines() {
		out = append(out, fmt.Sprint(l.Body))
	}
	return strings.Join(out, " ")
}

func TestAHandlerInAnotherLanguageKeepsStateRepliesAndSends(t *testing.T) {
	s := newShop(t)
	p := s.place(t)
	r := p.start()
	m := number("a", 5)
	m.Wait = 30 * time.Second
	if got := r.send(t, m); got.Reply == nil || got.Reply.Status != http.StatusCreated || string(got.Reply.Body) != "5" {
		t.Errorf("the receipt is %+v, want the reply 201 with the sum", got)
	}
	if got := r.send(t, m); got.Reply == nil || !got.Reply.Replayed || string(got.Reply.Body) != "5" {
		t.Errorf("the receipt of the copy is %+v, want the same reply, replayed", got)
	}
	r.stop()
	r = p.start() // the state is on the disk
	defer r.stop()
	m = number("b", 3)
	m.Wait = 30 * time.Second
	if got := r.send(t, m); got.Reply == nil || string(got.Reply.Body) != "8" {
		t.Errorf("the receipt after a restart is %+v, want the reply with the sum", got)
	}
	r.idle(t)
	if got := p.ledger(); got != "5 8" {
		t.Errorf("the ledger has %q, want the sums 5 8", got)
	}
	requests := s.requests()
	if len(requests) != 2 || string(requests[0].State) != "null" || string(requests[1].State) != "5" {
		t.Errorf("the requests are %+v, want one for each message, with the state", requests)
	}
}

func TestNoAnswerOfAHandlerThatIsDownLosesAMessage(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"not found":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"gone":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) },
		"redirected":      func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) },
		"crashed":         func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"half an answer":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"messages":[{"id":"a","eff`) },
		"another server":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"an empty answer": func(http.ResponseWriter, *http.Request) {},
		"a wrong id": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"state":9,"messages":[{"id":"z"}]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.instead = func(n int, _ *asked, w http.ResponseWriter) bool {
				if n <= 4 {
					fail(w, httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil))
				}
				return n <= 4
			}
			p := s.place(t)
			r := p.start()
			defer r.stop()
			for i, key := range []string{"a", "b", "c"} {
				r.send(t, number(key, i+1))
			}
			stats := r.idle(t)
			if got := p.ledger(); got != "1 3 6" || stats.DeadLetters != 0 {
				t.Errorf("the ledger has %q and there are %d dead letters, want each message once, in order, and none", got, stats.DeadLetters)
			}
		})
	}
}

func TestWaitingMessagesShowTheErrorOfTheirHandler(t *testing.T) {
	s := newShop(t)
	s.instead = func(_ int, _ *asked, w http.ResponseWriter) bool {
		http.Error(w, "no such page", http.StatusNotFound)
		return true
	}
	r := s.place(t).start()
	defer r.stop()
	r.send(t, number("a", 1))
	eventually.Succeeds(t, func() error {
		last := ""
		g, err := r.Group(t.Context(), "orders", "lamp")
		if err == nil && len(g.Waiting) > 0 && g.Waiting[0].Error != "" {
			if last = g.Waiting[0].Error; !strings.Contains(last, "404 Not Found: no such page") {
				t.Fatalf("the error is %q, want the answer of the handler", last)
			}
		}
		if !strings.Contains(last, "not tried") {
			return fmt.Errorf("the last error is %q, want that the handler is down, and why", last)
		}
		return nil
	})
}

func TestARejectedMessageIsADeadLetterAndTheOthersGoOn(t *testing.T) {
	s := newShop(t)
	s.instead = func(_ int, q *asked, w http.ResponseWriter) bool {
		if q.Messages[0].ID != "bad" {
			return false
		}
		_, _ = io.WriteString(w, `{"messages":[{"id":"bad","reject":"no money"}]}`)
		return true
	}
	p := s.place(t)
	r := p.start()
	defer r.stop()
	r.send(t, number("a", 1))
	r.send(t, number("bad", 100))
	r.send(t, number("b", 2))
	stats := r.idle(t)
	if got := p.ledger(); got != "1 3" || stats.DeadLetters != 1 {
		t.Errorf("the ledger has %q and there are %d dead letters, want 1 3 and one", got, stats.DeadLetters)
	}
}

// process processes a message of the group lamp by the engine alone.
func process(e system.Engine, id, body string) record.Outcome {
	return e.Process(context.Background(), []record.Message{{Stream: "orders", Group: "lamp", ID: id, ContentType: "application/json", Body: []byte(body)}})[0]
}

func TestAHandlerIsAskedAboutAGroupOnceAtATime(t *testing.T) {
	s := newShop(t)
	waiting, release := make(chan struct{}), make(chan struct{})
	s.instead = func(n int, _ *asked, _ http.ResponseWriter) bool {
		if n == 1 {
			close(waiting)
			<-release
		}
		return false
	}
	p := s.place(t)
	sys, engine := p.open(t)
	defer func() {
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	}()
	first := make(chan record.Outcome, 1)
	go func() { first <- process(engine, "a", "1") }()
	<-waiting
	second := process(engine, "b", "10")
	close(release)
	if second.Kind != record.Retry || !errors.Is(second.Err, record.ErrUntried) {
		t.Errorf("the second message is %+v, want it put off while the handler is asked about the first one", second)
	}
	if o := <-first; o.Kind != record.Processed || string(o.Reply.Body) != "1" {
		t.Errorf("the first message is %+v, want its own sum", o)
	}
	if o := process(engine, "b", "10"); o.Kind != record.Processed || string(o.Reply.Body) != "11" {
		t.Errorf("the second message is %+v, want the sum after both", o)
	}
	if n := len(s.requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestAShorterAnswerIsCommittedAndTheOthersAreAskedAgain(t *testing.T) {
	s := newShop(t)
	s.instead = func(_ int, q *asked, w http.ResponseWriter) bool {
		_, _ = io.WriteString(w, sums(q, 1))
		return true
	}
	p := s.place(t)
	sys, engine := p.open(t)
	defer func() {
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	}()
	var messages []record.Message
	for _, id := range []string{"a", "b", "c"} {
		messages = append(messages, record.Message{Stream: "orders", Group: "lamp", ID: id, ContentType: "application/json", Body: []byte("1")})
	}
	for i, o := range engine.Process(context.Background(), messages) {
		if o.Kind != record.Processed || string(o.Reply.Body) != fmt.Sprint(i+1) {
			t.Errorf("message %d is %+v, want it processed with its own sum", i+1, o)
		}
	}
	if first := s.requests()[0]; len(first.Messages) != 3 {
		t.Errorf("the first request has %d messages, want all 3", len(first.Messages))
	}
}

// open opens the system without running it.
func (p *place) open(t *testing.T) (*embedded.System, system.Engine) {
	t.Helper()
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", p.dir)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: p.data()})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Start(nil)
	if err != nil {
		t.Fatal(errors.Join(err, s.Close()))
	}
	return s, e
}

func TestAChangedHandlerIsCalledWithoutARestart(t *testing.T) {
	before, after := newShop(t), newShop(t)
	p := before.place(t)
	r := p.start()
	defer r.stop()
	r.send(t, number("a", 1))
	r.idle(t)
	c, err := config.Parse("test", []byte(strings.ReplaceAll(strings.Replace(p.config, before.URL, after.URL, 1), "DIR", p.dir)))
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := r.Reconfigure(t.Context(), c); err != nil || !slices.Equal(changed, []string{"handlers.orders.url"}) {
		t.Fatalf("changed %v, %v; want the URL of the handler", changed, err)
	}
	r.send(t, number("b", 2))
	r.idle(t)
	if got := p.ledger(); got != "1 3" || len(before.requests()) != 1 || len(after.requests()) != 1 {
		t.Errorf("the ledger has %q after %d and %d requests, want one to each handler", got, len(before.requests()), len(after.requests()))
	}
}

func TestProgramsRunOnlyWhereTheyMay(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "handler.sh")
	if err := os.WriteFile(script, []byte("while read -r line; do\n  echo '{\"state\":1,\"messages\":[{\"id\":\"a\",\"reply\":{\"status\":200,\"body\":\"done\"}}]}'\ndone\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("test", []byte("streams: {orders: {}}\nhandlers: {orders: {exec: \"sh "+script+"\"}}"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: filepath.Join(dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Start(nil); err == nil || !strings.Contains(err.Error(), "open handler of stream orders: exec works in once dev only; url works everywhere") {
		t.Errorf("the error is %v, want that exec works in once dev only", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = embedded.Open(embedded.Options{Config: c, DataDir: filepath.Join(dir, "data"), Programs: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := s.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := process(engine, "a", "1"); o.Kind != record.Processed || string(o.Reply.Body) != `"done"` {
		t.Errorf("the message is %+v, want the reply of the program", o)
	}
	if err := s.Close(); err != nil {
		t.Error("the program must end with the system:", err)
	}
}

func TestTheProgramOfASystemThatDoesNotStartIsEnded(t *testing.T) {
	dir := t.TempDir()
	script, ended := filepath.Join(dir, "handler.sh"), filepath.Join(dir, "ended")
	if err := os.WriteFile(script, []byte("while read -r line; do :; done\n: > "+ended+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("test", []byte(`
streams: {orders: {}, jobs: {}}
handlers: {orders: {exec: "sh `+script+`"}}
schedules: {nightly: {cron: "@daily", stream: jobs}}
`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: filepath.Join(dir, "data"), Programs: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	nothing := func(context.Context, *record.Attempt, record.Message) error { return nil }
	_, err = s.Start([]system.Stream{{Stream: record.Stream{Name: "jobs", Admission: record.BySequence, Handler: nothing}}})
	if err == nil || !strings.Contains(err.Error(), "the messages of a schedule have no numbers") {
		t.Errorf("the error is %v, want that the stream takes no messages of a schedule", err)
	}
	if _, err := os.Stat(ended); err != nil {
		t.Error("the program still runs, want it ended:", err)
	}
}

func TestAStreamHasOneHandler(t *testing.T) {
	p := newShop(t).place(t)
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", p.dir)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: p.data()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	nothing := func(context.Context, *record.Attempt, record.Message) error { return nil }
	_, err = s.Start([]system.Stream{{Stream: record.Stream{Name: "orders", Handler: nothing}}})
	if err == nil || !strings.Contains(err.Error(), "a handler in code and one in once.yaml") {
		t.Errorf("the error is %v, want that there are two handlers", err)
	}
}

func TestAHandlerInAnotherLanguageGetsTheTimerThatItHasSet(t *testing.T) {
	s := newShop(t)
	s.instead = func(_ int, q *asked, w http.ResponseWriter) bool {
		if q.Messages[0].Timer == "" {
			_, _ = fmt.Fprintf(w, `{"messages":[{"id":%q,"effects":[{"timer":"remind","after":"100ms","body":"soon"}]}]}`, q.Messages[0].ID)
			return true
		}
		_, _ = fmt.Fprintf(w, `{"messages":[{"id":%q,"effects":[{"to":"ledger","body":{"timer":%q,"body":%s}}]}]}`, q.Messages[0].ID, q.Messages[0].Timer, q.Messages[0].Body)
		return true
	}
	p := s.place(t)
	r := p.start()
	defer r.stop()
	r.send(t, number("a", 1))
	p.awaitLines(t, 1)
	if got := p.ledger(); got != "map[body:soon timer:remind]" {
		t.Errorf("the ledger has %q, want the message of the timer", got)
	}
}
