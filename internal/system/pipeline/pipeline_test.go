package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

const feeding = `
streams:
  orders:   {destinations: [paying, counting]}
  payments: {admission: token, destinations: [ledger]}
  numbers:  {admission: sequence, destinations: [ledger]}
destinations:
  paying:   {stream: payments}
  counting: {stream: numbers}
  ledger:   {file: ledger.jsonl}
`

// A ledger is a destination that records the identities of its deliveries.
type ledger struct {
	mu    sync.Mutex
	lines []string
}

func (l *ledger) Send(_ context.Context, deliveries []record.Delivery) []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range deliveries {
		l.lines = append(l.lines, d.Identity+" "+string(d.Effect.Body))
	}
	return make([]error, len(deliveries))
}

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// opener opens shared destinations, and returns l for the others.
func opener(l record.Sender) func(string, config.Destination, Open) (record.Sender, error) {
	return func(_ string, d config.Destination, shared Open) (record.Sender, error) {
		if d.Kind() == config.KindFile {
			return l, nil
		}
		return shared()
	}
}

// run feeds the functions until the queues are empty.
func (w *world) run(p *Pipeline) {
	w.t.Helper()
	functions := map[string]queue.Handler{
		"ingress": p.Messages(), "ingress.fifo": p.Messages(), "publish": p.Publish().Handle, "publish.fifo": p.Publish().Handle,
	}
	for idle := false; !idle; {
		idle = true
		for name, handle := range functions {
			batch := w.ready(name)
			if len(batch) == 0 {
				continue
			}
			idle = false
			if got := handle(w.t.Context(), batch); slices.ContainsFunc(got, func(d queue.Disposition) bool { return d.Retry }) {
				w.t.Fatalf("%s: %+v", name, got)
			}
		}
	}
}

