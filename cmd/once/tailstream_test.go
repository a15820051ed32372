package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

// say sends messages with these keys to a group.
func (s *devServer) say(ctx context.Context, group string, keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		if _, err := s.client().Send(ctx, client.Message{Stream: "chat", Group: group, Key: key, ContentType: "text/plain", Body: []byte("body of " + key)}); err != nil {
			s.t.Error(err)
		}
	}
}

// A tailing process prints entries of several groups as JSON lines.
type tailed struct {
	t    *testing.T
	kill func(syscall.Signal) (code int)
	out  *bufio.Scanner
}

// startTail starts "once tail" with arguments, as a process of its own.
func (s *devServer) startTail(args ...string) *tailed {
	s.t.Helper()
	cmd := command(context.Background(), append([]string{"tail", "--json", "--url", "http://" + s.address}, args...)...)
	cmd.Dir = s.dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var once sync.Once
	kill := func(signal syscall.Signal) int {
		once.Do(func() {
			_ = cmd.Process.Signal(signal)
			_ = cmd.Wait()
		})
		return cmd.ProcessState.ExitCode()
	}
	s.t.Cleanup(func() { kill(syscall.SIGKILL) })
	return &tailed{s.t, kill, bufio.NewScanner(out)}
}

// awaitState waits until a tail keeps its state in a file: it has listed the groups then.
func (s *devServer) awaitState(file string) {
	s.t.Helper()
	eventually.Succeeds(s.t, func() error {
		if size(filepath.Join(s.dir, file)) == 0 {
			return errors.New("the tail has kept no state")
		}
		return nil
	})
}

// next returns the next entry.
func (t *tailed) next() (l tailLine) {
	t.t.Helper()
	if !t.out.Scan() || json.Unmarshal(t.out.Bytes(), &l) != nil {
		t.t.Fatalf("no entry: %q %v", t.out.Text(), t.out.Err())
	}
	return l
}

func TestATailOfAStreamPrintsAllGroupsAndNewOnes(t *testing.T) {
	t.Parallel()
	s := newDevServer(t)
	s.say(t.Context(), "lobby", "a", "b")
	s.say(t.Context(), "attic/left", "c")
	code, out := s.run("tail", "chat", "--no-follow")
	if want := "lobby  1  "; code != 0 || strings.Count(out, "\n") != 3 || !strings.Contains(out, want) || !strings.Contains(out, "attic/left  1  ") || !strings.Contains(out, "c  body of c\n") {
		t.Fatalf("%d %s", code, out)
	}
	tail := s.startTail("chat", "--after", "now", "--state", "at.json")
	s.awaitState("at.json")
	for _, x := range [][2]string{{"lobby", "d"}, {"cellar", "e"}} {
		s.say(t.Context(), x[0], x[1])
		if l := tail.next(); l.Group != x[0] || l.ID != x[1] {
			t.Errorf("got %+v, want %q", l, x)
		}
	}
}

// TestATailOfAStreamContinuesWithItsState interrupts and kills the tail, and kills the server.
func TestATailOfAStreamContinuesWithItsState(t *testing.T) {
	t.Parallel()
	s := newDevServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	last := map[string]uint64{}
	// read reads entries of a tail. Only after a kill may it repeat some.
	read := func(tail *tailed, n int, repeats bool) {
		for range n {
			l := tail.next()
			for repeats && l.Number <= last[l.Group] {
				l = tail.next()
			}
			if l.Number != last[l.Group]+1 {
				t.Fatalf("group %s: number %d after %d", l.Group, l.Number, last[l.Group])
			}
			last[l.Group] = l.Number
		}
	}
	say := func(from, to int) {
		for i := from; i < to; i++ {
			s.say(ctx, fmt.Sprint("g", i%7), fmt.Sprint("m", i))
		}
	}
	say(0, 30)
	tail := s.startTail("chat", "--state", "at.json")
	read(tail, 30, false)
	s.kill(syscall.SIGKILL)
	s.start()
	say(30, 50)
	read(tail, 20, false)
	if code := tail.kill(syscall.SIGINT); code != exitIncomplete {
		t.Errorf("an interrupted tail exits with %d", code)
	}
	say(50, 70)
	tail = s.startTail("chat", "--state", "at.json")
	read(tail, 20, false)
	tail.kill(syscall.SIGKILL)
	say(70, 80)
	tail = s.startTail("chat", "--state", "at.json")
	read(tail, 10, true)
	tail.kill(syscall.SIGINT)
	if code, out := s.run("tail", "chat", "--state", "at.json", "--no-follow"); code != 0 || out != "" {
		t.Errorf("all is read: %d %s", code, out)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "other.json"), []byte(`{"stream":"plain","offsets":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := s.run("tail", "chat", "--state", "other.json"); code != exitUsage || !strings.Contains(out, `it is of stream "plain"`) {
		t.Errorf("the state of another stream: %d %s", code, out)
	}
}

func TestATailOfAStreamSaysWhichEntriesHaveExpired(t *testing.T) {
	t.Parallel()
	s := newDevServer(t)
	s.say(t.Context(), "lobby", "a")
	text := `{"stream":"chat","offsets":{"lobby":"0000000000001_0000000000000001"}}`
	if err := os.WriteFile(filepath.Join(s.dir, "at.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := s.run("tail", "chat", "--state", "at.json", "--no-follow")
	if code != 0 || !strings.Contains(out, "group lobby: ") || !strings.Contains(out, "begun again") || !strings.Contains(out, "a  body of a\n") {
		t.Errorf("%d %s", code, out)
	}
}

// TestATailOfAStreamReadsTheOtherGroupsAfterARestore has read entries that the server does not have.
func TestATailOfAStreamReadsTheOtherGroupsAfterARestore(t *testing.T) {
	t.Parallel()
	s := newDevServer(t)
	s.say(t.Context(), "attic", "a")
	if code, out := s.run("tail", "chat", "--state", "at.json", "--no-follow"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	file := filepath.Join(s.dir, "at.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	later := strings.Replace(string(text), `1"}`, `3"}`, 1)
	if err := os.WriteFile(file, []byte(later), 0o600); err != nil || later == string(text) {
		t.Fatal(err, later)
	}
	s.say(t.Context(), "lobby", "b")
	code, out := s.run("tail", "chat", "--state", "at.json", "--no-follow")
	for _, want := range []string{"group attic is set aside: 409", "as its offset into at.json", "b  body of b\n", "were read: 1"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("%q is not in the output: %d %s", want, code, out)
		}
	}
	// as the message says
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.say(t.Context(), "attic", "c")
	if code, out := s.run("tail", "chat", "--state", "at.json", "--no-follow"); code != 0 || !strings.Contains(out, "c  body of c\n") {
		t.Errorf("%d %s", code, out)
	}
}
