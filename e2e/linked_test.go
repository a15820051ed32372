package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	linkEffects   = flag.Int("link-effects", 2000, "how many effects one system sends to another while both are killed")
	linkFunctions = flag.Int("link-functions", 100, "how many effects the functions and an embedded system send to each other while both are killed")
	linkKills     = flag.Int("link-kills", 5, "how often each of the two systems is killed meanwhile")
)

const linkGroups = 4

// linkPatience is how long the receiver may take for all effects after the last one was sent.
const linkPatience = 10 * time.Minute

// A wire is a TCP proxy that cuts its connections when it is told to.
type wire struct {
	listener net.Listener
	target   string

	mu   sync.Mutex
	open map[net.Conn]bool
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &wire{listener: listener, target: target, open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listener.Close()
		w.cut()
	})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go w.carry(c)
		}
	}()
	return w
}

func (w *wire) url() string { return "http://" + w.listener.Addr().String() }

func (w *wire) carry(c net.Conn) {
	to, err := net.Dial("tcp", w.target)
	if err != nil {
		_ = c.Close()
		return
	}
	w.mu.Lock()
	w.open[c], w.open[to] = true, true
	w.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{to, c}, {c, to}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // until either end is closed
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
	w.mu.Lock()
	delete(w.open, c)
	delete(w.open, to)
	w.mu.Unlock()
}

// cut closes all connections, wherever their requests and answers are.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.Close()
	}
}

// sendLines sends lines to the stream room of a server, as a batch, until each is accepted.
func sendLines(ctx context.Context, s *server, lines []string) error {
	body := strings.Join(lines, "\n")
	return poll(ctx, 20*time.Millisecond, func() (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url()+"/v1/streams/room/batch", strings.NewReader(body))
		if err != nil {
			return false, err
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, nil // it is being killed
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return false, nil // it is being killed
		}
		return bytes.Count(answer, []byte(`"status":202`)) == len(lines), nil
	})
}

// A linkEntry is an entry of a log.
type linkEntry struct {
	Number   uint64   `json:"number"`
	Kind     string   `json:"kind"`
	Source   string   `json:"source"`
	Sequence uint64   `json:"sequence"`
	From     uint64   `json:"from"`
	To       uint64   `json:"to"`
	Via      []string `json:"via"`
	Body     string   `json:"body"`
}

// readLog returns the first entries of a group's log, as soon as there are so many.
func readLog(ctx context.Context, s *server, group string, n int) (entries []linkEntry, err error) {
	after := ""
	err = poll(ctx, 50*time.Millisecond, func() (bool, error) {
		address := s.url() + "/v1/streams/room/groups/" + url.PathEscape(group) + "/log?max=1000&after=" + after
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return false, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, nil // it is being killed
		}
		defer resp.Body.Close()
		var page struct {
			Entries []linkEntry `json:"entries"`
			Next    string      `json:"next"`
		}
		if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&page) != nil {
			return false, nil
		}
		entries, after = append(entries, page.Entries...), page.Next
		return len(entries) >= n, nil
	})
	if err != nil {
		err = fmt.Errorf("%d of %d entries: %w", len(entries), n, err)
	}
	return entries, err
}

func linkedConfig(name, destinations string) string {
	var names []string
	for line := range strings.SplitSeq(strings.TrimSpace(destinations), "\n") {
		to, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		names = append(names, to)
	}
	return fmt.Sprintf("name: %s\nstreams:\n  room: {admission: sequence, log: {retain: 1h}, held: {count: 100000, bytes: 64MB, distance: 1000000}, destinations: [%s]}\ndestinations:\n%s\n",
		name, strings.Join(names, ", "), destinations)
}

const quickRetry = "retry: {first: 50ms, max: 500ms}"

