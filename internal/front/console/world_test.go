package console_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

// hostile is markup, terminal escapes and a text that is shown from right to left.
const hostile = "<script>alert(1)</script>\x1b[31m\u202etxt.exe\r\"'"

const streams = `
streams:
  orders: {destinations: [hook]}
  stock: {destinations: [ledger]}
  jobs: {retry: {first: 10ms, max: 50ms}}
  numbers: {admission: sequence, destinations: [ledger]}
  room: {log: {retain: 1h}}
  work: {pool: {partitions: 1}}
destinations:
  hook: {webhook: HOOK, retry: {first: 10ms, max: 50ms}}
  ledger: {file: DIR/ledger.jsonl}
`

// A world is a running system with a console, and a webhook that refuses everything.
type world struct {
	testing.TB
	system *embedded.System
	server *httptest.Server
	data   string
	client *client.Client
	end    func()
}

func newWorld(t testing.TB, console embedded.Console) *world {
	t.Helper()
	return newWorldAt(t, console, time.Now)
}

func newWorldAt(t testing.TB, console embedded.Console, now func() time.Time) *world {
	t.Helper()
	dir := t.TempDir()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "field x missing", http.StatusBadRequest) }))
	t.Cleanup(hook.Close)
	c, err := config.Parse("test", []byte(strings.NewReplacer("DIR", dir, "HOOK", hook.URL).Replace(streams)))
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan bool, 1)
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: filepath.Join(dir, "data"), Console: console, AllowHosts: []string{"shop.example"}, Now: now, Ready: func(string) { ready <- true }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start([]system.Stream{{Stream: record.Stream{Name: "jobs", Handler: job}}}); err != nil {
		t.Fatal(errors.Join(err, s.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-ready
	w := &world{TB: t, system: s, data: filepath.Join(dir, "data"), server: httptest.NewServer(s.Handler())}
	w.end = func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
		w.server.Close()
		w.end = func() {}
	}
	t.Cleanup(func() { w.end() })
	if w.client, err = client.New(w.server.URL, client.Options{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// job refuses messages whose body is bad, fails for those that are broken, sets a timer for those
// that remind, and replies to others.
func job(_ context.Context, a *record.Attempt, m record.Message) error {
	switch string(m.Body) {
	case "remind":
		return a.SetTimer("reminder <b>", time.Hour, record.Effect{})
	case "broken":
		return errors.New("database is restarting " + hostile)
	case hostile:
		return &record.RejectError{Detail: "no " + hostile}
	}
	a.Reply(record.Reply{Status: http.StatusOK, Body: []byte("a reply")})
	return nil
}

func (w *world) send(m client.Message) {
	w.Helper()
	if _, err := w.client.Send(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

// An answer is a page.
type answer struct {
	status int
	header http.Header
	body   string
	text   string // of the body, without its tags
}

func (w *world) do(r *http.Request) answer {
	w.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	spaced := regexp.MustCompile(`</(td|th|dt|dd|p)>`).ReplaceAllString(string(body), " ")
	text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(spaced, ""))
	return answer{resp.StatusCode, resp.Header, string(body), text}
}

func (w *world) request(method, path string, form url.Values) *http.Request {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, w.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// get returns a page, which must be one without a control character.
func (w *world) get(path string, pairs ...string) answer {
	w.Helper()
	a := w.load(path, pairs...)
	if a.status != http.StatusOK {
		w.Fatalf("%s: %d %s", path, a.status, a.text)
	}
	return a
}

// load returns a page, or the answer that there is none.
func (w *world) load(path string, pairs ...string) answer {
	w.Helper()
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	a := w.do(w.request(http.MethodGet, "/console"+path+"?"+values.Encode(), nil))
	w.harmless(a)
	return a
}

// harmless fails the test if a page has markup or control characters of others.
func (w *world) harmless(a answer) {
	w.Helper()
	if strings.Contains(a.body, "<script>") || strings.Contains(a.body, "alert(1)\">") || strings.ContainsAny(a.body, "\x1b\r\u202e\x00") {
		w.Errorf("the page has what a sender wrote, as it is:\n%q", a.body)
	}
}

func (w *world) shows(a answer, texts ...string) {
	w.Helper()
	flat := strings.Join(strings.Fields(a.text), " ")
	for _, text := range texts {
		if !strings.Contains(flat, text) {
			w.Errorf("the page does not show %q:\n%s", text, flat)
		}
	}
}

// until repeats a page until it shows a text: the system works on its own.
func (w *world) until(text, path string, pairs ...string) (a answer) {
	w.Helper()
	eventually.Succeeds(w, func() error {
		a = w.load(path, pairs...)
		if !strings.Contains(strings.Join(strings.Fields(a.text), " "), text) {
			return fmt.Errorf("the page does not show %q:\n%s", text, a.text)
		}
		return nil
	})
	return a
}

// token returns the token in the forms of a page.
func (w *world) token() string {
	w.Helper()
	m := regexp.MustCompile(`name="token" value="(\w+)"`).FindStringSubmatch(w.get("/send").body)
	if m == nil {
		w.Fatal("the page has no token")
	}
	return m[1]
}

// letters returns the dead letters, when there are n.
func (w *world) letters(n int) (list []admin.DeadLetter) {
	w.Helper()
	eventually.Succeeds(w, func() (err error) {
		list, err = w.system.DeadLetters(w.Context(), admin.DeadLettersOptions{Limit: n + 1})
		if err == nil && len(list) != n {
			err = fmt.Errorf("%d dead letters, want %d: %+v", len(list), n, list)
		}
		return err
	})
	return list
}

// events returns the events of a page, one text each, until stop is called.
func (w *world) events(path string) (next func() string, stop func()) {
	w.Helper()
	return eventsOf(w, w.server, path)
}

// eventsOf returns the events of a page of a server.
func eventsOf(t testing.TB, server *httptest.Server, path string) (next func() string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/console"+path, http.NoBody)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := server.Client().Do(r) //nolint:bodyclose // stop closes it
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	lines := bufio.NewReader(resp.Body)
	return func() string {
			var text strings.Builder
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return ""
				}
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					text.WriteString(data)
				}
				if line == "\n" && text.Len() > 0 {
					return text.String()
				}
			}
		}, func() {
			cancel()
			_ = resp.Body.Close()
		}
}
