package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/testkit/freeport"
)

// The rows of the table of handlers. Each example of handlers in several languages must do the same
// in all of them.
func handlerRows() []handlerRow {
	return []handlerRow{
		{example: stockExample(), language: "go", program: "./stock"},
		{
			example: stockExample(), language: "python", folder: "examples/stock/python", prepare: pythonPackage,
			serve: func(port string) []string {
				return []string{"python3", "-m", "once_handler", "stock:change", "--port", port, "--secret", "env:HANDLER_SECRET"}
			},
		},
		{example: transferExample(), language: "go", program: "./transfer"},
		{
			example: transferExample(), language: "typescript", folder: "examples/transfer/typescript", prepare: transferInTypeScript,
			serve: func(port string) []string { return []string{"node", "dist/main.js", port} },
		},
	}
}

// A handlerRow is an implementation of an example.
type handlerRow struct {
	example  *handlerExample
	language string
	// program is the Go package, in the module examples, of a program that serves the stream with
	// its handler. It has the flags -listen and -data. Empty for other languages: then once dev
	// calls the handler.
	program string
	// folder has the files of the handler, and a once.yaml that starts it by exec.
	folder string
	// prepare returns further environment variables of the handler, once it can run in dir.
	prepare func(t *testing.T, dir string) []string
	// serve returns the command of a server of the handler at a port of this machine. The secret is
	// in $HANDLER_SECRET.
	serve func(port string) []string
}

// pythonPackage returns the variable with which Python finds the package for handlers.
func pythonPackage(t *testing.T, _ string) []string {
	t.Helper()
	path, err := filepath.Abs("../handlers/python/src")
	must(t, err)
	return []string{"PYTHONPATH=" + path, "PYTHONDONTWRITEBYTECODE=1"}
}

// A handlerExample is a load for a stream, and the check of its results, for handlers in any
// language.
type handlerExample struct {
	stream string
	// load returns the operations of all clients. Keys are different.
	load func(random *rand.Rand) []operation
	// judge checks the files of the destinations against the replies.
	judge func(v *verdict, h *handled)
}

// An operation is a message that clients send until it is answered.
type operation struct {
	key, group, body string
}

// A handlerReply is an answer to an operation: the handler's own, or that it rejected the message.
type handlerReply struct {
	status   int
	body     string
	rejected bool
}

// A handled is one run of the table: a system with a handler, its load, and all replies.
type handled struct {
	*server
	handler *handlerServer // nil if the handler is part of the system, or a program of once dev
	row     handlerRow
	load    []operation
	passed  atomic.Int64
	kills   atomic.Int64

	mu      sync.Mutex
	replies map[string][]handlerReply // by key
}

const (
	handlerClients = 12
	handlerCopies  = 3 // of each operation
	handlerKills   = 3 // of the engine, and as many of the handler
	handlerSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

func TestHandlersOfEveryLanguageAnswerOnceWhateverIsKilled(t *testing.T) {
	for _, row := range handlerRows() {
		ways := []string{"exec", "url"}
		if row.program != "" {
			ways = []string{"embedded"}
		}
		for _, way := range ways {
			t.Run(row.example.stream+" "+row.language+" "+way, func(t *testing.T) {
				t.Parallel() // they wait for disks and restarts most of the time
				h := newHandled(t, row, way)
				h.run(t)
			})
		}
	}
}

func newHandled(t *testing.T, row handlerRow, way string) *handled {
	t.Helper()
	h := &handled{row: row, replies: map[string][]handlerReply{}}
	if row.program != "" {
		h.server = newServer(t, onceBinary, "")
		path, err := buildIn("../examples", "handlers-"+row.example.stream, row.program)
		must(t, err)
		h.program = []string{path, "--data", ".once"}
		return h
	}
	text, err := os.ReadFile(filepath.Join("..", row.folder, "once.yaml"))
	must(t, err)
	port := ""
	if way == "url" {
		_, port, _ = strings.Cut(freeport.Address(t), ":")
		byURL := fmt.Sprintf(`{url: "http://127.0.0.1:%s", secret: "env:HANDLER_SECRET"}`, port)
		text = regexp.MustCompile(`\{exec: "[^"]*"\}`).ReplaceAll(text, []byte(byURL))
	}
	h.server = newServer(t, onceBinary, string(text))
	must(t, copyFiles(filepath.Join("..", row.folder), h.dir, "once.yaml"))
	h.env = append(row.prepare(t, h.dir), "HANDLER_SECRET="+handlerSecret)
	if way == "url" {
		h.handler = &handlerServer{t: t, command: row.serve(port), dir: h.dir, env: h.env, port: port}
		must(t, h.handler.start())
	}
	return h
}

// copyFiles copies the files of a folder, but one.
func copyFiles(from, to, but string) error {
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		if e.Type().IsRegular() && e.Name() != but {
			err = errors.Join(err, copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
		}
	}
	return err
}

func (h *handled) run(t *testing.T) {
	t.Helper()
	random := newRandom(t)
	h.load = h.row.example.load(random)
	must(t, h.start())
	var all []operation
	for range handlerCopies {
		all = append(all, h.load...)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

	ctx, engine := newKiller(t, h.server, random, handlerKills, len(all))
	killed := h.killHandler(ctx, random, len(all))
	concurrently(ctx, t, handlerClients, all, func(ctx context.Context, o operation) error {
		err := h.send(ctx, o)
		h.passed.Add(1)
		engine.acknowledged()
		return err
	})
	engine.finish(t)
	must(t, <-killed)
	h.settle(t, drainTime)
	h.repeat(t)
	t.Logf("%d requests; the handler was killed %d times", len(all), h.kills.Load())
	h.judge(t)
}

// send sends an operation until it is answered, and keeps the answer.
func (h *handled) send(ctx context.Context, o operation) error {
	pause := 10 * time.Millisecond
	for {
		if reply, err := h.post(ctx, o); err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.replies[o.key] = append(h.replies[o.key], reply)
			return nil
		} else if !errors.Is(err, errNoReply) {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 200*time.Millisecond)
	}
}

// errNoReply says that a request must be repeated.
var errNoReply = errors.New("no reply")

func (h *handled) post(ctx context.Context, o operation) (handlerReply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url()+"/v1/streams/"+h.row.example.stream+"/messages", strings.NewReader(o.body))
	if err != nil {
		return handlerReply{}, err
	}
	req.Header.Set("Idempotency-Key", o.key)
	req.Header.Set("Once-Group", o.group)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Prefer", "wait=20")
	resp, err := connections.Do(req)
	if err != nil {
		return handlerReply{}, errNoReply // the server is down
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return handlerReply{}, errNoReply
	}
	if resp.Header.Get("Once-Reply") == "true" {
		return handlerReply{status: resp.StatusCode, body: string(body)}, nil
	}
	switch again := resp.StatusCode; {
	case again == http.StatusAccepted, again == http.StatusConflict, again == http.StatusTooManyRequests, again >= http.StatusInternalServerError:
		return handlerReply{}, errNoReply
	}
	var problem struct{ Type, Detail string }
	if json.Unmarshal(body, &problem) == nil && strings.HasSuffix(problem.Type, "rejected") {
		return handlerReply{status: resp.StatusCode, body: problem.Detail, rejected: true}, nil
	}
	return handlerReply{}, fmt.Errorf("%s: status %d: %s; want a reply or a rejection", o.key, resp.StatusCode, body)
}

