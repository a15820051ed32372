package link_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/destination/link"
	"github.com/effectively-once/once/internal/record"
)

func TestADeliveryIsANumberedMessageOfItsSystemAndDestination(t *testing.T) {
	p := newPeer(t)
	d := delivery("eve", 7)
	d.Sequence = 3
	d.Effect = record.Effect{
		To: []string{"us"}, ID: "a", Source: "outside", Epoch: 1, Sequence: 5, Via: []string{"ap"}, ContentType: "text/plain",
		Headers: map[string]string{"X-A": " v "}, Body: []byte("b\n\xff"), DependsOn: map[string]uint64{"eu/us/room/x": 2},
	}
	if got := fates(newSender(t, p).Send(t.Context(), []record.Delivery{d})); got != "ok" {
		t.Fatal(got)
	}
	want := []message{{
		Key: "eu/us/room/eve/7@9", Group: "eve", Source: "eu/us/room/eve", Epoch: 9, Sequence: 3, Via: []string{"ap", "eu"}, ContentType: "text/plain",
		Headers: map[string]string{"X-A": "v"}, Body: []byte("b\n\xff"), DependsOn: map[string]uint64{"eu/us/room/x": 2},
	}}
	if diff := cmp.Diff(want, p.got); diff != "" {
		t.Error(diff)
	}
	r := p.requests[0]
	if r.URL.Path != "/prod/v1/streams/room/batch" || r.Header.Get("Authorization") != "" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
}

func TestSourcesOfOneReceiverNeverCollide(t *testing.T) {
	p := newPeer(t)
	other := delivery("g", 1)
	other.Target = "elsewhere"
	third := delivery("g", 1)
	third.Target = "all"
	long := delivery(strings.Repeat("g", record.MaxName), 1)
	again := delivery(strings.Repeat("g", record.MaxName-1)+"h", 1)
	for i, change := range []func(*link.Config){
		func(*link.Config) {},
		func(c *link.Config) { c.System = "ap" },
		func(c *link.Config) { c.Destination = "us2" },
		func(c *link.Config) { c.Group = "all" },
	} {
		list := []record.Delivery{delivery("g", 1), long, again}
		if i == 3 { // into one group, by targets that are numbered apart
			list = append(list, other, third)
		}
		s := newSender(t, p, change)
		if got := fates(s.Send(t.Context(), list)); strings.Trim(got, "ok ") != "" {
			t.Fatal(got)
		}
	}
	seen := map[string]bool{}
	for _, m := range p.got {
		name := m.Source + " in " + m.Group // a source counts in each group
		if seen[name] || len(m.Source) > record.MaxName || len(m.Key) > record.MaxName {
			t.Errorf("source %q, key %q", m.Source, m.Key)
		}
		seen[name] = true
	}
	if g := p.got[len(p.got)-1].Group; g != "all" {
		t.Errorf("the fixed group is %q", g)
	}
}

func TestEveryAnswerToALineIsHandled(t *testing.T) {
	for _, c := range []struct{ answer, fates, got string }{
		{"", "ok ok ok", "a1 a2 a3"},
		{problem(508, "loop"), "ok loop ok", "a1 a2 a3 a2v"},
		{problem(400, "invalid-message"), "ok invalid ok", "a1 a2 a3 a2v"},
		{problem(413, "too-large"), "ok invalid ok", "a1 a2 a3 a2v"},
		{problem(415, "unsupported-media-type"), "ok invalid ok", "a1 a2 a3 a2v"},
		{problem(422, "key-reuse"), "ok key-reuse ok", "a1 a2 a3"},
		{problem(410, "deleted"), "ok gone ok", "a1 a2 a3"},
		{problem(409, "ended"), "ok ended ok", "a1 a2 a3"},
		{problem(409, "leased"), "ok again again", "a1 a2 a3"},
		{problem(429, "rate-limited"), "ok again again", "a1 a2 a3"},
		{problem(503, "unavailable"), "ok again again", "a1 a2 a3"},
		{problem(500, "internal"), "ok again again", "a1 a2 a3"},
		{problem(403, "forbidden"), "ok again again", "a1 a2 a3"},
		{`{"status":200,"id":"x"}`, "again again again", "a1 a2 a3"},
		{`{"status":202,"id":"somebody else's"}`, "again again again", "a1 a2 a3"},
		{`<html>`, "again again again", "a1 a2 a3"},
	} {
		p := newPeer(t)
		p.answer = func(m message) string {
			if m.Sequence == 2 && !m.Void {
				return c.answer
			}
			return ""
		}
		if got := fates(newSender(t, p).Send(t.Context(), deliveries("a1 a2 a3"))); got != c.fates {
			t.Errorf("%s: %s, not %s", c.answer, got, c.fates)
		}
		if got := strings.Join(p.numbers(), " "); got != c.got {
			t.Errorf("%s: the other system got %s, not %s", c.answer, got, c.got)
		}
	}
}

func TestARefusalWaitsUntilItsNumberIsPassed(t *testing.T) {
	p := newPeer(t)
	p.answer = func(m message) string {
		if m.Void {
			return problem(400, "malformed-request") // of a version that knows no void messages
		}
		return problem(508, "loop")
	}
	if got := fates(newSender(t, p).Send(t.Context(), deliveries("a1"))); got != "again" {
		t.Error(got)
	}
}

