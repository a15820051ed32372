package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/testkit/concurrent"
	"github.com/effectively-once/once/internal/testkit/freeport"
)

// languages are the languages of the programs in examples/languages, with the command of a program.
// {} is the folder that its install.sh installs into.
func languages() map[string]map[string][]string {
	return map[string]map[string][]string{
		"python": {
			"send": {"{}/bin/python", "send.py"}, "sqs": {"{}/bin/python", "sqs.py"},
			"receive": {"{}/bin/python", "receive.py"}, "read": {"{}/bin/python", "read.py"},
		},
		"typescript": {
			"send": {"node", "{}/send.js"}, "sqs": {"node", "{}/sqs.js"},
			"receive": {"node", "{}/receive.js"}, "read": {"node", "{}/read.js"},
		},
		"java": {
			"send": {"java", "Send.java"}, "sqs": {"java", "-cp", "{}/*", "Sqs.java"},
			"receive": {"java", "Receive.java"}, "read": {"java", "Read.java"},
		},
		"shell": {"send": {"sh", "send.sh"}, "sqs": {"sh", "sqs.sh"}, "read": {"sh", "read.sh"}},
	}
}

// programTime is how long a program may take for one step. That of the shell starts the AWS command
// line for each try, which takes seconds if the machine is busy.
const programTime = 4 * time.Minute

// A languageRun is the programs of one language, and a server that they reach through a front. The
// front can lose an answer and kill the server.
type languageRun struct {
	t        *testing.T
	s        *server
	language string
	tools    string
	commands map[string][]string
	front    string
	losing   atomic.Bool
	failed   atomic.Int64 // requests since the last loss
	secret   []byte
	hook     string
	received *concurrent.Buffer
}

func TestTheProgramsOfEveryLanguageSendAndReceiveOnceWhateverIsKilled(t *testing.T) {
	for language, commands := range languages() {
		t.Run(language, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			r := newLanguageRun(t, language, commands)
			orders := r.sends()
			if commands["sqs"] != nil {
				orders = append(orders, r.pushes())
			}
			r.refused()
			r.reads(orders)
			if commands["receive"] != nil {
				r.receives(orders)
			}
		})
	}
}

func newLanguageRun(t *testing.T, language string, commands map[string][]string) *languageRun {
	t.Helper()
	install := exec.CommandContext(t.Context(), "../examples/languages/install.sh", language)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	tools, err := filepath.Abs("../.tools/languages/" + language)
	must(t, err)
	r := &languageRun{t: t, language: language, tools: tools, commands: commands, secret: make([]byte, 24)}
	_, _ = rand.Read(r.secret) // never fails
	address := freeport.Address(t)
	r.hook = "http://" + address + "/hook"
	r.s = newServer(t, onceBinary, "streams:\n  orders: {log: {retain: 7d}, destinations: [shop]}\n"+
		"destinations:\n  shop: {webhook: \""+r.hook+"\", secret: \"file:webhook-secret\"}\n")
	must(t, os.WriteFile(r.s.path("webhook-secret"), []byte(base64.StdEncoding.EncodeToString(r.secret)), 0o600), r.s.start())
	target, err := url.Parse(r.s.url())
	must(t, err)
	front := httptest.NewServer(r.lossy(target))
	t.Cleanup(front.Close)
	r.front = front.URL
	if commands["receive"] != nil {
		_, port, _ := strings.Cut(address, ":")
		r.received = &concurrent.Buffer{}
		r.start(r.received, "receive", port, r.s.path("webhook-secret"), r.s.path("received"))
		r.wait("the receiver is ready", func() bool { return strings.HasPrefix(r.received.String(), "receiving at") })
	} else {
		r.answers(address)
	}
	return r
}

// answers receives webhooks in place of a program.
func (r *languageRun) answers(address string) {
	r.t.Helper()
	listener, err := net.Listen("tcp", address)
	must(r.t, err)
	hook := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), ReadHeaderTimeout: startTime}
	go func() { _ = hook.Serve(listener) }()
	r.t.Cleanup(func() { _ = hook.Close() })
}

