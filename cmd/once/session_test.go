package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/filecursor"
)

// A sessionOperator runs commands for a server, or for its folder while it is stopped.
type sessionOperator struct {
	*devServer
	folder bool
}

// both runs a test for a server and for a folder.
func both(t *testing.T, test func(t *testing.T, o *sessionOperator)) {
	for _, folder := range []bool{false, true} {
		t.Run(map[bool]string{false: "by url", true: "by data folder"}[folder], func(t *testing.T) {
			t.Parallel()
			test(t, &sessionOperator{newDevServerWith(t, poolYAML), folder})
		})
	}
}

// do runs a command and checks its exit code, and parts of its output.
func (o *sessionOperator) do(code int, line string, parts ...string) string {
	o.t.Helper()
	args := strings.Fields(line)
	if o.folder {
		if !o.down {
			o.kill(syscall.SIGTERM)
			o.down = true
		}
		args = append(args, "--data", "data", "--config", "once.yaml")
	} else {
		args = append(args, "--url", "http://"+o.address)
	}
	got, out := o.run(args...)
	for _, part := range parts {
		if got != code || !strings.Contains(out, part) {
			o.t.Fatalf("once %s: exit %d: %s\nwant %d and %q", strings.Join(args, " "), got, out, code, part)
		}
	}
	return out
}

// run runs a command without the address of the server in its environment.
func (o *sessionOperator) run(args ...string) (code int, out string) {
	o.t.Helper()
	cmd := command(o.t.Context(), args...)
	cmd.Dir = o.dir
	text, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(text)
}

// process processes entries of the session a into a file, and commits some of them.
func (o *sessionOperator) process(lines, committed uint64) {
	o.t.Helper()
	ctx := o.t.Context()
	s, err := o.client().OpenSession(ctx, client.SessionOptions{Stream: "work", Name: "a"})
	if err != nil {
		o.t.Fatal(err)
	}
	defer s.Close()
	b, err := s.Next(ctx)
	if err != nil {
		o.t.Fatal(err)
	}
	f, err := filecursor.Open(ctx, filepath.Join(o.dir, "out"), s.Opened(), filecursor.Options{})
	if err != nil {
		o.t.Fatal(err)
	}
	err = f.Append(lines, b.Entries[:lines], func(line []byte, e *client.Entry) ([]byte, error) { return append(line, e.ID...), nil })
	if err := errors.Join(err, f.Close(), s.Commit(ctx, committed, client.CommitOptions{}), s.Release(ctx)); err != nil {
		o.t.Fatal(err)
	}
}

// rest returns the bodies of the entries that another session gets.
func (o *sessionOperator) rest(name string) (bodies []string) {
	o.t.Helper()
	s, err := o.client().OpenSession(o.t.Context(), client.SessionOptions{Stream: "work", Name: name})
	if err != nil {
		o.t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	b, err := s.Next(ctx)
	if err != nil {
		o.t.Fatal(err)
	}
	for i := range b.Entries {
		bodies = append(bodies, string(b.Entries[i].Body))
	}
	return bodies
}

func (o *sessionOperator) names() (names []string) {
	o.t.Helper()
	list, err := o.client().Sessions(o.t.Context(), "work", "")
	if err != nil {
		o.t.Fatal(err)
	}
	for i := range list.Sessions {
		names = append(names, list.Sessions[i].Name)
	}
	return names
}

func TestASessionThatDoesNotExistIsNotMadeByAMistypedName(t *testing.T) {
	both(t, func(t *testing.T, o *sessionOperator) {
		o.sendNumbers(t.Context(), 1, 3)
		o.process(1, 1)
		for _, line := range []string{
			"session take work typo", "session release work typo", "session retire work typo --server-cursor --yes", "session from work typo --from 1 --yes",
			"session take chat typo --group lobby",
		} {
			o.do(exitUnknown, line, "No such session", "to list the sessions: once sessions")
		}
		if names := o.names(); !slices.Equal(names, []string{"a"}) {
			t.Errorf("the sessions are %v", names)
		}
	})
}

func TestARetireReadsTheConsumersFile(t *testing.T) {
	both(t, func(t *testing.T, o *sessionOperator) {
		o.sendNumbers(t.Context(), 1, 5)
		o.process(3, 1)
		o.do(exitFailed, "session retire work a --file typo --yes", "no such file")
		if _, err := os.Stat(filepath.Join(o.dir, "typo")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file was made: %v", err)
		}
		// The session is released after a failure.
		info, err := o.client().Session(t.Context(), "work", "", "a")
		if err != nil || info.Holder != "" || info.Retired {
			t.Errorf("after the failure: %+v, %v", info, err)
		}
		o.do(exitOK, "session retire work a --file out --yes", "session a of work is retired; its entries up to 3 are processed")
		o.do(exitOK, "session retire work a --file out --yes", "is retired; its entries up to 3 are processed")
		if got := o.rest("b"); !slices.Equal(got, []string{"4", "5"}) {
			t.Errorf("the others get %v", got)
		}
	})
}

// shows reports whether an output has all of some lines, whatever the spaces in them.
func shows(out string, lines ...string) bool {
	out = strings.Join(strings.Fields(out), " ")
	return !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(out, line) })
}

