package embedded_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

const pooled = "streams: {work: {admission: key, log: {retain: 1h}, pool: {partitions: 3, window: 4}}, numbers: {admission: sequence, pool: {partitions: 2}}, room: {log: {retain: 1h}}, plain: {}}\n"

// An answered call of a session. It has the members of all answers and problems.
type answered struct {
	status int
	header http.Header
	text   string

	Type       string
	Fence      uint64
	Life       uint64
	Cursor     uint64
	Last       uint64
	First      uint64
	Holder     string
	RetryAfter float64   `json:"retry_after"`
	LeaseUntil time.Time `json:"lease_until"`
	Tries      uint64
	Dead, Stop any
	Entries    []entry
	Next       string
	End, Ended bool
	Takeovers  uint64
	State      json.RawMessage
}

type entry struct {
	Number           uint64
	Offset, Kind, ID string
	RedeliveryOf     string `json:"redelivery_of"`
	Group, Source    string
	Sequence         uint64
	Dead             bool
	Body             any
}

// problem returns the name of the problem.
func (a *answered) problem() string {
	_, name, _ := strings.Cut(a.Type, "#")
	return name
}

// ask makes a call of the HTTP API, with pairs of headers.
func (r *running) ask(t *testing.T, method, path, body string, headers ...string) answered {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.address+"/v1/streams/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := r.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answered{status: response.StatusCode, header: response.Header, text: string(text)}
	if strings.Contains(response.Header.Get("Content-Type"), "json") && !strings.Contains(response.Header.Get("Content-Type"), "ndjson") {
		if err := json.Unmarshal(text, &a); err != nil {
			t.Fatal(err, a.text)
		}
	}
	return a
}

// open takes a session and returns the answer.
func (r *running) open(t *testing.T, path string) answered {
	t.Helper()
	a := r.ask(t, "POST", path, `{"holder":"test","take":"free","lease":"1h"}`)
	if a.status != http.StatusOK {
		t.Fatal(a.text)
	}
	return a
}

func (r *running) entries(t *testing.T, path string, fence uint64, query string) answered {
	t.Helper()
	return r.ask(t, "GET", fmt.Sprint(path, "/entries?fence=", fence, query), "")
}

func (r *running) commit(t *testing.T, path string, fence, from, to uint64) answered {
	t.Helper()
	return r.ask(t, "POST", path+"/commit", fmt.Sprintf(`{"fence":%d,"from":%d,"to":%d}`, fence, from, to))
}

// work sends messages, each twice, of some groups, and returns their ids.
func (r *running) work(t *testing.T, n int) (sent []string) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("m%02d", i)
		for range 2 {
			r.send(t, client.Message{Stream: "work", Key: id, Group: fmt.Sprint("g", i%5), ContentType: "application/json", Body: []byte(`{"item":7}`)})
		}
		sent = append(sent, id)
	}
	r.idle(t)
	return sent
}

func TestAPoolDealsEachMessageToOneSessionAcrossRestarts(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: pooled}
	r := p.start()
	sent := r.work(t, 10)
	fences, cursors := map[string]uint64{}, map[string]uint64{}
	for _, name := range []string{"ann", "bob"} {
		fences[name] = r.open(t, "work/sessions/"+name).Fence
	}
	var got []string
	for range 20 {
		for _, name := range []string{"ann", "bob"} {
			path := "work/sessions/" + name
			page := r.entries(t, path, fences[name], "&max=2")
			if page.status == http.StatusNoContent {
				continue
			}
			if page.status != http.StatusOK || page.Next != fmt.Sprint(cursors[name]+uint64(len(page.Entries))) {
				t.Fatalf("%s after %d: %s", name, cursors[name], page.text)
			}
			r.stop()
			r = p.start()
			if again := r.entries(t, path, fences[name], "&max=2"); again.text != page.text {
				t.Fatalf("the same read again:\n%s\n%s", page.text, again.text)
			}
			for i, e := range page.Entries {
				if e.Number != cursors[name]+uint64(i)+1 || e.Kind != "message" || !strings.HasPrefix(e.Group, "g") || e.Offset == "" {
					t.Errorf("entry %+v after %d", e, cursors[name])
				}
				got = append(got, e.ID)
			}
			to := cursors[name] + uint64(len(page.Entries))
			for range 2 { // the second is a repetition
				if a := r.commit(t, path, fences[name], cursors[name], to); a.status != http.StatusOK || a.Cursor != to {
					t.Fatal(a.text)
				}
			}
			cursors[name] = to
		}
	}
	r.stop()
	if slices.Sort(got); !slices.Equal(got, sent) {
		t.Errorf("dealt %v of %v", got, sent)
	}
	if cursors["ann"] == 0 || cursors["bob"] == 0 {
		t.Errorf("cursors: %v", cursors)
	}
}