func TestAMessagePassesAllQueuesToAllDestinations(t *testing.T) {
	w, l := newWorld(t), &ledger{}
	p, err := New(Config{
		Config: parsed(t, feeding), Store: memstore.New(w.clock), Ports: w.ports(), Open: opener(l), Trusted: []string{wire.Sender}, Now: w.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "2"} { // a duplicate too
		if err := p.Queues.Enqueue(t.Context(), message("orders", "g", id)); err != nil {
			t.Fatal(err)
		}
	}
	w.run(p)
	of := map[string][]string{}
	for _, line := range l.lines {
		stream, _, _ := strings.Cut(line, "/")
		of[stream] = append(of[stream], line)
	}
	want := map[string][]string{"payments": {"payments/g/1 1", "payments/g/2 2"}, "numbers": {"numbers/g/1 1", "numbers/g/2 2"}}
	if d := cmp.Diff(want, of); d != "" {
		t.Errorf("deliveries (-want +got):\n%s", d)
	}
	w.want(map[string][]string{})
}

func TestOnlyTrustedSendersAreBelieved(t *testing.T) {
	w := newWorld(t)
	p, err := New(Config{Config: parsed(t, feeding), Store: memstore.New(w.clock), Ports: w.ports(), Open: opener(&ledger{}), Trusted: []string{"me"}, Now: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	m := message("orders", "g", "1")
	m.Principal = "ann"
	for sender, principal := range map[string]string{"me": "ann", "somebody": ""} {
		sent := wire.ToQueue(m)
		sent.Sender = sender
		got, err := p.decode(&queue.Delivery{Message: sent})
		if err != nil || got.Principal != principal {
			t.Errorf("from %s: principal %q, %v", sender, got.Principal, err)
		}
	}
}

func TestTheCodeOverridesTheConfiguration(t *testing.T) {
	c := parsed(t, "streams:\n  orders: {retention: 2h, order: none, destinations: [out]}\n  plain: {destinations: [out]}\ndestinations:\n  out: {file: out.jsonl}\n")
	handler := func(context.Context, *record.Attempt, record.Message) error { return errors.New("mine") }
	streams, err := merge(c, []system.Stream{
		{Stream: record.Stream{Name: "orders", Retention: time.Hour, Handler: handler}}, {Stream: record.Stream{Name: "declared", Admission: record.ByToken, Handler: handler}},
	}, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Name      string
		Admission record.Admission
		Retention time.Duration
		Unordered bool
		Stateless bool
		Events    []string
		Mine      bool
	}
	var got []row
	for _, s := range streams {
		mine := s.Handler(t.Context(), &record.Attempt{}, record.Message{}) != nil
		got = append(got, row{s.Name, s.Admission, s.Retention, s.Unordered, s.Stateless, s.Events, mine})
	}
	want := []row{
		{Name: "declared", Admission: record.ByToken, Mine: true},
		{Name: "orders", Admission: record.ByKey, Retention: time.Hour, Unordered: true, Events: []string{"out"}, Mine: true},
		{Name: "plain", Admission: record.ByKey, Stateless: true, Events: []string{"out"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("streams (-want +got):\n%s", d)
	}
}

func TestTheCodesOrderUndoesThatOfTheConfiguration(t *testing.T) {
	c := parsed(t, "streams:\n  orders: {order: none, destinations: [out]}\ndestinations:\n  out: {file: out.jsonl}\n")
	for _, d := range []struct {
		said system.Stream
		want bool // unordered
	}{
		{system.Stream{Ordered: true}, false},
		{system.Stream{}, true},
		{system.Stream{Stream: record.Stream{Unordered: true}}, true},
	} {
		d.said.Name = "orders"
		streams, err := merge(c, []system.Stream{d.said}, 1, true)
		if err != nil || streams[0].Unordered != d.want {
			t.Errorf("%+v: unordered is %v, %v", d.said, streams[0].Unordered, err)
		}
	}
}

func TestABoundOfTheCodeLeavesTheOthersOfTheConfiguration(t *testing.T) {
	c := parsed(t, "streams:\n  numbers: {admission: sequence, held: {count: 5, bytes: 1MB, distance: 7}, destinations: [out]}\ndestinations:\n  out: {file: out.jsonl}\n")
	for said, want := range map[record.Bounds]record.Bounds{
		{}:            {Count: 5, Bytes: 1_000_000, Distance: 7},
		{Count: 9}:    {Count: 9, Bytes: 1_000_000, Distance: 7},
		{Bytes: 9}:    {Count: 5, Bytes: 9, Distance: 7},
		{Distance: 9}: {Count: 5, Bytes: 1_000_000, Distance: 9},
	} {
		streams, err := merge(c, []system.Stream{{Stream: record.Stream{Name: "numbers", Bounds: said}}}, 1, true)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, streams[0].Bounds); d != "" {
			t.Errorf("the code says %+v (-want +got):\n%s", said, d)
		}
	}
}

func TestARetryPolicyThatIsSetInPartIsCompletedByTheConfigurationAndTheDefaults(t *testing.T) {
	c := parsed(t, "streams:\n  first: {retry: {first: 10ms}}\n  none: {}\n")
	for _, x := range []struct {
		stream     string
		said, want record.RetryPolicy
	}{
		{"none", record.RetryPolicy{}, record.MessageRetry()},
		{"none", record.RetryPolicy{First: 20 * time.Millisecond}, record.RetryPolicy{First: 20 * time.Millisecond, Max: 5 * time.Minute, For: 24 * time.Hour}},
		{"first", record.RetryPolicy{}, record.RetryPolicy{First: 10 * time.Millisecond, Max: 5 * time.Minute, For: 24 * time.Hour}},
		{"first", record.RetryPolicy{For: time.Hour}, record.RetryPolicy{First: 10 * time.Millisecond, Max: 5 * time.Minute, For: time.Hour}},
		{"first", record.RetryPolicy{First: time.Minute}, record.RetryPolicy{First: time.Minute, Max: 5 * time.Minute, For: 24 * time.Hour}},
	} {
		streams, err := merge(c, []system.Stream{{Stream: record.Stream{Name: x.stream, Retry: x.said}}}, 1, true)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(streams, func(s record.Stream) bool { return s.Name == x.stream })
		if got := streams[i].Retry.Or(record.MessageRetry()); got != x.want {
			t.Errorf("the stream %s, and the code says %+v: got %+v, want %+v", x.stream, x.said, got, x.want)
		}
	}
}

// The process function is a program of its own with handlers; the publish function that comes with
// once knows only the configuration.
func TestTheRetentionsOfTheCodeAreThoseOfThePublisherToo(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		code  record.Stream
		state string
		want  time.Duration // 0 for ever
	}{
		"a group without state":       {record.Stream{GroupRetention: year}, "", year},
		"a state for a year":          {record.Stream{StateRetention: year}, "balance", year},
		"a state":                     {record.Stream{}, "balance", 0},
		"a group whose state is kept": {record.Stream{GroupRetention: year}, "balance", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			store := memstore.New(w.clock)
			cfg := Config{
				Config: parsed(t, "streams:\n  orders: {destinations: [ledger]}\ndestinations:\n  ledger: {file: l.jsonl}\n"), Store: store, Ports: w.ports(),
				Open: opener(&ledger{}), Trusted: []string{wire.Sender}, Now: w.clock,
			}
			stock, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			c.code.Name, c.code.Handler = "orders", func(_ context.Context, a *record.Attempt, m record.Message) error {
				a.State = []byte(c.state)
				a.Send(record.Effect{To: []string{"ledger"}, Body: m.Body})
				return nil
			}
			cfg.Declared = []system.Stream{{Stream: c.code}}
			mine, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if o := mine.Engine.Process(t.Context(), []record.Message{message("orders", "g", "1")})[0]; o.Kind != record.Processed {
				t.Fatalf("the message is %s: %v", o.Kind, o.Err)
			}
			key := record.GroupKey{Stream: "orders", Group: "g"}
			w.now = w.now.Add(time.Hour)
			if errs := stock.Engine.Publish(t.Context(), []record.GroupKey{key}); errs[0] != nil {
				t.Fatal(errs[0])
			}
			var want time.Time
			if c.want > 0 {
				want = w.now.Add(c.want)
			}
			groups, _, err := store.Load(t.Context(), []record.GroupKey{key}, nil)
			if err != nil || len(groups[0].Pending) > 0 || !groups[0].Expires.Equal(want) {
				t.Errorf("%d pending, forgotten at %s, want %s, %v", len(groups[0].Pending), groups[0].Expires, want, err)
			}
		})
	}
}

func TestUnusableSettingsAreErrorsAtTheStart(t *testing.T) {
	w := newWorld(t)
	base := Config{Config: parsed(t, feeding), Store: memstore.New(w.clock), Ports: w.ports(), Open: opener(&ledger{})}
	handler := func(context.Context, *record.Attempt, record.Message) error { return nil }
	for name, c := range map[string]struct {
		change func(*Config)
		parts  []string
	}{
		"destination of the code": {func(c *Config) {
			c.Declared = []system.Stream{{Stream: record.Stream{Name: "declared", Handler: handler}, Destinations: []string{"nowhere"}}}
		}, []string{"declared", "nowhere"}},
		"each destination that can't be opened": {func(c *Config) {
			c.Open = func(string, config.Destination, Open) (record.Sender, error) { return nil, errors.New("shut") }
		}, []string{"paying", "counting", "ledger", "shut"}},
		"a kind that is not shared": {func(c *Config) {
			c.Open = func(_ string, _ config.Destination, shared Open) (record.Sender, error) { return shared() }
		}, []string{"ledger", "file ledger.jsonl"}},
		"a webhook's secret": {func(c *Config) {
			c.Config = parsed(t, "streams:\n  orders: {destinations: [shop]}\ndestinations:\n  shop: {webhook: \"https://shop.example/hook\", secret: \"env:ONCE_TEST_NOT_SET\"}\n")
		}, []string{"shop", "env:ONCE_TEST_NOT_SET"}},
		"a system's key": {func(c *Config) {
			c.Config = parsed(t, "name: eu\nstreams:\n  room: {destinations: [us]}\ndestinations:\n  us: {once: \"https://us.example\", stream: room, auth: \"env:ONCE_TEST_NOT_SET\"}\n")
		}, []string{"us", "env:ONCE_TEST_NOT_SET"}},
		"no credentials of AWS to sign with": {func(c *Config) {
			c.Config = parsed(t, "name: eu\nstreams:\n  room: {destinations: [us]}\ndestinations:\n  us: {once: \"https://us.example\", stream: room, auth: iam}\n")
		}, []string{"us", "auth: iam"}},
		"a webhook's invalid secret": {func(c *Config) {
			t.Setenv("ONCE_TEST_SECRET", "whsec_!")
			c.Config = parsed(t, "streams:\n  orders: {destinations: [shop]}\ndestinations:\n  shop: {webhook: \"https://shop.example/hook\", secret: \"env:ONCE_TEST_SECRET\"}\n")
		}, []string{"shop", "base64"}},
		"a restore in the future": {func(c *Config) {
			c.Config = parsed(t, feeding+"restores: [2026-01-01T00:00:00Z, 2999-01-01T00:00:00Z]\n")
		}, []string{"restores[1]", "2999-01-01T00:00:00Z is in the future"}},
		"a port": {func(c *Config) { c.Ports.Dead = nil }, []string{"ports"}},
	} {
		cfg := base
		c.change(&cfg)
		_, err := New(cfg)
		for _, part := range c.parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, which does not name %s", name, err, part)
			}
		}
	}
}

