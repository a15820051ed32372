package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/local"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A place is a data folder and the files that its destinations write.
type place struct {
	t      *testing.T
	dir    string
	config string
}

// A running system.
type running struct {
	*local.System
	address string
	client  *client.Client
	stop    func()
}

func (p *place) start(streams ...system.Stream) *running {
	p.t.Helper()
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", p.dir)))
	if err != nil {
		p.t.Fatal(err)
	}
	address := make(chan string, 1)
	s, err := local.Open(local.Options{Config: c, DataDir: filepath.Join(p.dir, "data"), Listen: "127.0.0.1:0", Ready: func(a string) { address <- a }})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := s.Start(streams); err != nil {
		p.t.Fatal(errors.Join(err, s.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r := &running{System: s, address: <-address}
	r.stop = func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			p.t.Error(err)
		}
	}
	r.client, err = client.New("http://"+r.address, client.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// idle waits until nothing is under way.
func (r *running) idle(t *testing.T) admin.Stats {
	t.Helper()
	for {
		stats, err := r.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if stats.Idle {
			return stats
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("never idle: %+v", stats)
		case <-time.After(5 * time.Millisecond): // it is another process's work, seen from outside
		}
	}
}

func (r *running) send(t *testing.T, m client.Message) client.Receipt {
	t.Helper()
	receipt, err := r.client.Send(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// A line of a file destination.
type line struct {
	Stream   string
	Group    string
	Number   uint64
	ID       string
	Source   string
	Epoch    uint64
	Sequence uint64
	Headers  map[string]string
	Body     any
}

func (p *place) lines() []line {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.dir, "ledger.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	var out []line
	for text := range strings.Lines(string(content)) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			p.t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

const forwarding = `
streams:
  orders: {destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
`

func TestWhatWasAcceptedIsProcessedAfterARestart(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	for round := range 3 {
		r := p.start()
		for i := range 20 {
			for range 2 { // a duplicate each, and those of the rounds before
				r.send(t, client.Message{Stream: "orders", Key: fmt.Sprint(i), Group: fmt.Sprint(i % 3), Body: []byte(`1`)})
			}
		}
		if round == 2 {
			r.idle(t)
		}
		r.stop()
	}
	numbers := map[string]uint64{}
	lines := p.lines()
	for _, l := range lines {
		if l.Number != numbers[l.Group]+1 {
			t.Errorf("group %s: number %d after %d", l.Group, l.Number, numbers[l.Group])
		}
		numbers[l.Group] = l.Number
	}
	if len(lines) != 20 {
		t.Errorf("%d lines, want 20", len(lines))
	}
}

func TestAPoisonMessageEndsAsADeadLetterWithItsReasonAndComesBackByRedrive(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	var healed atomic.Bool
	handler := func(_ context.Context, a *record.Attempt, m record.Message) error {
		if string(m.Body) == `"poison"` && !healed.Load() {
			panic("poison")
		}
		a.Send(record.Effect{To: []string{"ledger"}, ID: m.ID, ContentType: m.ContentType, Body: m.Body})
		return nil
	}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
	defer r.stop()
	r.send(t, client.Message{Stream: "orders", Key: "bad", Group: "a", ContentType: "application/json", Body: []byte(`"poison"`)})
	r.send(t, client.Message{Stream: "orders", Key: "good", Group: "b", ContentType: "application/json", Body: []byte(`1`)})
	stats := r.idle(t)
	if stats.DeadLetters != 1 {
		t.Fatalf("dead letters: %d, want 1", stats.DeadLetters)
	}
	letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{})
	if err != nil || letters[0].Reason != "attempts" || letters[0].ID != "bad" || !strings.Contains(letters[0].Detail, "poison") {
		t.Fatalf("dead letters %+v, %v", letters, err)
	}
	if info, err := r.Message(t.Context(), "orders", "bad"); err != nil || info.Status != "rejected" || info.Reason != "attempts" {
		t.Errorf("the message is %+v, %v", info, err)
	}
	healed.Store(true)
	if info, err := r.Redrive(t.Context(), admin.RedriveOptions{}); err != nil || info.Redriven != 1 {
		t.Fatalf("redrive: %+v, %v", info, err)
	}
	r.idle(t)
	var ids []string
	for _, l := range p.lines() {
		ids = append(ids, l.ID)
	}
	if d := cmp.Diff([]string{"good", "bad"}, ids); d != "" {
		t.Error(d)
	}
}

func TestAStreamFeedsAnotherOnceAndInOrder(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: `
streams:
  orders: {destinations: [next]}
  payments: {admission: sequence, destinations: [ledger]}
destinations:
  next: {stream: payments}
  ledger: {file: DIR/ledger.jsonl}
`}
	r := p.start()
	for i := range 30 {
		r.send(t, client.Message{Stream: "orders", Key: fmt.Sprint(i), Group: "g", ContentType: "application/json", Body: fmt.Append(nil, i)})
	}
	r.idle(t)
	r.stop()
	lines := p.lines()
	for i, l := range lines {
		if l.Body != float64(i) || l.Sequence != uint64(i+1) || l.Source != "orders/g" || l.Group != "g" {
			t.Errorf("line %d is %+v", i, l)
		}
	}
	if len(lines) != 30 {
		t.Errorf("%d lines, want 30", len(lines))
	}
}

func TestAGapIsSkippedInTimeAndSaidAloud(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: `
streams:
  chat: {admission: sequence, gap: {policy: skip, after: 1s}, destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
`}
	r := p.start()
	defer r.stop()
	for _, n := range []uint64{1, 4} {
		r.send(t, client.Message{Stream: "chat", Source: "ann", Sequence: n, ContentType: "application/json", Body: fmt.Append(nil, n)})
	}
	r.idle(t)
	r.send(t, client.Message{Stream: "chat", Source: "ann", Sequence: 2, ContentType: "application/json", Body: []byte(`2`)})
	for letters := 0; letters == 0; {
		letters = r.idle(t).DeadLetters
	}
	letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{})
	if err != nil || letters[0].Reason != "skipped" || letters[0].Sequence != 2 {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	var bodies []any
	for _, l := range p.lines() {
		bodies = append(bodies, l.Body)
	}
	gap := map[string]any{"source": "ann", "epoch": 0.0, "first": 2.0, "last": 3.0}
	if d := cmp.Diff([]any{1.0, gap, 4.0}, bodies); d != "" {
		t.Error(d)
	}
}

func TestAWebhookThatComesBackGetsEachEffectInOrder(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var got []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if id := r.Header.Get("webhook-id"); !slices.Contains(got, id) { // one group: one request at a time
			got = append(got, id)
		}
	}))
	defer receiver.Close()
	p := &place{t: t, dir: t.TempDir(), config: "streams: {orders: {destinations: [shop]}}\ndestinations: {shop: {webhook: '" + receiver.URL + "'}}\n"}
	r := p.start()
	for i := range 5 {
		r.send(t, client.Message{Stream: "orders", Key: fmt.Sprint(i), Group: "g", Body: []byte(`1`)})
	}
	r.idle(t)
	r.stop()
	if d := cmp.Diff([]string{"orders/g/1", "orders/g/2", "orders/g/3", "orders/g/4", "orders/g/5"}, got); d != "" {
		t.Error(d)
	}
}

