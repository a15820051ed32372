package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

func TestHandlerTryShowsWhatWouldBeCommitted(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Webhook-Signature") == "" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"detail":"the request is not signed"}`)
			return
		}
		_, _ = io.WriteString(w, `{"state":{"n":8},"messages":[{"id":"try-1","reply":{"status":201,"body":8},"append":[{"body":1}],"effects":[`+
			`{"to":"ledger","group":"g","after":"1h","body":{"x":1}},{"timer":"remind","after":"7d"},{"cancel":"old"}]},{"id":"try-2","reject":"no money"}]}`)
	}))
	defer s.Close()
	t.Chdir(t.TempDir())
	text := "streams: {orders: {destinations: [ledger], log: {retain: 7d}}}\ndestinations: {ledger: {file: out}}\nhandlers: {orders: {url: " + s.URL + ", secret: env:ONCE_TRY_SECRET}}\n"
	if err := os.WriteFile("once.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ONCE_TRY_SECRET", "c2VjcmV0c2VjcmV0c2VjcmV0")
	w := newWorld(t)
	args := []string{"handler", "try", "orders", "--message", `{"n":1}`, "--message", "2", "--message", "@-", "--state", `{"n":7}`}
	if code := w.once(t.Context(), "3", args...); code != exitOK {
		t.Fatalf("exit %d, want 0: %s", code, w.err.String())
	}
	for _, want := range []string{
		`state before  {"n":7}`, `state after   {"n":8}`, "reply       201 8", `effect      to ledger group g after 1h {"x":1}`, "timer       remind after 7d",
		"cancel      old", "append      1", "reject      no money", "not answered  1 message: asked again after the commit",
	} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, w.out.String())
		}
	}
	if code := w.once(t.Context(), "3", append(args, "--json")...); code != exitOK {
		t.Fatalf("exit %d, want 0: %s", code, w.err.String())
	}
	var got struct {
		Before json.RawMessage `json:"state_before"`
		Answer struct {
			Messages []struct{ Reject string }
		}
	}
	if err := json.Unmarshal(w.out.Bytes(), &got); err != nil || len(got.Answer.Messages) != 2 || got.Answer.Messages[1].Reject != "no money" {
		t.Errorf("the JSON is %v, %+v; want the answer", err, got)
	}
	if code := w.once(t.Context(), "", "handler", "try", "orders", "--url", s.URL, "--message", "1"); code != exitFailed || !strings.Contains(w.err.String(), "the handler failed: the request is not signed") {
		t.Errorf("exit %d, %s; want 1 and the handler's words", code, w.err.String())
	}
	if err := os.WriteFile("once.yaml", []byte(strings.ReplaceAll(text, "ledger", "booked")), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := w.once(t.Context(), "3", args...); code != exitFailed || !strings.Contains(w.err.String(), `is "ledger", which is no destination of the stream; it has: booked`) {
		t.Errorf("exit %d, %s; want 1 and the destination", code, w.err.String())
	}
	if err := os.WriteFile("once.yaml", []byte(strings.ReplaceAll(text, ", log: {retain: 7d}", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := w.once(t.Context(), "3", args...); code != exitFailed || !strings.Contains(w.err.String(), "messages[0].append is for the log of the group, and the stream has none") {
		t.Errorf("exit %d, %s; want 1 and the log", code, w.err.String())
	}
}

func TestHandlerTryRunsAProgramWithoutAConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	script := "while read -r line; do\n  echo '{\"state\":1,\"messages\":[{\"id\":\"try-1\",\"effects\":[{\"to\":\"any\"}]}]}'\ndone\n"
	if err := os.WriteFile("handler.sh", []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	if code := w.once(t.Context(), "", "handler", "try", "orders", "--exec", "sh handler.sh", "--message", "1", "--timeout", "30s"); code != exitOK {
		t.Fatalf("exit %d, want 0: %s", code, w.err.String())
	}
	if !strings.Contains(w.out.String(), "effect      to any") {
		t.Errorf("the output lacks the effect:\n%s", w.out.String())
	}
}

func TestHandlerTryRefusesAStateThatIsTooLarge(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"state":"`+strings.Repeat("x", record.MaxBatchState)+`","messages":[{"id":"try-1"}]}`)
	}))
	defer s.Close()
	t.Chdir(t.TempDir())
	w := newWorld(t)
	code := w.once(t.Context(), "", "handler", "try", "orders", "--url", s.URL, "--message", "1")
	if code != exitFailed || !strings.Contains(w.err.String(), "state of 262146 bytes is larger than 262144: keep less in it, or use smaller groups") {
		t.Errorf("exit %d, %.300s; want %d and the size", code, w.err.String(), exitFailed)
	}
}

func TestHandlerTrySendsTheMessageOfItsFlags(t *testing.T) {
	var got []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		var request struct {
			Messages []struct {
				ID string `json:"id"`
			}
		}
		_ = json.Unmarshal(got, &request)
		_ = json.NewEncoder(w).Encode(map[string]any{"messages": request.Messages})
	}))
	defer s.Close()
	t.Chdir(t.TempDir())
	w := newWorld(t)
	for want, args := range map[string][]string{
		`"timer":"unpaid"}]`:                {"--timer", "unpaid"},
		`"id":"timer:0:1"`:                  {"--timer", "unpaid", "--message", "{}"},
		`"id":"order-1","try":3`:            {"--id", "order-1", "--try", "3", "--message", "1"},
		`"id":"order-2"`:                    {"--id", "order", "--message", "1", "--message", "2"},
		`"content_type":"text/plain"`:       {"--content-type", "text/plain", "--message", "not JSON"},
		`"body":"not JSON"`:                 {"--content-type", "text/plain", "--message", "not JSON"},
		`"headers":{"A":"b=c"}`:             {"--header", "A=b=c", "--message", "1"},
		`"content_type":"application/json"`: {"--message", "1"},
	} {
		got = nil
		code := w.once(t.Context(), "", append([]string{"handler", "try", "orders", "--url", s.URL}, args...)...)
		if code != exitOK || !strings.Contains(string(got), want) {
			t.Errorf("%q: exit %d, the request is %s; want 0 and %s: %s", args, code, got, want, w.err.String())
		}
	}
}

func TestHandlerTryRefusesWhatACommitRefuses(t *testing.T) {
	var results string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"messages":[{"id":"try-1",`+results+`}]}`)
	}))
	defer s.Close()
	t.Chdir(t.TempDir())
	text := "streams: {logged: {log: {retain: 7d}}, numbered: {admission: sequence}, plain: {destinations: [next]}}\ndestinations: {next: {stream: numbered}}\n"
	if err := os.WriteFile("once.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var timers []string
	for i := range record.MaxTimers + 1 {
		timers = append(timers, `{"timer":"`+strconv.Itoa(i)+`","after":"1h"}`)
	}
	long := strings.Repeat("x", record.MaxReply)
	for _, c := range []struct{ stream, results, want string }{
		{"plain", `"reply":{"status":200,"headers":{"A":"` + strings.Repeat("x", 9000) + `"},"body":"` + strings.Repeat("x", record.MaxReply-9000) + `"}`, "headers included: at most"},
		{"plain", `"effects":[{"to":"next","after":"1h"}]`, "with admission: sequence, which takes none"},
		{"plain", `"effects":[` + strings.Join(timers, ",") + `]`, "timers in one group: at most"},
		{"none", `"effects":[` + strings.Join(timers, ",") + `]`, "timers in one group: at most"},
		{"logged", `"effects":[{"timer":"a","after":"1h","body":"` + long + `"}]`, "bytes in this stream"},
	} {
		results = c.results
		w := newWorld(t)
		code := w.once(t.Context(), "", "handler", "try", c.stream, "--url", s.URL, "--message", "1")
		if code != exitFailed || !strings.Contains(w.err.String(), c.want) {
			t.Errorf("%s: exit %d, %.300s; want 1 and %q", c.stream, code, w.err.String(), c.want)
		}
	}
}