// lossy passes requests on. If it is losing, it loses the next answer to a message, and kills the
// server. While the server is down, a request gets no answer.
func (r *languageRun) lossy(target *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) { q.SetURL(target) },
		ModifyResponse: func(a *http.Response) error {
			message := strings.HasSuffix(a.Request.URL.Path, "/messages") || strings.HasSuffix(a.Request.Header.Get("X-Amz-Target"), "SendMessage")
			if !message || !r.losing.CompareAndSwap(true, false) {
				return nil
			}
			return errors.Join(errors.New("the answer is lost"), r.s.kill())
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			r.failed.Add(1)
			panic(http.ErrAbortHandler)
		},
	}
	return proxy
}

// start starts a program, which is killed at the end of the test.
func (r *languageRun) start(out *concurrent.Buffer, program string, args ...string) *exec.Cmd {
	r.t.Helper()
	line := append([]string(nil), r.commands[program]...)
	for i := range line {
		line[i] = strings.ReplaceAll(line[i], "{}", r.tools)
	}
	cmd := exec.Command(line[0], append(line[1:], args...)...)
	cmd.Dir = filepath.Join("../examples/languages", r.language)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(r.tools, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, &syscall.SysProcAttr{Setpgid: true}
	must(r.t, cmd.Start())
	r.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = cmd.Wait()
	})
	return cmd
}

// run runs a program to its end, and returns its output.
func (r *languageRun) run(program string, args ...string) string {
	r.t.Helper()
	out := &concurrent.Buffer{}
	cmd := r.start(out, program, args...)
	r.ends(cmd, out)
	return out.String()
}

// wait waits for a condition.
func (r *languageRun) wait(what string, condition func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), programTime)
	defer cancel()
	if err := poll(ctx, 20*time.Millisecond, func() (bool, error) { return condition(), nil }); err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// losesAnAnswer runs a program whose first answer is lost with the server, and returns when the
// program has tried again in vain.
func (r *languageRun) losesAnAnswer(out *concurrent.Buffer, program string, args ...string) *exec.Cmd {
	r.t.Helper()
	r.failed.Store(0)
	r.losing.Store(true)
	cmd := r.start(out, program, args...)
	defer func() {
		if r.t.Failed() {
			r.t.Logf("output of %s:\n%s", program, out)
		}
	}()
	r.wait(program+" tries again without an answer", func() bool { return r.failed.Load() >= 2 })
	return cmd
}