func TestEachEffectIsOneEntryOfALinkedSystemWhileBothAreKilled(t *testing.T) {
	random := newRandom(t)
	receiver := newServer(t, onceBinary, "name: us\nstreams:\n  room: {admission: sequence, log: {retain: 1h}}\n")
	must(t, receiver.start())
	between := newWire(t, receiver.address)
	sender := newServer(t, onceBinary, linkedConfig("eu", fmt.Sprintf("  us: {once: %q, stream: room, %s}", between.url(), quickRetry)))
	must(t, sender.start())
	_, k1 := newKiller(t, sender, random, *linkKills, *linkEffects)
	ctx, k2 := newKiller(t, receiver, random, *linkKills, *linkEffects)
	cuts := cutting(t, between, random)
	each := *linkEffects / linkGroups
	var clients sync.WaitGroup
	errs := make([]error, linkGroups)
	for g := range linkGroups {
		clients.Go(func() {
			for from := 1; from <= each && errs[g] == nil; {
				var lines []string
				for ; from <= each && len(lines) < 50; from++ {
					lines = append(lines, fmt.Sprintf(`{"group":"g%d","source":"people","sequence":%d,"content_type":"text/plain","body":"g%d-%d"}`, g, from, g, from))
				}
				errs[g] = sendLines(ctx, sender, lines)
				for range lines {
					k1.acknowledged()
					k2.acknowledged()
				}
			}
		})
	}
	clients.Wait()
	must(t, errors.Join(errs...))
	k1.finish(t)
	k2.finish(t)
	cuts()
	ctx, cancel := context.WithTimeout(t.Context(), linkPatience)
	defer cancel()
	for g := range linkGroups {
		entries, err := readLog(ctx, receiver, fmt.Sprintf("g%d", g), each)
		must(t, err)
		judgeLinked(t, g, entries, each)
	}
	t.Logf("%d effects, %d and %d kills", *linkEffects, k1.killed, k2.killed)
	if *linkEffects <= 2000 {
		return // a trigger that was in flight at a kill comes back after half a minute
	}
	// the sender has nothing left to send, and nothing was added
	sender.settle(t, linkPatience)
	receiver.settle(t, linkPatience)
	for g := range linkGroups {
		entries, err := readLog(ctx, receiver, fmt.Sprintf("g%d", g), each)
		must(t, err)
		judgeLinked(t, g, entries, each)
	}
}

// judgeLinked checks that the log of a group has each effect once, in order.
func judgeLinked(t *testing.T, g int, entries []linkEntry, n int) {
	t.Helper()
	if len(entries) != n {
		t.Errorf("group %d has %d entries, not %d", g, len(entries), n)
	}
	for i, e := range entries {
		want := fmt.Sprintf("g%d-%d", g, i+1)
		if e.Body != want || e.Sequence != uint64(i+1) || e.Source != fmt.Sprintf("eu/us/room/g%d", g) || strings.Join(e.Via, ",") != "eu" {
			t.Fatalf("entry %d is %+v, not %s", i+1, e, want)
		}
	}
}