func TestHandlerTryEndsAtAnInterruptAndKillsTheProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	script := "read -r line\necho $$ >started\nmv started pid\nexec sleep 3600\n"
	if err := os.WriteFile("handler.sh", []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	text := make(chan []byte, 1)
	go func() {
		defer close(text)
		defer interrupt()
		eventually.Succeeds(t, func() error {
			data, err := os.ReadFile("pid")
			if err == nil {
				text <- data
			}
			if ctx.Err() != nil { // the command has failed
				err = nil
			}
			return err
		})
	}()
	w := newWorld(t)
	if code := w.once(ctx, "", "handler", "try", "orders", "--exec", "exec sh handler.sh", "--message", "1", "--timeout", "1h"); code != exitIncomplete {
		t.Errorf("exit %d, want %d: %s", code, exitIncomplete, w.err.String())
	}
	interrupt() // also if the command has failed before the program had begun
	pid, err := strconv.Atoi(strings.TrimSpace(string(<-text)))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
		t.Errorf("the program %d still runs", pid)
	}
}

func TestHandlerTryRefusesWhatItCanNotSend(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("once.yaml", []byte("streams: {a: {}, b: {}, c: {}, d: {pool: {}}}\nhandlers: {b: {lambda: f}, c: {exec: x}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for want, args := range map[string][]string{
		"--message is required":                {"a", "--url", "http://x"},
		"exclude each other":                   {"a", "--url", "http://x", "--exec", "x", "--message", "1"},
		"has no handler in the configuration":  {"a", "--message", "1"},
		"is a function of Lambda":              {"b", "--message", "1"},
		"--timer makes one message":            {"a", "--url", "http://x", "--timer", "x", "--message", "1", "--message", "2"},
		"--id and --timer exclude each other":  {"a", "--url", "http://x", "--timer", "x", "--id", "y"},
		"--try must be at least 1":             {"a", "--url", "http://x", "--message", "1", "--try", "0"},
		"must be a media type":                 {"a", "--url", "http://x", "--message", "1", "--content-type", "x y"},
		"must be NAME=VALUE":                   {"a", "--url", "http://x", "--message", "1", "--header", "x"},
		"headers must have names":              {"a", "--url", "http://x", "--message", "1", "--header", "=x"},
		"--message must be JSON":               {"a", "--url", "http://x", "--message", "text"},
		"--state must be JSON":                 {"a", "--url", "http://x", "--message", "1", "--state", "{"},
		"no such file":                         {"a", "--url", "http://x", "--message", "@" + filepath.Join(dir, "none")},
		"must be a duration":                   {"a", "--url", "http://x", "--message", "1", "--timeout", "soon"},
		"must be absolute, with http or https": {"a", "--url", "x", "--message", "1"},
		"is missing or empty":                  {"a", "--url", "http://x", "--message", "1", "--secret", "env:ONCE_NO_SUCH"},
		"as env:NAME or file:PATH":             {"a", "--url", "http://x", "--message", "1", "--secret", "ONCE_NO_SUCH"},
		"stream d has a pool":                  {"d", "--url", "http://x", "--message", "1"},
		"signs requests to a URL":              {"c", "--message", "1", "--secret", "env:ONCE_NO_SUCH"},
	} {
		if code := w.once(t.Context(), "", append([]string{"handler", "try"}, args...)...); code != exitUsage || !strings.Contains(w.err.String(), want) {
			t.Errorf("%q: exit %d, %s; want 2 and %q", args, code, w.err.String(), want)
		}
	}
}

func TestOnlyCheckWarnsThatAProgramWorksInDevOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("once.yaml", []byte("streams: {a: {}}\nhandlers: {a: {exec: x}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, warns := range map[string]bool{"check": true, "dev": false} {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.server = &cannedServer{end: cancel}
		if code := w.once(ctx, "", command); code != exitOK || strings.Contains(w.err.String(), "works in once dev only") != warns {
			t.Errorf("once %s: exit %d, a warning: want %v\n%s", command, code, warns, w.err.String())
		}
	}
}