func TestADestinationMayBeLeftOut(t *testing.T) {
	w := newWorld(t)
	cfg := Config{Config: parsed(t, feeding), Store: memstore.New(w.clock), Ports: w.ports(), Now: w.clock}
	cfg.Open = func(string, config.Destination, Open) (record.Sender, error) { return nil, nil }
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := p.Engine.Process(t.Context(), []record.Message{message("orders", "g", "1")})[0]
	if o.Settled() {
		t.Errorf("a message without a way to its destinations is %+v", o)
	}
}

func TestAStreamTakesNoLargerBodyThanItCanHoldAndForward(t *testing.T) {
	c := parsed(t, `
streams:
  nowhere: {}
  web:     {destinations: [hook]}
  disk:    {destinations: [log, hook]}
  queue:   {destinations: [hook, jobs]}
  topic:   {destinations: [hook, news]}
  bus:     {destinations: [events]}
  linked:  {destinations: [peer]}
  chain:   {destinations: [to-web, hook]}
  small:   {destinations: [to-numbers]}
  a-first: {destinations: [to-z-next]}
  z-next:  {destinations: [to-queue]}
  numbers: {admission: sequence, destinations: [hook]}
  logged:  {log: {}, destinations: [hook]}
  pooled:  {pool: {}}
  handled: {destinations: [news]}
destinations:
  hook: {webhook: "https://example.com"}
  log: {file: log.jsonl}
  jobs: {sqs: jobs}
  news: {sns: news}
  events: {eventbridge: events}
  peer: {once: "https://example.com", stream: s}
  to-web: {stream: web}
  to-numbers: {stream: numbers}
  to-z-next: {stream: z-next}
  to-queue: {stream: queue}
name: here
`)
	handled := system.Stream{Stream: record.Stream{Name: "handled", Handler: func(context.Context, *record.Attempt, record.Message) error { return nil }}}
	const all, queue, small = record.MaxBody, record.QueueBody, record.SmallBody
	want := map[string]int{
		"nowhere": all, "web": all, "disk": all, "queue": queue, "topic": small, "bus": small, "linked": small, "chain": all, "small": small,
		"a-first": queue, "z-next": queue, "numbers": small, "logged": small, "pooled": small, "handled": all,
	}
	for _, large := range []bool{true, false} {
		streams, err := merge(c, []system.Stream{handled}, 1, large)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range streams {
			most := want[s.Name]
			if !large {
				most = small
			}
			if got := s.BodyLimit(); got != most {
				t.Errorf("%s: %d bytes, want %d, large %v", s.Name, got, most, large)
			}
			if err := s.CheckBody(&record.Message{Body: make([]byte, most)}); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
			if s.CheckBody(&record.Message{Body: make([]byte, most+1)}) == nil || s.CheckBody(&record.Message{Route: "POST /", Body: make([]byte, small+1)}) == nil {
				t.Errorf("%s takes a byte too much", s.Name)
			}
		}
	}
}