func TestARetireTakesTheNumberThatItIsTold(t *testing.T) {
	both(t, func(t *testing.T, o *sessionOperator) {
		o.sendNumbers(t.Context(), 1, 5)
		o.process(3, 2)
		o.do(exitUsage, "session retire work a --yes", "there is no default")
		o.do(exitUsage, "session retire work a --from 4 --yes", "entries up to 2 were reported as processed", "--skip-to")
		o.do(exitUsage, "session retire work a --skip-to 6 --yes", "the session has entries up to 5")
		o.do(exitUsage, "session retire work a --skip-to 1 --yes", "would repeat entries")
		o.do(exitOK, "session retire work a --skip-to 3 --yes", "its entries up to 3 that were not reported as processed are dead letters")
		if got := o.rest("b"); !slices.Equal(got, []string{"4", "5"}) {
			t.Errorf("the others get %v", got)
		}
		code, letters := o.run("show", "--dead-letters", "--full", "--data", "data", "--config", "once.yaml")
		if code != exitOK || strings.Count(letters, "skipped") != 1 || !shows(letters, "dead letter m-3", "session a", "number 3") {
			t.Errorf("no dead letter of entry 3: exit %d: %s", code, letters)
		}
	})
}

func TestASessionIsTakenReleasedAndRetiredUnderItsFence(t *testing.T) {
	both(t, func(t *testing.T, o *sessionOperator) {
		o.sendNumbers(t.Context(), 1, 5)
		o.process(3, 3)
		var taken client.Opened
		text := o.do(exitOK, "session take work a --holder nightly --lease 10m --json", "")
		if err := json.Unmarshal([]byte(text), &taken); err != nil || taken.Cursor != 3 {
			t.Fatalf("%+v, %v", taken, err)
		}
		if strings.Contains(text, `"at"`) || strings.Contains(text, `"state"`) || !strings.Contains(text, `"dead": []`) {
			t.Errorf("not the members of the HTTP API: %s", text)
		}
		o.do(exitAway, "session take work a --take free", `Another consumer holds the session`)
		o.do(exitRefused, fmt.Sprint("session release work a --fence ", taken.Fence-1), "fenced")
		o.do(exitOK, fmt.Sprint("session release work a --fence ", taken.Fence), "session a of work is released")
		o.do(exitOK, "session release work a", "is released")
		o.do(exitRefused, fmt.Sprint("session retire work a --yes --cursor 3 --fence ", taken.Fence), "fenced")
		fence := o.session().Fence
		o.do(exitOK, fmt.Sprint("session retire work a --yes --cursor 3 --fence ", fence), "is retired; its entries up to 3 are processed")
		for _, line := range []string{"session take work a", "session release work a", "session from work a --from 1 --yes"} {
			o.do(exitRefused, line, "session a of work is retired")
		}
		if info := o.session(); !info.Retired || info.Fence != fence {
			t.Errorf("got %+v", info)
		}
	})
}

