package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

const poolYAML = `
streams:
  work: {pool: {window: 100}}
  chat: {log: {retain: 1h}, destinations: []}
`

// sendNumbers sends messages with the bodies first to last to the stream work, in batches.
func (s *devServer) sendNumbers(ctx context.Context, first, last int) {
	s.t.Helper()
	var messages []client.Message
	for n := first; n <= last; n++ {
		messages = append(messages, client.Message{Stream: "work", Key: fmt.Sprint("m-", n), ContentType: "application/json", Body: fmt.Append(nil, n)})
	}
	for _, r := range s.client().SendBatch(ctx, messages) {
		if r.Err != nil {
			s.t.Error(r.Err)
		}
	}
}

// A consumerProcess is "once consume", or another command, in a process of its own.
type consumerProcess struct {
	*exec.Cmd
	out    *output
	done   chan struct{} // closed when it has ended
	before uint64        // the fence of the session a when it was started
}

func (s *devServer) consume(args ...string) *consumerProcess {
	s.t.Helper()
	before := uint64(0)
	s.up()
	if info, err := s.client().Session(s.t.Context(), "work", "", "a"); err == nil {
		before = info.Fence
	}
	p := s.process(append([]string{"consume", "--url", "http://" + s.address}, args...)...)
	p.before = before
	return p
}

func (s *devServer) process(args ...string) *consumerProcess {
	s.t.Helper()
	p := &consumerProcess{Cmd: command(context.Background(), args...), out: &output{more: make(chan struct{})}, done: make(chan struct{})}
	p.Dir, p.Stdout, p.Stderr = s.dir, p.out, p.out
	p.WaitDelay = time.Minute // a command that it left behind may have its output
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // the process state has the result
		close(p.done)
	}()
	s.t.Cleanup(func() { p.kill() })
	return p
}

func (p *consumerProcess) kill() {
	_ = p.Process.Kill()
	<-p.done
}

// code waits for the end of the process and returns its exit code.
func (p *consumerProcess) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the consumer does not end: %s", p.out.string())
	}
	return p.ProcessState.ExitCode()
}

func (o *output) string() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// bodies returns the bodies of the entries in a file of once consume --file, in its order.
func bodies(t *testing.T, path string) (out []int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		document, _, _ := bytes.Cut(line, []byte("\t"))
		if len(document) == 0 {
			continue // a line that only passes an entry
		}
		var l tailLine
		if err := json.Unmarshal(document, &l); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, int(l.Body.(float64)))
	}
	return out
}

// checkEach returns an error if the numbers 1 to last are not there once each.
func checkEach(t *testing.T, got []int, last int) {
	t.Helper()
	seen := map[int]int{}
	for _, n := range got {
		seen[n]++
	}
	for n := 1; n <= last; n++ {
		if seen[n] != 1 {
			t.Errorf("message %d is there %d times", n, seen[n])
		}
	}
	if len(got) != last {
		t.Errorf("%d entries, want %d", len(got), last)
	}
}

// TestAFileHasEachEntryOnceWhileItsConsumerIsKilled kills consume with SIGKILL again and again
// while messages are sent. Each consumer takes the session over by the name of its holder.
func TestAFileHasEachEntryOnceWhileItsConsumerIsKilled(t *testing.T) {
	const kills, each = 20, 50
	s := newDevServerWith(t, poolYAML)
	path := filepath.Join(s.dir, "out.jsonl")
	var sending sync.WaitGroup
	sent := make(chan struct{})
	sending.Go(func() {
		for i := range kills {
			s.sendNumbers(t.Context(), i*each+1, (i+1)*each)
			sent <- struct{}{}
		}
		close(sent)
	})
	args := []string{"work", "--session", "a", "--file", "out.jsonl", "--take", "mine", "--max", "3"}
	for range sent {
		before := size(path)
		p := s.consume(args...)
		eventually.Succeeds(t, func() error { // it is killed while it writes
			if size(path) == before && !p.over() {
				return errors.New("the consumer has written nothing")
			}
			return nil
		})
		p.kill()
	}
	sending.Wait()
	s.finish(s.consume(args...), kills*each)
	checkEach(t, bodies(t, path), kills*each)
}