// cutting cuts the connections of a wire again and again until the returned function is called.
func cutting(t *testing.T, w *wire, random *rand.Rand) (stop func()) {
	t.Helper()
	own := rand.New(rand.NewPCG(random.Uint64(), 1))
	ctx, done := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for sleep(ctx, time.Duration(20+own.IntN(200))*time.Millisecond) == nil {
			w.cut()
		}
	}()
	stop = func() {
		done()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func TestSystemsLinkedBothWaysSurviveKills(t *testing.T) {
	random := newRandom(t)
	const each = 200
	eu, us := newServer(t, onceBinary, ""), newServer(t, onceBinary, "")
	must(t, eu.configure(linkedConfig("eu", fmt.Sprintf("  us: {once: %q, stream: room, relay: false, %s}", us.url(), quickRetry))))
	must(t, us.configure(linkedConfig("us", fmt.Sprintf("  eu: {once: %q, stream: room, relay: false, %s}", eu.url(), quickRetry))))
	must(t, eu.start(), us.start())
	ctx, cancel := context.WithTimeout(t.Context(), linkPatience)
	defer cancel()
	var clients sync.WaitGroup
	systems := map[string]*server{"eu": eu, "us": us}
	killers := map[string]*killer{}
	for name, s := range systems {
		_, killers[name] = newKiller(t, s, random, 2, each)
	}
	errs := make(chan error, len(systems))
	for name, s := range systems {
		clients.Go(func() {
			for n := 1; n <= each; n++ {
				line := fmt.Sprintf(`{"group":"lobby","source":"people","sequence":%d,"content_type":"text/plain","body":"%s-%d"}`, n, name, n)
				if err := sendLines(ctx, s, []string{line}); err != nil {
					errs <- err
					return
				}
				killers[name].acknowledged()
			}
		})
	}
	clients.Wait()
	close(errs)
	must(t, <-errs)
	killers["eu"].finish(t)
	killers["us"].finish(t)
	for name, s := range systems {
		judgeBothWays(ctx, t, name, s, each)
	}
}

// judgeBothWays checks that the log of a system has the messages of both systems, each once and in
// order.
func judgeBothWays(ctx context.Context, t *testing.T, name string, s *server, each int) {
	t.Helper()
	entries, err := readLog(ctx, s, "lobby", 2*each)
	must(t, err)
	next := map[string]int{"eu": 1, "us": 1}
	for _, e := range entries {
		from, _, _ := strings.Cut(e.Body, "-")
		if e.Body != fmt.Sprintf("%s-%d", from, next[from]) || from != name && strings.Join(e.Via, ",") != from {
			t.Fatalf("%s: entry %+v, and %d is the next of %s", name, e, next[from], from)
		}
		next[from]++
	}
	if len(entries) != 2*each {
		t.Errorf("%s has %d entries", name, len(entries))
	}
}

// TestFunctionsAndAServerLinkedBothWaysSurviveKills links the functions on DynamoDB, which sign
// their requests, and an embedded system behind a gateway that checks signatures.
func TestFunctionsAndAServerLinkedBothWaysSurviveKills(t *testing.T) {
	random := newRandom(t)
	each := *linkFunctions
	eu, us := newDeployment(t, newReceiver(t, 0), append(faults(), "--sweep-every", "1s", "--batch", "100", "--batches", "1")...), newServer(t, onceBinary, "")
	door := newGateway(t, us.url())
	must(t, eu.configure(linkedConfig("eu", fmt.Sprintf("  us: {once: %q, stream: room, auth: iam, relay: false, %s}", door.URL, quickRetry))))
	must(t, us.configure(linkedConfig("us", fmt.Sprintf("  eu: {once: %q, stream: room, relay: false, %s}", eu.url(), quickRetry))))
	must(t, eu.start(), us.start())
	ctx, cancel := context.WithTimeout(t.Context(), linkPatience)
	defer cancel()
	_, killer := newKiller(t, us, random, 3, each)
	var clients sync.WaitGroup
	errs := make([]error, 2)
	for i, s := range []*server{eu.server, us} {
		clients.Go(func() {
			name := []string{"eu", "us"}[i]
			for from := 1; from <= each && errs[i] == nil; {
				var lines []string
				for ; from <= each && len(lines) < 10; from++ {
					lines = append(lines, fmt.Sprintf(`{"group":"lobby","source":"people","sequence":%d,"content_type":"text/plain","body":"%s-%d"}`, from, name, from))
				}
				errs[i] = sendLines(ctx, s, lines)
				for range lines {
					if s == us {
						killer.acknowledged()
					}
				}
			}
		})
	}
	clients.Wait()
	must(t, errors.Join(errs...))
	killer.finish(t)
	judgeBothWays(ctx, t, "eu", eu.server, each)
	judgeBothWays(ctx, t, "us", us, each)
	done := eu.peace(t)
	t.Logf("%d effects each way, %d kills of the server, faults of the functions: %v, %d signed requests", each, killer.killed, done, door.admitted.Load())
	if done["kills"] == 0 || door.admitted.Load() == 0 || door.refused.Load() > 0 {
		t.Errorf("%d kills of functions; %d requests were signed, %d were not", done["kills"], door.admitted.Load(), door.refused.Load())
	}
	if err := sendUnsigned(ctx, door.URL); err != nil {
		t.Error(err)
	}
}

// sendUnsigned returns an error if a gateway admits a request without a signature.
func sendUnsigned(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/streams/room/groups/lobby/log", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		return fmt.Errorf("a request without a signature is answered %s", resp.Status)
	}
	return nil
}

func TestALoopOfThreeSystemsBecomesDeadLettersThatNameTheWay(t *testing.T) {
	names := []string{"a", "b", "c"}
	systems := map[string]*server{}
	for _, name := range names {
		systems[name] = newServer(t, onceBinary, "")
	}
	for i, name := range names {
		to := names[(i+1)%3]
		must(t, systems[name].configure(linkedConfig(name, fmt.Sprintf("  %s: {once: %q, stream: room, %s}", to, systems[to].url(), quickRetry))))
		must(t, systems[name].start())
	}
	ctx, cancel := context.WithTimeout(t.Context(), linkPatience)
	defer cancel()
	say := func(s *server, n int, body string) {
		must(t, sendLines(ctx, s, []string{fmt.Sprintf(`{"group":"lobby","source":"people","sequence":%d,"content_type":"text/plain","body":%q}`, n, body)}))
	}
	say(systems["a"], 1, "from a")
	_, err := readLog(ctx, systems["c"], "lobby", 1)
	must(t, err)
	say(systems["c"], 1, "from c")
	entries, err := readLog(ctx, systems["a"], "lobby", 3)
	must(t, err)
	if e := entries[1]; e.Kind != "gap" || e.From != 1 || e.To != 1 {
		t.Errorf("the entry for the loop at a is %+v", e)
	}
	if e := entries[2]; e.Body != "from c" || strings.Join(e.Via, ",") != "c" {
		t.Errorf("the entry after the loop at a is %+v", e)
	}
	letters, err := systems["c"].deadLetters()
	must(t, err)
	if len(letters) != 1 || letters[0].Reason != "loop" || !strings.Contains(letters[0].Detail, "a -> b -> c -> a") {
		t.Errorf("the dead letters of c are %+v", letters)
	}
}