func (o *sessionOperator) session() client.SessionInfo {
	o.t.Helper()
	info, err := o.client().Session(o.t.Context(), "work", "", "a")
	if err != nil {
		o.t.Fatal(err)
	}
	return info
}

func TestASessionContinuesWhereAPersonSays(t *testing.T) {
	both(t, func(t *testing.T, o *sessionOperator) {
		o.sendNumbers(t.Context(), 1, 5)
		o.process(3, 2)
		o.do(exitUsage, "session from work a --from 4 --yes", "would skip entries, which --skip-to does")
		o.do(exitUsage, "session from work a --skip-to 6 --yes", "the session has entries up to 5")
		if info := o.session(); info.Cursor != 2 || info.Holder != "" {
			t.Errorf("after a refusal: %+v", info)
		}
		o.do(exitOK, "session from work a --skip-to 4 --yes", "its entries up to 4 that were not reported as processed are dead letters")
		code, letters := o.run("show", "--dead-letters", "--full", "--data", "data", "--config", "once.yaml")
		if code != exitOK || strings.Count(letters, "a person has skipped it") != 2 || !shows(letters, "dead letter m-3", "session a", "number 3", "dead letter m-4", "number 4") {
			t.Errorf("no dead letters of the entries 3 and 4: exit %d: %s", code, letters)
		}
		if got := o.rest("a"); !slices.Equal(got, []string{"5"}) {
			t.Errorf("the session continues with %v", got)
		}
		o.do(exitOK, "session release work a", "")
		o.do(exitOK, "session from work a --from 2 --yes", "its entries up to 1 are processed")
		if got := o.rest("a"); !slices.Equal(got, []string{"2", "5"}) { // dead letters stay dead
			t.Errorf("the session continues with %v", got)
		}
	})
}

func TestSessionsAreListedWithThePool(t *testing.T) {
	both(t, func(t *testing.T, o *sessionOperator) {
		o.do(exitOK, "sessions work", "there are no sessions\npool: 0 waiting, 0 of them returned by retired sessions\n")
		o.sendNumbers(t.Context(), 1, 103)
		o.process(3, 0) // a commit of some would let the pool deal more to the client, which reads ahead
		o.do(exitOK, "sessions work", "SESSION", "STATE", "a        -       -", "free, behind", "pool: 3 waiting, 0 of them returned by retired sessions")
		o.do(exitOK, "session retire work a --file out --yes", "")
		o.do(exitOK, "sessions work", "retired", "pool: 100 waiting, 97 of them returned by retired sessions")
		var list client.SessionList
		text := o.do(exitOK, "sessions work --json", "")
		o.sameAsHTTP(text, "/v1/streams/work/sessions")
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Sessions) != 1 || list.Pool.Returned != 97 {
			t.Errorf("%+v, %v", list, err)
		}
		o.do(exitOK, "sessions chat --group lobby", "there are no sessions\n")
		o.do(exitRefused, "sessions chat", "The stream chat has no pool")
	})
}

func TestAStreamIsEndedAndItsConsumersWithIt(t *testing.T) {
	both(t, func(t *testing.T, o *sessionOperator) {
		o.sendNumbers(t.Context(), 1, 3)
		o.do(exitUsage, "end work", "no terminal to confirm on")
		o.do(exitOK, "end work --yes", "stream work takes no further messages")
		o.do(exitOK, "end work --yes --json", `"ended": true`)
		for _, args := range [][]string{{"--file", "out"}, {"--exec", collecting("done")}} {
			for range 2 { // a consumer that is started again sees the end again
				p := o.consume(append([]string{"work", "--session", "a", "--json"}, args...)...)
				if code := p.code(t); code != exitOK || !strings.Contains(p.out.string(), `"ended": true`) {
					t.Fatalf("%v: exit %d: %s", args, code, p.out.string())
				}
			}
		}
		checkEach(t, bodies(t, filepath.Join(o.dir, "out")), 3)
		o.do(exitOK, "sessions work", "at the end", "every session has processed its entries, and reads the end")
	})
}