func (p *consumerProcess) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// collect is a command that appends the bodies of its entries to a file.
const collect = `while read -r line; do n=${line#*\"number\":}; n=${n%%,*}; b=${line##*\"body\":}; echo "${b%\}}" >> FILE; echo "$n"; done`

func collecting(file string) string { return strings.ReplaceAll(collect, "FILE", file) }

func numbersIn(t *testing.T, path string) (out []int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func TestOfTwoConsumersOfOneSessionOneWaitsForTheOther(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 50)
	first := s.consume("work", "--session", "a", "--exec", collecting("out"), "--holder", "one")
	waitForNumbers(t, filepath.Join(s.dir, "out"), 50)
	second := s.consume("work", "--session", "a", "--exec", collecting("out"), "--holder", "two")
	second.out.await(t, `held by "one"; waiting until it is free: its lease ends in [0-9]+s, unless the holder renews it; --take now does not wait\n`)
	s.sendNumbers(t.Context(), 51, 100)
	waitForNumbers(t, filepath.Join(s.dir, "out"), 100)
	s.awaitCursor(100)
	if _, out := s.run("sessions", "work"); !strings.Contains(out, " idle\n") {
		t.Errorf("a consumer holds the session: %s", out)
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.code(t); code != exitIncomplete || !strings.Contains(first.out.string(), "the session is released") {
		t.Errorf("an interrupted consumer: exit %d: %s", code, first.out.string())
	}
	s.sendNumbers(t.Context(), 101, 150)
	s.finish(second, 150)
	if _, out := s.run("sessions", "work"); !strings.Contains(out, " free\n") {
		t.Errorf("nobody holds the session: %s", out)
	}
	checkEach(t, numbersIn(t, filepath.Join(s.dir, "out")), 150)
}

func waitForNumbers(t *testing.T, path string, n int) {
	t.Helper()
	eventually.Succeeds(t, func() error {
		text, err := os.ReadFile(path)
		if lines := bytes.Count(text, []byte("\n")); err == nil && lines < n {
			return fmt.Errorf("%s has %d lines, want %d", path, lines, n)
		}
		return err
	})
}

// stop stops a process, and waits until all of its threads are stopped: on a busy machine some go on
// for a while after the signal.
func (p *consumerProcess) stop(t *testing.T) {
	t.Helper()
	if err := freeze(p.Process); err != nil {
		t.Fatal(err)
	}
	running := func(thread string) bool {
		text, err := os.ReadFile(thread)
		_, state, _ := strings.Cut(string(text), ") ") // after the name
		return err == nil && !strings.HasPrefix(state, "T")
	}
	eventually.Succeeds(t, func() error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Process.Pid))
		if slices.ContainsFunc(threads, running) {
			return errors.New("the process is not stopped")
		}
		return err
	})
}

// TestAConsumerThatWasStoppedBeyondItsLeaseDoesNothingAfterAnotherTookOver stops consume with
// SIGSTOP until another one has taken the session, and lets it continue.
func TestAConsumerThatWasStoppedBeyondItsLeaseDoesNothingAfterAnotherTookOver(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 20)
	first := s.consume("work", "--session", "a", "--exec", collecting("first"), "--holder", "one", "--lease", "1s")
	waitForNumbers(t, filepath.Join(s.dir, "first"), 20)
	s.awaitCursor(20)
	first.stop(t)
	s.sendNumbers(t.Context(), 21, 60)
	second := s.consume("work", "--session", "a", "--exec", collecting("second"), "--holder", "two")
	waitForNumbers(t, filepath.Join(s.dir, "second"), 40)
	if err := thaw(first.Process); err != nil {
		t.Fatal(err)
	}
	s.sendNumbers(t.Context(), 61, 80)
	first.out.await(t, `replaced by "two"; waiting until the session is free\n`)
	first.kill() // or it takes the session once the second one has released it
	s.finish(second, 80)
	checkEach(t, append(numbersIn(t, filepath.Join(s.dir, "first")), numbersIn(t, filepath.Join(s.dir, "second"))...), 80)
}

