package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/testkit/freeport"
)

const chatYAML = `
streams:
  chat: {log: {retain: 1h}, destinations: []}
  plain: {destinations: []}
`

// A devServer is "once dev" in a process of its own, which can be killed and started again on the
// same folder and address.
type devServer struct {
	t            *testing.T
	dir, address string
	kill         func(syscall.Signal)
	down         bool // until the next use
}

func newDevServer(t *testing.T) *devServer {
	t.Helper()
	return newDevServerWith(t, chatYAML)
}

// newDevServerWith starts a server with a configuration.
func newDevServerWith(t *testing.T, configuration string) *devServer {
	t.Helper()
	s := &devServer{t: t, dir: t.TempDir(), address: freeport.Address(t)}
	if err := os.WriteFile(filepath.Join(s.dir, "once.yaml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(func() { s.kill(syscall.SIGKILL) })
	return s
}

// start starts the server and waits until it is ready.
func (s *devServer) start() {
	s.t.Helper()
	cmd := command(context.Background(), "dev", "--config", "once.yaml", "--data", "data", "--listen", s.address)
	cmd.Dir = s.dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var once sync.Once
	s.kill = func(signal syscall.Signal) {
		once.Do(func() {
			_ = cmd.Process.Signal(signal)
			_ = cmd.Wait()
		})
	}
	lines := bufio.NewScanner(out)
	var seen []string
	for lines.Scan() {
		if seen = append(seen, lines.Text()); strings.Contains(lines.Text(), s.address) {
			go func() {
				for lines.Scan() {
				}
			}()
			return
		}
	}
	s.t.Fatalf("the server did not start: %s", strings.Join(seen, "\n"))
}

// up starts the server if it is down until its next use.
func (s *devServer) up() {
	s.t.Helper()
	if s.down {
		s.down = false
		s.start()
	}
}

func (s *devServer) client() *client.Client {
	s.t.Helper()
	s.up()
	c, err := client.New("http://"+s.address, client.Options{MinBackoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// run runs a command in the folder of the server and returns its output.
func (s *devServer) run(args ...string) (code int, out string) {
	s.t.Helper()
	cmd := command(s.t.Context(), args...)
	cmd.Dir, cmd.Env = s.dir, append(cmd.Env, "ONCE_URL=http://"+s.address)
	text, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(text)
}

// TestATailMissesNothingAndRepeatsNothingWhileItsServerIsKilled kills the server with SIGKILL again
// and again, while messages are sent and read.
func TestATailMissesNothingAndRepeatsNothingWhileItsServerIsKilled(t *testing.T) {
	const messages, kills = 400, 4
	s := newDevServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var working sync.WaitGroup
	defer working.Wait()
	sent := make(chan struct{}, messages)
	for worker := range 4 {
		c := s.client()
		working.Go(func() {
			for i := worker; i < messages; i += 4 {
				if _, err := c.Send(ctx, client.Message{Stream: "chat", Group: "lobby", Key: fmt.Sprint("m-", i), Body: fmt.Append(nil, i)}); err != nil {
					t.Error(err)
				}
				sent <- struct{}{}
			}
		})
	}
	working.Go(func() {
		for range kills {
			for range messages / (kills + 1) {
				<-sent
			}
			s.kill(syscall.SIGKILL)
			s.start()
		}
	})
	tail, seen := s.client().Tail("chat", "lobby", client.TailOptions{}), map[string]bool{}
	for n := uint64(1); n <= messages; n++ {
		e, err := tail.Next(ctx)
		if err != nil {
			t.Fatalf("after %d entries: %v", n-1, err)
		}
		if e.Number != n || seen[e.ID] || "m-"+string(e.Body) != e.ID {
			t.Fatalf("entry %d is %+v, seen before: %v", n, e, seen[e.ID])
		}
		seen[e.ID] = true
	}
}

func TestTailPrintsALogAndWhereToContinue(t *testing.T) {
	t.Parallel()
	s := newDevServer(t)
	for _, m := range []client.Message{
		{Key: "a", ContentType: "application/json", Body: []byte(`{"n": 1}`)}, {Key: "b", ContentType: "text/plain", Body: []byte("two\x1b[2J")},
	} {
		m.Stream, m.Group = "chat", "lobby"
		if _, err := s.client().Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	code, out := s.run("tail", "chat/lobby", "--no-follow", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var first, second tailLine
	if code != 0 || len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &first) != nil || json.Unmarshal([]byte(lines[1]), &second) != nil {
		t.Fatal(code, out)
	}
	if first.ID != "a" || first.Number != 1 || !strings.Contains(lines[0], `"body":{"n":1}`) || second.Body != "two\x1b[2J" {
		t.Error(out)
	}
	if code, out := s.run("tail", "chat/lobby", "--no-follow", "--after", first.Offset); code != 0 || strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, `b  two\x1b[2J`+"\n") {
		t.Errorf("%d %q", code, out)
	}
	if code, out := s.run("tail", "chat/lobby", "--no-follow", "--after", "now"); code != 0 || out != "" {
		t.Errorf("%d %q", code, out)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"tail", "name a stream or a group", exitUsage},
		{"tail chat/", "once tail chat/GROUP", exitUsage},
		{"tail chat --after 17", "an offset belongs to a group", exitUsage},
		{"tail chat/lobby --state x", "--state is for a stream", exitUsage},
		{"tail chat --stack Once", "no list of its groups", exitUsage},
		{"tail plain --no-follow", "log: {retain: 7d}", exitRefused},
		{"tail plain/g --no-follow", "log: {retain: 7d}", exitRefused},
		{"tail chat/lobby --after 17", "after must be an offset", exitRefused},
		{"tail chat/lobby --no-follow --after 0000000000001_0000000000000001", "to read what is kept: once tail chat/lobby --after " + before(first.Offset), exitRefused},
		{"tail chat/lobby --no-follow --json --after " + beyond(second.Offset), "compare what you did with the log, and then continue: once tail chat/lobby --after " + second.Offset + " --json --no-follow\n", exitRefused},
		{"tail chat/nope --no-follow", "stream chat has no log of group nope yet\n", exitUnknown},
		{"tail chat/lobby --url http://127.0.0.1:1", "nothing listens", exitAway},
	} {
		if code, out := s.run(strings.Fields(c.args)...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("once %s: %d %s", c.args, code, out)
		}
	}
}

// before returns the offset before the first entry of a log.
func before(first string) string {
	incarnation, _, _ := strings.Cut(first, "_")
	return incarnation + "_0000000000000000"
}

// beyond returns an offset behind the end of a log.
func beyond(last string) string { return strings.TrimSuffix(last, "2") + "9" }

func TestATailWaitsForAGroupAndSaysSo(t *testing.T) {
	t.Parallel()
	s := newDevServer(t)
	p := s.process("tail", "chat/nope", "--url", "http://"+s.address)
	p.out.await(t, `stream chat has no log of group nope yet; waiting for its first entry\n`)
	s.say(t.Context(), "nope", "a")
	p.out.await(t, "a  body of a\n")
}

// TestAnInterruptedTailOfAStreamSaysHowToContinue interrupts a tail before it has listed the
// groups, and then before the first entry. What is sent in between is printed later.
func TestAnInterruptedTailOfAStreamSaysHowToContinue(t *testing.T) {
	t.Parallel()
	s := newDevServer(t)
	s.say(t.Context(), "lobby", "a")
	proxy := s.proxy()
	proxy.set(func(call string) bool { return call == "groups" })
	interrupted := func(p *consumerProcess, want string) {
		t.Helper()
		p.interrupt(t)
		if code := p.code(t); code != exitIncomplete || !strings.HasSuffix(p.out.string(), "to continue: once tail chat"+want+" --json --state 'q 1.json' --url "+proxy.url+"\n") {
			t.Errorf("exit %d: %s", code, p.out.string())
		}
	}
	args := []string{"tail", "chat", "--json", "--state", "q 1.json", "--url", proxy.url}
	p := s.process(append(args, "--after", "now")...)
	p.out.await(t, `the server is not reachable, trying again in`)
	interrupted(p, " --after now")
	proxy.set(func(string) bool { return false })
	p = s.process(append(args, "--after", "now")...)
	s.awaitState("q 1.json")
	interrupted(p, "")
	s.say(t.Context(), "lobby", "b")
	s.say(t.Context(), "attic", "c")
	if code, out := s.run(append(args, "--no-follow")...); code != 0 || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"id":"b"`) || !strings.Contains(out, `"id":"c"`) {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestACommandThatContinuesHasEveryFlagAndNoPassword(t *testing.T) {
	cmd := (&app{}).tail()
	if err := cmd.ParseFlags([]string{"--url", "https://me:secret@once.example", "--after", "now", "--no-follow", "--json=false"}); err != nil {
		t.Fatal(err)
	}
	if got := givenFlags(cmd.Flags()); got != " --json=false --no-follow --url https://me:xxxxx@once.example" {
		t.Error(got)
	}
}

func TestAnInterruptedTailSaysWhereToContinue(t *testing.T) {
	t.Parallel()
	s := newDevServer(t)
	receipt, err := s.client().Send(t.Context(), client.Message{Stream: "chat", Group: "lobby", Key: "a"})
	if err != nil {
		t.Fatal(receipt, err)
	}
	cmd := command(t.Context(), "tail", "chat/lobby", "--json", "--url", "http://"+s.address)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problem strings.Builder
	cmd.Stderr = &problem
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var l tailLine
	if err := json.NewDecoder(out).Decode(&l); err != nil || l.ID != "a" {
		t.Fatal(l, err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if want := "once tail chat/lobby --after " + l.Offset + " --json --url http://" + s.address + "\n"; cmd.ProcessState.ExitCode() != exitIncomplete || !strings.HasSuffix(problem.String(), want) {
		t.Errorf("exit %d: %q, want %q", cmd.ProcessState.ExitCode(), problem.String(), want)
	}
}
