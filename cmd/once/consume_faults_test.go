package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
)

// A cutProxy is a proxy in front of a server. It closes the connections of requests for which cut
// returns true.
type cutProxy struct {
	url string
	cut atomic.Pointer[func(call string) bool]
}

func (s *devServer) proxy() *cutProxy {
	s.t.Helper()
	to, err := url.Parse("http://" + s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &cutProxy{}
	forward := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := p.cut.Load(); f != nil && (*f)(path.Base(r.URL.Path)) {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	s.t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func (p *cutProxy) set(f func(call string) bool) { p.cut.Store(&f) }

// through starts a consumer of the session a whose server is a proxy.
func (s *devServer) through(p *cutProxy, args ...string) *consumerProcess {
	s.t.Helper()
	return s.consume(append([]string{"work", "--session", "a", "--json", "--url", p.url}, args...)...)
}

func (p *consumerProcess) interrupt(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

func TestAConsumerWhoseConnectionsAreClosedIsNotAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 3)
	for _, args := range [][]string{{"--file", "out"}, {"--exec", collecting("done")}} {
		proxy := s.proxy()
		proxy.set(func(call string) bool { return call == "entries" })
		p := s.through(proxy, args...)
		p.out.await(t, "trying again in")
		p.interrupt(t)
		if code := p.code(t); code != exitIncomplete || !strings.Contains(p.out.string(), `"ended": false`) || !strings.Contains(p.out.string(), "the session is released") {
			t.Errorf("%v: exit %d: %s", args, code, p.out.string())
		}
	}
}

// The connection of a commit is closed, and the consumer is interrupted before it is sent again.
func TestAnInterruptedConsumerCommitsTheWorkThatIsDone(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 3)
	proxy := s.proxy()
	var p *consumerProcess
	started := make(chan struct{})
	var cut atomic.Bool
	proxy.set(func(call string) bool {
		if call != "commit" || !cut.CompareAndSwap(false, true) {
			return false
		}
		<-started
		p.interrupt(t)
		return true
	})
	p = s.through(proxy, "--exec", collecting("done"))
	close(started)
	if code := p.code(t); code != exitIncomplete || !strings.Contains(p.out.string(), "the session is released") {
		t.Errorf("exit %d: %s", code, p.out.string())
	}
	done := numbersIn(t, filepath.Join(s.dir, "done"))
	info, err := s.client().Session(t.Context(), "work", "", "a")
	if err != nil || info.Cursor != uint64(len(done)) || len(done) == 0 || info.Holder != "" {
		t.Errorf("%v are done; %+v, %v", done, info, err)
	}
	s.finish(s.consume("work", "--session", "a", "--exec", collecting("done")), 3)
	checkEach(t, numbersIn(t, filepath.Join(s.dir, "done")), 3)
}

// A losing is a transport whose requests of some calls are lost, each call after the function lose
// was called with its name.
type losing struct {
	http.Transport
	lose func(call string) bool
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.lose(path.Base(r.URL.Path)) {
		return nil, io.ErrUnexpectedEOF
	}
	return l.Transport.RoundTrip(r)
}

// The time of the consumer is virtual: it is idle only when it has no connection, and no command
// whose output it reads. So the connections are not kept, and the command ends after its entry.
func TestAnInterruptedConsumerEndsAlthoughItsServerIsAway(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 1)
	for name, o := range map[string]*consuming{
		"file": {file: filepath.Join(s.dir, "out")}, "exec": {exec: `read -r line; echo 1`, inFlight: 1, silent: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			var began time.Time
			transport := &losing{http.Transport{DisableKeepAlives: true}, func(call string) bool {
				away := call == "commit" || call == "release" || call == "renew"
				if away && ctx.Err() == nil {
					began = time.Now()
					interrupt()
				}
				return away
			}}
			c, err := client.New("http://"+s.address, client.Options{HTTP: &http.Client{Transport: transport}})
			if err != nil {
				t.Fatal(err)
			}
			o.session = client.SessionOptions{Stream: "work", Name: "a", Holder: "one", Take: client.TakeMine, Lease: 10 * time.Second, Max: defaultBatch}
			a := &app{out: io.Discard, err: io.Discard}
			err = a.consumeWith(ctx, c, o)
			if took := time.Since(began); codeOf(err) != exitIncomplete || took != 10*time.Second || !strings.Contains(err.Error(), "the session is not released: others wait until its lease of 10s expires") {
				t.Errorf("%s: %v after %s", name, err, took)
			}
		})
	}
}