// finish waits until a consumer has opened the session a and its entries are processed, and
// interrupts it.
func (s *devServer) finish(p *consumerProcess, last uint64) {
	s.t.Helper()
	s.await(fmt.Sprint(last, " by another holder"), func(i client.SessionInfo) bool { return i.Fence > p.before && i.Cursor >= last })
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if code := p.code(s.t); code != exitIncomplete || !strings.Contains(p.out.string(), "the session is released") {
		s.t.Errorf("an interrupted consumer: exit %d: %s", code, p.out.string())
	}
	if info, err := s.client().Session(s.t.Context(), "work", "", "a"); err != nil || info.Holder != "" || info.Cursor != last {
		s.t.Errorf("%+v, %v: the session is not released", info, err)
	}
}

// awaitCursor waits until the cursor of the session a is at a number.
func (s *devServer) awaitCursor(number uint64) {
	s.t.Helper()
	s.await(fmt.Sprint(number), func(i client.SessionInfo) bool { return i.Cursor >= number })
}

// await waits until the session a is as it should be.
func (s *devServer) await(what string, done func(client.SessionInfo) bool) {
	s.t.Helper()
	eventually.Succeeds(s.t, func() error {
		if info, err := s.client().Session(s.t.Context(), "work", "", "a"); err != nil || !done(info) {
			return fmt.Errorf("session a is not at %s: %+v, %w", what, info, err)
		}
		return nil
	})
}

func TestAnEntryThatFailsIsTriedAgainAndThenStopsTheConsumer(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 5)
	failing := `while read -r line; do n=${line#*\"number\":}; n=${n%%,*}; if [ "$n" = 3 ]; then echo fail 3 no stock; else echo "$n" >> out; echo "$n"; fi; done`
	p := s.consume("work", "--session", "a", "--exec", failing)
	if code := p.code(t); code != exitFailed || !strings.Contains(p.out.string(), "entry 3 (m-3) has failed 5 times") || !strings.Contains(p.out.string(), "once session from work a --skip-to 3") {
		t.Fatalf("exit %d: %s", code, p.out.string())
	}
	if _, out := s.run("sessions", "work"); !strings.Contains(out, "stopped at 3\n") {
		t.Errorf("the session needs a person: %s", out)
	}
	if _, out := s.run("sessions", "work", "--json"); !strings.Contains(out, `"detail": "entry 3: no stock"`) {
		t.Errorf("the session has no reason: %s", out)
	} else {
		s.sameAsHTTP(out, "/v1/streams/work/sessions")
	}
	code, out := s.run("session", "from", "work", "a", "--skip-to", "3", "--yes")
	if code != 0 || !strings.Contains(out, "its entries up to 3 that were not reported as processed are dead letters") {
		t.Fatalf("exit %d: %s", code, out)
	}
	s.finish(s.consume("work", "--session", "a", "--exec", failing), 5)
	if got := fmt.Sprint(numbersIn(t, filepath.Join(s.dir, "out"))); got != "[1 2 4 5]" {
		t.Error(got)
	}
}

// sameAsHTTP reports an error if the JSON of a command is not the answer of the HTTP API.
func (s *devServer) sameAsHTTP(text, path string) {
	s.t.Helper()
	s.up()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.address+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var want, got any
	if err := errors.Join(json.NewDecoder(resp.Body).Decode(&want), json.Unmarshal([]byte(text), &got)); err != nil {
		s.t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		s.t.Errorf("%s (-HTTP +command)\n%s", path, d)
	}
}