// repeat sends each operation that has a reply once more: it must get the same one.
func (h *handled) repeat(t *testing.T) {
	t.Helper()
	var replied []operation
	for _, o := range h.load {
		if _, ok := h.replyTo(o); ok {
			replied = append(replied, o)
		}
	}
	concurrently(t.Context(), t, handlerClients, replied, h.send)
}

// replyTo returns the first reply of the handler to an operation that is no rejection.
func (h *handled) replyTo(o operation) (handlerReply, bool) {
	for _, r := range h.replies[o.key] {
		if !r.rejected {
			return r, true
		}
	}
	return handlerReply{}, false
}

func (h *handled) judge(t *testing.T) {
	t.Helper()
	v := &verdict{}
	for _, o := range h.load {
		first, _ := h.replyTo(o)
		for _, r := range h.replies[o.key] {
			if !r.rejected && r != first {
				v.add("%s was answered %+v and %+v, want the same reply each time", o.key, first, r)
			}
		}
		if len(h.replies[o.key]) == 0 {
			v.add("%s was not answered", o.key)
		}
	}
	letters, err := h.deadLetters()
	must(t, err)
	for _, l := range letters {
		if l.Reason != "rejected" {
			v.add("the dead letter %v (%s), want only messages that the handler rejected", l, l.Detail)
		}
	}
	h.row.example.judge(v, h)
	v.report(t)
}

// killHandler kills the handler at random moments of the load, and restarts it if once dev
// does not.
func (h *handled) killHandler(ctx context.Context, random *rand.Rand, load int) <-chan error {
	done := make(chan error, 1)
	due := moments(random, handlerKills, load)
	go func() {
		var err error
		for _, moment := range due {
			for h.passed.Load() < moment && err == nil {
				err = sleep(ctx, time.Millisecond)
			}
			if err == nil {
				err = h.strikeHandler()
			}
		}
		done <- err
	}()
	return done
}

func (h *handled) strikeHandler() error {
	switch {
	case h.row.program != "":
		return nil // the killer of the engine kills it
	case h.handler != nil:
		h.kills.Add(1)
		return errors.Join(h.handler.kill(), h.handler.start())
	}
	for _, pid := range childrenOf(h.life().cmd.Process.Pid) {
		if syscall.Kill(-pid, syscall.SIGKILL) == nil { // the leader of a group
			h.kills.Add(1)
		}
	}
	return nil
}

// childrenOf returns the processes that a process has started.
func childrenOf(pid int) (children []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range lists {
		text, _ := os.ReadFile(path) // the process may have ended
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// A handlerServer is a handler as a server of its own, which can be killed and restarted.
type handlerServer struct {
	t       *testing.T
	command []string
	dir     string
	env     []string
	port    string

	process *process
}

// start starts the server and waits until it listens.
func (s *handlerServer) start() error {
	output := &bytes.Buffer{}
	p := &process{cmd: exec.Command(s.command[0], s.command[1:]...), gone: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = s.dir, append(os.Environ(), s.env...), output, output
	if err := p.run(); err != nil {
		return err
	}
	if s.process == nil {
		s.t.Cleanup(func() { _ = s.kill() })
	}
	s.process = p
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	return poll(ctx, 5*time.Millisecond, func() (bool, error) {
		if p.over() {
			return false, fmt.Errorf("%v ended by itself: %v\n%s", s.command, p.cmd.ProcessState, output)
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+s.port)
		if err == nil {
			err = c.Close()
		}
		return err == nil, nil
	})
}

// kill ends the process by SIGKILL.
func (s *handlerServer) kill() error {
	if err := s.process.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.process.gone
	return nil
}