// sends sends two orders. At the first one the server is killed before its answer arrives, and then
// the sender. Its next run waits for the server.
func (r *languageRun) sends() []string {
	r.t.Helper()
	outbox := r.s.path("outbox.json")
	cmd := r.losesAnAnswer(&concurrent.Buffer{}, "send", r.front, "orders", outbox, "customer-7", `{"item": 7}`)
	must(r.t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	_ = cmd.Wait()

	out := &concurrent.Buffer{}
	before := r.failed.Load()
	cmd = r.start(out, "send", r.front, "orders", outbox)
	r.wait("the next run of send tries in vain", func() bool { return r.failed.Load() > before })
	must(r.t, r.s.start())
	r.ends(cmd, out)
	r.prints(out.String(), "true")
	r.prints(r.run("send", r.front, "orders", outbox, "customer-7", `{"item": 8}`), "false")
	if _, err := os.Stat(outbox); !errors.Is(err, os.ErrNotExist) {
		r.t.Errorf("the outbox must be gone after the answer: %v", err)
	}
	return []string{`{"item": 7}`, `{"item": 8}`}
}

// ends waits for the end of a program, which must be without an error.
func (r *languageRun) ends(cmd *exec.Cmd, out *concurrent.Buffer) {
	r.t.Helper()
	if err := cmd.Wait(); err != nil {
		r.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// prints checks the output of a sender, and whether the server had the order before.
func (r *languageRun) prints(out, replayed string) {
	r.t.Helper()
	receipt := strings.HasPrefix(out, "200 ") && strings.Contains(out, `"status":"done"`) ||
		strings.HasPrefix(out, "202 ") && strings.Contains(out, `"status":"accepted"`) // after ten seconds
	if !receipt || !strings.Contains(out, "replayed: "+replayed) {
		r.t.Errorf("the sender printed %q, want a status, its receipt, and replayed: %s", out, replayed)
	}
}

// pushes sends an order by the SDK of AWS, while the server is killed.
func (r *languageRun) pushes() string {
	r.t.Helper()
	out := &concurrent.Buffer{}
	cmd := r.losesAnAnswer(out, "sqs", r.front, "orders", "order-9", "customer-7", `{"item": 9}`)
	must(r.t, r.s.start())
	if r.ends(cmd, out); !strings.Contains(out.String(), "sent order-9") {
		r.t.Errorf("sqs printed %q, want that it sent order-9", out)
	}
	return `{"item": 9}`
}

// refused sends an order that is refused for good: it is put aside.
func (r *languageRun) refused() {
	r.t.Helper()
	outbox := r.s.path("refused.json")
	out := r.run("send", r.front, "nothing", outbox, "customer-7", `{"item": 7}`)
	aside, err := filepath.Glob(r.s.path("refused*.refused"))
	must(r.t, err)
	if _, err := os.Stat(outbox); !strings.HasPrefix(out, "404 ") || len(aside) != 1 || !errors.Is(err, os.ErrNotExist) {
		r.t.Errorf("a refused order printed %q and left %v (%v), want the status 404, and the order put aside", out, aside, err)
	}
}

// reads reads the log in two runs: the second one begins where the first one ended.
func (r *languageRun) reads(orders []string) {
	r.t.Helper()
	offset := r.s.path("offset")
	all := ""
	r.wait("the log has all orders", func() bool {
		all += r.run("read", r.front, "orders", "customer-7", offset)
		return strings.Count(all, "\n") >= len(orders)
	})
	lines := strings.Split(strings.TrimSpace(all), "\n")
	if len(lines) != len(orders) {
		r.t.Fatalf("the log has\n%s\nwant %d orders", all, len(orders))
	}
	for i, order := range orders {
		number, item := strconv.Itoa(i+1), regexp.MustCompile(`\d`).FindString(order)
		if !regexp.MustCompile(`\b` + number + `\b.*item\W+` + item + `\b`).MatchString(lines[i]) {
			r.t.Errorf("line %d of the log is %q, want number %s and %s", i+1, lines[i], number, order)
		}
	}
	if again := r.run("read", r.front, "orders", "customer-7", offset); again != "" {
		r.t.Errorf("the second reading printed %q, want nothing new", again)
	}
}

// receives checks that the receiver did its work once for each order, and then posts to it a
// genuine webhook twice, and forged ones.
func (r *languageRun) receives(orders []string) {
	r.t.Helper()
	r.wait("all orders are received", func() bool { return strings.Count(r.received.String(), "received ") >= len(orders) })
	for _, order := range orders {
		if n := strings.Count(r.received.String(), order); n < 1 {
			r.t.Errorf("the receiver printed\n%s\nwithout %s", r.received, order)
		}
	}
	now := time.Now()
	for _, post := range []struct {
		at     time.Time
		secret []byte
		want   int
	}{{now, r.secret, 204}, {now, r.secret, 204}, {now, []byte("another"), 401}, {now.Add(-time.Hour), r.secret, 401}, {now.Add(time.Hour), r.secret, 401}} {
		if got := r.post("orders/twice/1", "twice", post.at, post.secret); got != post.want {
			r.t.Errorf("a webhook of %v, signed with %q, is answered %d, want %d", post.at, post.secret, got, post.want)
		}
	}
	text := r.received.String()
	if strings.Count(text, "received ") != len(orders)+1 || strings.Count(text, "received orders/twice/1 ") != 1 || strings.Count(text, "known orders/twice/1 ") != 1 {
		r.t.Errorf("the receiver printed\n%s\nwant each of %d orders received once, and the one that was posted twice received and known", text, len(orders)+1)
	}
}

func (r *languageRun) post(id, body string, at time.Time, secret []byte) int {
	r.t.Helper()
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body) // a hash takes everything
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.hook, strings.NewReader(body))
	must(r.t, err)
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	must(r.t, err)
	must(r.t, resp.Body.Close())
	return resp.StatusCode
}