// TestTheLinesOfAPoolsSessionNameTheGroup also continues a file of lines without a group, which an
// older version wrote.
func TestTheLinesOfAPoolsSessionNameTheGroup(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	send := func(stream, key string) {
		t.Helper()
		if _, err := s.client().Send(t.Context(), client.Message{Stream: stream, Key: key, Group: "customer-7", ContentType: "application/json", Body: []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	const group = `"group":"customer-7",`
	path := filepath.Join(s.dir, "out")
	send("work", "o1")
	s.finish(s.consume("work", "--session", "a", "--file", "out"), 1)
	text, err := os.ReadFile(path)
	older := strings.Replace(string(text), group, "", 1)
	if err != nil || older == string(text) {
		t.Fatalf("%v: no group in %q", err, text)
	}
	if err := os.WriteFile(path, []byte(older), 0o600); err != nil {
		t.Fatal(err)
	}
	send("work", "o2")
	s.finish(s.consume("work", "--session", "a", "--file", "out"), 2)
	if text, err = os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), older) || strings.Count(string(text), group) != 1 || !strings.Contains(string(text), `"id":"o2"`) {
		t.Errorf("%v: the file has %q", err, text)
	}
	keep := `while read -r line; do echo "$line" >> lines; n=${line#*\"number\":}; echo "${n%%,*}"; done`
	send("work", "o3")
	s.finish(s.consume("work", "--session", "a", "--exec", keep), 3)
	if text, err := os.ReadFile(filepath.Join(s.dir, "lines")); err != nil || strings.Count(string(text), group) != 1 {
		t.Errorf("%v: the command got %q", err, text)
	}
	// All entries of the log of a group are of it.
	send("chat", "c1")
	p := s.consume("chat", "--group", "customer-7", "--session", "a", "--file", "chat")
	waitForNumbers(t, filepath.Join(s.dir, "chat"), 2)
	p.kill()
	if text, err := os.ReadFile(filepath.Join(s.dir, "chat")); err != nil || strings.Contains(string(text), group) {
		t.Errorf("%v: the file has %q", err, text)
	}
}

func TestAConsumerWaitsForItsServerOnlyIfItIsTold(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 3)
	s.kill(syscall.SIGTERM)
	args := []string{"consume", "work", "--session", "a", "--file", "out", "--url", "http://" + s.address}
	p := s.process(args...)
	if code := p.code(t); code != exitAway || !strings.Contains(p.out.string(), "nothing listens on") {
		t.Errorf("exit %d: %s", code, p.out.string())
	}
	p = s.process(append(args, "--wait-for-server")...)
	p.out.await(t, "trying again in")
	s.start()
	s.finish(p, 3)
	checkEach(t, bodies(t, filepath.Join(s.dir, "out")), 3)
}

// TestACommandWithItsOwnNumberProcessesEachEntryOnceWhileItIsKilled has a command whose number is
// how many lines its file has, and which fences earlier ones by a lock.
func TestACommandWithItsOwnNumberProcessesEachEntryOnceWhileItIsKilled(t *testing.T) {
	const kills, each = 5, 20
	s := newDevServerWith(t, poolYAML)
	path := filepath.Join(s.dir, "out")
	script := `exec 9>lock; flock 9; touch out; n=$(grep -c . out); echo $n; ` + collecting("out")
	for i := range kills {
		s.sendNumbers(t.Context(), i*each+1, (i+1)*each)
		p := s.consume("work", "--session", "a", "--exec", script, "--own-cursor", "--take", "now", "--max", "7")
		waitForNumbers(t, path, i*each+each/2)
		p.kill()
	}
	s.finish(s.consume("work", "--session", "a", "--exec", script, "--own-cursor", "--take", "now"), kills*each)
	checkEach(t, numbersIn(t, path), kills*each)
}