func TestAnEffectThatNoSystemTakesIsRefusedHereAndItsNumberPassed(t *testing.T) {
	large := delivery("a", 1)
	large.Effect.Body = make([]byte, record.MaxBody+1)
	far := delivery("a", 2)
	far.Effect.Via = slices.Repeat([]string{"x"}, record.MaxVia)
	p := newPeer(t)
	if got := fates(newSender(t, p).Send(t.Context(), []record.Delivery{large, far, delivery("a", 3)})); got != "invalid loop ok" {
		t.Error(got)
	}
	if got := strings.Join(p.numbers(), " "); got != "a3 a1v a2v" {
		t.Errorf("the other system got %s", got)
	}
}

func TestAnAnswerThatIsNoBatchSaysNothingAboutAnyLine(t *testing.T) {
	for name, whole := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"redirect": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return true
		},
		"accepted by a proxy": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusAccepted)
			return true
		},
		"gone": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusGone)
			return true
		},
		"lost": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"cut off": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_, _ = io.WriteString(w, `{"status":202,"id":"eu/us/room/a/1@9","replayed":false}`+"\n")
			return true
		},
	} {
		p := newPeer(t)
		p.whole = whole
		s := newSender(t, p)
		if got := fates(s.Send(t.Context(), deliveries("a1 a2 b1"))); got != "again again again" {
			t.Errorf("%s: %s", name, got)
		}
		if p.count() != 1 {
			t.Errorf("%s: %d requests", name, p.count())
		}
		// it is asked again after a pause only
		errs := s.Send(t.Context(), deliveries("a1"))
		if name != "lost" && !errors.Is(errs[0], record.ErrUntried) {
			t.Errorf("%s: then %v", name, errs[0])
		}
	}
}

func TestThePausesOfASystemThatDoesNotAnswerEndWithAnAnswer(t *testing.T) {
	p := newPeer(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	failing := true
	p.whole = func(w http.ResponseWriter, _ *http.Request) bool {
		if failing {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return failing
	}
	s := newSender(t, p, func(c *link.Config) { c.Now = func() time.Time { return now } })
	send := func(want string) {
		t.Helper()
		if got := fates(s.Send(t.Context(), deliveries("a1"))); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	send("again")
	now = now.Add(29 * time.Second) // before the time that it asked for
	failing = false
	send("again")
	if p.count() != 1 {
		t.Errorf("%d requests", p.count())
	}
	now = now.Add(2 * time.Second)
	send("ok")
	send("ok")
}

func TestAKeyIsReadForEachRequestAndSentInItsHeader(t *testing.T) {
	keys := 0
	var away error
	key := func() (string, error) {
		keys++
		return fmt.Sprintf("k%d", keys), away
	}
	p := newPeer(t)
	s := newSender(t, p, func(c *link.Config) { c.Key = key })
	s.Send(t.Context(), deliveries("a1"))
	s.Send(t.Context(), deliveries("a2"))
	newSender(t, p, func(c *link.Config) { c.Key, c.Header = key, "X-Api-Key" }).Send(t.Context(), deliveries("a3"))
	var got []string
	for _, r := range p.requests {
		got = append(got, r.Header.Get("Authorization")+"|"+r.Header.Get("X-Api-Key"))
	}
	if want := []string{"Bearer k1|", "Bearer k2|", "|k3"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	away = errors.New("away")
	if errs := s.Send(t.Context(), deliveries("a4")); !errors.Is(errs[0], away) || p.count() != 3 {
		t.Errorf("without its key: %v, %d requests", errs[0], p.count())
	}
	broken := newSender(t, p, func(c *link.Config) { c.Key = func() (string, error) { return "secret\n", nil } })
	if errs := broken.Send(t.Context(), deliveries("a1")); errs[0] == nil || strings.Contains(errs[0].Error(), "secret") {
		t.Errorf("%v", errs[0])
	}
}

func TestManyDeliveriesAreSentInFewRequestsInOrder(t *testing.T) {
	p := newPeer(t)
	var list []record.Delivery
	for n := range uint64(1200) {
		list = append(list, delivery("a", n+1))
	}
	if got := fates(newSender(t, p).Send(t.Context(), list)); strings.Trim(got, "ok ") != "" {
		t.Fatalf("%.200s", got)
	}
	if p.count() != 3 {
		t.Errorf("%d requests", p.count())
	}
	for i, m := range p.got {
		if m.Sequence != uint64(i+1) {
			t.Fatalf("line %d has number %d", i, m.Sequence)
		}
	}
}

func TestTheConfigurationOfALinkIsChecked(t *testing.T) {
	for _, c := range []link.Config{
		{System: "eu", Stream: "room", URL: "us.example"},
		{System: "eu", Stream: "room", URL: "https://user:secret@us.example"},
		{System: "eu", Stream: "room", URL: "https://us.example?key=secret"},
		{System: "eu", Stream: "a room", URL: "https://us.example"},
		{Stream: "room", URL: "https://us.example"},
	} {
		if _, err := link.New(c); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestACopyHasTheNumberOfTheFirst(t *testing.T) {
	p := newPeer(t)
	lost := true
	p.whole = func(http.ResponseWriter, *http.Request) bool {
		if lost {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newSender(t, p, func(c *link.Config) { c.Now = func() time.Time { return now } })
	if got := fates(s.Send(t.Context(), deliveries("a1 a2"))); got != "again again" {
		t.Fatal(got)
	}
	p.mu.Lock() // the answer is lost before the peer is done with the request
	lost, now = false, now.Add(time.Hour)
	p.mu.Unlock()
	if got := fates(s.Send(t.Context(), deliveries("a1 a2"))); got != "ok ok" {
		t.Fatal(got)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(p.got[:2], p.got[2:]); diff != "" {
		t.Errorf("(-first +copy)\n%s", diff)
	}
}