func TestThePoolSaysWhatFollowsTheLastFailedTry(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: "streams: {work: {pool: {attempts: 2, poison: dead-letter}}, halts: {pool: {attempts: 1}}, plain: {pool: {}}}\n"}
	r := p.start()
	for _, c := range []struct {
		stream string
		tries  int
		dead   bool
	}{{"work", 2, true}, {"halts", 1, false}, {"plain", 5, false}} {
		r.send(t, client.Message{Stream: c.stream, Key: "a", Body: []byte("a")})
		r.idle(t)
		path := c.stream + "/sessions/ann"
		fence := r.open(t, path).Fence
		if page := r.entries(t, path, fence, ""); len(page.Entries) != 1 {
			t.Fatal(page.text)
		}
		for try := 1; try <= c.tries; try++ {
			a := r.ask(t, "POST", path+"/fail", fmt.Sprintf(`{"fence":%d,"at":1,"try":%d}`, fence, try))
			last := try == c.tries
			if want := fmt.Sprintf(`{"tries":%d,"dead":%t,"stop":%t}`, try, last && c.dead, last && !c.dead); strings.TrimSpace(a.text) != want {
				t.Errorf("%s: got %s, want %s", c.stream, a.text, want)
			}
		}
	}
}

// The key is that of the message, however often its entry is redriven and fails again.
func TestTheDeadLetterOfASessionIsFoundAndRedrivenByTheKeyOfItsMessage(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: "streams: {pool: {pool: {poison: dead-letter, attempts: 1}}}\n"}
	r := p.start()
	defer r.stop()
	r.send(t, client.Message{Stream: "pool", Key: "order-77", Body: []byte("x")})
	r.idle(t)
	const path = "pool/sessions/ann"
	f := r.open(t, path).Fence
	ids := map[string]bool{}
	for number := uint64(1); number <= 3; number++ {
		page := r.entries(t, path, f, fmt.Sprint("&wait=5&after=", number-1))
		first := number == 1
		if len(page.Entries) != 1 || (page.Entries[0].ID == "order-77") != first || (page.Entries[0].RedeliveryOf == "order-77") == first {
			t.Fatalf("got %s", page.text)
		}
		if a := r.ask(t, "POST", path+"/fail", fmt.Sprintf(`{"fence":%d,"at":%d,"try":1}`, f, number)); a.Dead != true {
			t.Fatal(a.text)
		}
		letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{ID: "order-77", Limit: 10})
		if err != nil || len(letters) != 1 || letters[0].Key != "order-77" || letters[0].Session != "ann" || letters[0].Number != number {
			t.Fatalf("got %+v, %v", letters, err)
		}
		if ids[letters[0].ID] = true; len(ids) != int(number) {
			t.Errorf("got the id %s again", letters[0].ID)
		}
		if info, err := r.Redrive(t.Context(), admin.RedriveOptions{ID: "order-77"}); err != nil || info.Redriven != 1 {
			t.Fatalf("got %+v, %v", info, err)
		}
	}
}

func TestADelayedEffectOfASessionIsSentOnceAtItsTimeAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {work: {pool: {}}}\ndestinations: {ledger: {file: DIR/ledger.jsonl}}\n"}
		r := p.start()
		r.work(t, 1)
		const path = "work/sessions/ann"
		f := r.open(t, path).Fence
		r.entries(t, path, f, "&wait=5")
		begin := time.Now()
		for range 2 { // the second is a repetition
			a := r.ask(t, "POST", path+"/commit", fmt.Sprintf(`{"fence":%d,"from":0,"to":1,"effects":[{"to":"ledger","group":"g","after":"2s","body":"later"},{"to":"ledger","group":"g","body":"now"}]}`, f))
			if a.status != http.StatusOK {
				t.Fatalf("the commit is answered %s, want 200", a.text)
			}
		}
		if lines := p.awaitLines(t, 1); lines[0].Body != "now" {
			t.Errorf("the first line is %+v, want the effect that is not delayed", lines[0])
		}
		r.idle(t)
		r.stop()
		r = p.start()
		p.awaitLines(t, 2)
		if took := time.Since(begin); took < 2*time.Second {
			t.Errorf("the delayed effect is there after %s, want after at least 2s", took)
		}
		r.idle(t)
		r.stop()
		if lines := p.lines(); len(lines) != 2 || lines[0].Number != 2 || lines[0].Body != "now" || lines[1].Number != 1 || lines[1].Body != "later" {
			t.Errorf("the ledger has %+v, want now with the number 2 and then later with the number 1", lines)
		}
	})
}