func TestASweepOfAStoppedFolderPublishesWhatIsPending(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", p.dir)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := local.Open(local.Options{Config: c, DataDir: filepath.Join(p.dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := s.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Process(t.Context(), []record.Message{{Stream: "orders", ID: "a", Group: "g", Body: []byte("x")}})[0]
	if o.Kind != record.Processed {
		t.Fatalf("outcome %+v", o)
	}
	if info, err := s.Sweep(t.Context()); err != nil || info.Finished != 1 {
		t.Errorf("sweep: %+v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if lines := p.lines(); len(lines) != 1 {
		t.Errorf("lines: %+v", lines)
	}
}

func TestAPortThatIsTakenIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	s, err := local.Open(local.Options{Config: &config.Config{}, DataDir: t.TempDir(), Listen: taken.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("run: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAWaitingCallerIsToldWhenTheSystemEndsThatItsMessageIsAccepted(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: `
streams:
  chat: {admission: sequence, destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
`}
	r := p.start()
	answered := make(chan error, 1)
	go func() {
		receipt, err := r.client.Send(context.Background(), client.Message{Stream: "chat", Source: "ann", Sequence: 2, Body: []byte("2"), Wait: time.Minute})
		if err == nil && receipt.Status != "accepted" {
			err = fmt.Errorf("status %s", receipt.Status)
		}
		answered <- err
	}()
	for held := 0; held == 0; {
		stats, err := r.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = stats.Held
	}
	r.stop()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestUnusedConnectionsDoNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	var dialer net.Dialer
	connect := func(network, address string) net.Conn {
		c, err := dialer.DialContext(t.Context(), network, address)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range 3 {
		defer connect("tcp", r.address).Close()
		defer connect("unix", admin.Socket(filepath.Join(p.dir, "data"))).Close()
	}
	r.send(t, client.Message{Stream: "orders", Key: "a", Body: []byte("1")}) // connections are accepted in their order: the others are, now
	begun := time.Now()
	r.stop()
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("stopping took %s", took)
	}
}

// callAndDie is what the child process of the test below does.
func callAndDie(dir string) {
	p := &place{t: &testing.T{}, dir: dir, config: forwarding}
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", dir)))
	if err != nil {
		panic(err)
	}
	s, err := local.Open(local.Options{Config: c, DataDir: filepath.Join(dir, "data")})
	if err != nil {
		panic(err)
	}
	engine, err := s.Start(nil)
	if err != nil {
		panic(err)
	}
	if o := engine.Call(context.Background(), record.Message{Stream: "orders", ID: "a", Body: []byte("x")}); o.Kind != record.Processed {
		panic(fmt.Sprintf("%+v", o))
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func TestWhatACallerWasToldIsDoneSurvivesAKill(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("ONCE_TEST_CALL_AND_DIE"); dir != "" {
		callAndDie(dir)
	}
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWhatACallerWasTold")
	child.Env = append(os.Environ(), "ONCE_TEST_CALL_AND_DIE="+p.dir)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child: %v\n%s", err, out)
	}
	r := p.start()
	r.stop()
	if lines := p.lines(); len(lines) != 1 || lines[0].ID != "a" {
		t.Errorf("lines: %+v", lines)
	}
}