func TestTwoConsumersOfOneHostAreTwoHolders(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 3)
	first := s.consume("work", "--session", "a", "--exec", collecting("done"))
	waitForNumbers(t, filepath.Join(s.dir, "done"), 3)
	second := s.consume("work", "--session", "a", "--exec", collecting("done"))
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	second.out.await(t, fmt.Sprintf(`held by "%s-%d-[a-z0-9]{6}"`, host, first.Process.Pid))
	s.awaitCursor(3)
	first.interrupt(t)
	if code := first.code(t); code != exitIncomplete || !strings.Contains(first.out.string(), "3 processed, the last one has number 3") {
		t.Errorf("exit %d: %s", code, first.out.string())
	}
	s.sendNumbers(t.Context(), 4, 5)
	s.finish(second, 5)
	checkEach(t, numbersIn(t, filepath.Join(s.dir, "done")), 5)
}

func TestACommandHasSeveralEntriesInFlight(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 60)
	// It acknowledges every third entry and the last one of a page, and fails once at the 20th.
	script := `i=0; while read -r line; do n=${line#*\"number\":}; n=${n%%,*}; if [ "$n" = 20 ] && [ ! -e failed ]; then : > failed; echo fail 20 once; else echo "$n" >> done; i=$((i+1)); if [ $((n % 3)) = 0 ] || [ $((n % 10)) = 0 ]; then echo "$n"; fi; fi; done`
	s.finish(s.consume("work", "--session", "a", "--exec", script, "--in-flight", "7", "--max", "10"), 60)
	checkEach(t, numbersIn(t, filepath.Join(s.dir, "done")), 60)
}

func TestAFileThatWasLostDoesNotContinueAfterEntriesThatNobodyHasProcessed(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 9)
	s.finish(s.consume("work", "--session", "a", "--file", "out", "--max", "5"), 9)
	if err := os.Remove(filepath.Join(s.dir, "out")); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":          "out has no entries of session a, which has processed 9: if FILE is the wrong path, name the right one; if the file is lost, name the first entry of a new one with --from\n",
		"--from 11": "entries up to 9 were reported as processed: to continue after 10 would skip entries",
	} {
		p := s.consume(append([]string{"work", "--session", "a", "--file", "out"}, strings.Fields(args)...)...)
		if code := p.code(t); code != exitUsage || !strings.Contains(p.out.string(), want) {
			t.Errorf("%s: exit %d: %s", args, code, p.out.string())
		}
	}
	p := s.consume("work", "--session", "a", "--file", "out", "--from", "8")
	waitForNumbers(t, filepath.Join(s.dir, "out"), 3)
	s.finish(p, 9)
	if got := bodies(t, filepath.Join(s.dir, "out")); !slices.Equal(got, []int{8, 9}) {
		t.Errorf("the new file has %v", got)
	}
}

func TestAFileOfAnotherSessionOpensNone(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 3)
	s.finish(s.consume("work", "--session", "a", "--file", "out"), 3)
	p := s.consume("work", "--session", "z", "--file", "out")
	if code := p.code(t); code != exitFailed || !strings.Contains(p.out.string(), "out is the file of another session: work/a") {
		t.Errorf("exit %d: %s", code, p.out.string())
	}
	if info, err := s.client().Session(t.Context(), "work", "", "z"); !errors.Is(err, client.UnknownSession) {
		t.Errorf("the session was created: %+v, %v", info, err)
	}
}

func commandWorkerOf(exec string) *commandWorker {
	return &commandWorker{app: &app{err: io.Discard}, o: &consuming{exec: exec, ownCursor: true, inFlight: 1, silent: time.Minute}}
}

func TestAStoreThatHasOnlySeenDeadLettersIsNotLost(t *testing.T) {
	for _, c := range []struct {
		o    client.Opened
		lost bool
	}{
		{client.Opened{Life: 7, Fence: 8, Cursor: 2, Dead: []client.NumberRange{{From: 1, To: 2}}}, false},
		{client.Opened{Life: 7, Fence: 8, Cursor: 3, Dead: []client.NumberRange{{From: 1, To: 2}}}, true},
	} {
		x := commandWorkerOf(`echo 0; cat`)
		number, err := x.Begin(t.Context(), c.o)
		_, lost := errors.AsType[*client.LostCursorError](err)
		if lost != c.lost || !lost && (err != nil || number != 0) {
			t.Errorf("%+v: %d, %v", c.o, number, err)
		}
		x.kill()
	}
}

func TestADoubtAboutAnEntryEndsWithTheLifeOfItsSession(t *testing.T) {
	for life, want := range map[uint64]bool{7: true, 8: false} {
		x := commandWorkerOf(`echo 0; while read -r line; do echo 1; done`)
		x.doubt = &doubt{life: 7, number: 1, tried: &triedError{number: 1, detail: "the command ended"}}
		if _, err := x.Begin(t.Context(), client.Opened{Life: life, Fence: 9}); err != nil {
			t.Fatal(err)
		}
		err := x.Do(t.Context(), &client.Batch{To: 1, Entries: []client.Entry{{Number: 1, Kind: "message"}}})
		if tried, ok := errors.AsType[*client.TryError](err); ok != want || ok && tried.Number != 1 || !ok && err != nil {
			t.Errorf("in life %d: %v", life, err)
		}
		x.kill()
	}
}
