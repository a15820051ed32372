package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

var errInjected = errors.New("injected")

// A world is a store, a queue and a stream, at a time that the test sets.
type world struct {
	t     *testing.T
	now   time.Time
	store record.Store
	// stream is the stream that the engine knows.
	stream record.Stream
	// queue are the messages that were put, and runs the ids that were processed.
	queue []record.Message
	runs  []string
	dead  []string
	log   bytes.Buffer
	ahead time.Duration
	ids   int
	// fault is called before each call of a port, with its name, and after it.
	fault func(call string, after bool) error
}

var reports = record.Stream{Name: "reports", Admission: record.ByKey}

func newWorld(t *testing.T, start string, stream record.Stream) *world {
	w := &world{t: t, now: at(start), stream: stream}
	w.store = memstore.New(w.clock)
	return w
}

func (w *world) clock() time.Time { return w.now }

func (w *world) id() string {
	w.ids++
	return fmt.Sprint("id-", w.ids)
}

func (w *world) call(name string, do func() error) error {
	if w.fault == nil {
		return do()
	}
	if err := w.fault(name, false); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return w.fault(name, true)
}

// engine returns the real engine.
func (w *world) engine() *dedup.Engine {
	stream := w.stream
	stream.Handler = func(_ context.Context, _ *record.Attempt, m record.Message) error {
		w.runs = append(w.runs, fmt.Sprintf("%s to %s: %s", m.ID, m.Group, m.Body))
		return nil
	}
	e, err := dedup.New(dedup.Config{Streams: []record.Stream{stream}, Store: w.store, Queues: letters{w}, Now: w.clock, NewID: w.id})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

type letters struct{ w *world }

func (letters) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }
func (letters) Delay(context.Context, []record.Delayed) error                   { return nil }
func (letters) Return(context.Context, []record.Message) error                  { return nil }
func (l letters) DeadLetter(_ context.Context, refused []record.Refused) error {
	for _, r := range refused {
		l.w.dead = append(l.w.dead, r.Message.ID+" "+string(r.Reason))
	}
	return nil
}

// The ports of schedules.

type ports struct{ w *world }

func (p ports) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) (g []record.Group, t []record.Token, err error) {
	err = p.w.call("load", func() (err error) { g, t, err = p.w.store.Load(ctx, groups, tokens); return err })
	return g, t, err
}

func (p ports) Commit(ctx context.Context, c record.Commit) error {
	return p.w.call("commit", func() error { return p.w.store.Commit(ctx, c) })
}

func (p ports) Stream(name string) (record.Stream, bool) { return p.w.engine().Stream(name) }

func (p ports) Issue(ctx context.Context, m record.Message) (t record.Token, fresh bool, err error) {
	err = p.w.call("issue", func() (err error) { t, fresh, err = p.w.engine().Issue(ctx, m); return err })
	return t, fresh, err
}

func (p ports) EnqueueAll(_ context.Context, messages []record.Message) []error {
	return []error{p.w.call("enqueue", func() error { p.w.queue = append(p.w.queue, messages...); return nil })}
}

var nightly = Schedule{Name: "nightly", Cron: "0 3 * * *", Stream: "reports", ContentType: "application/json", Body: []byte(`{"all":true}`)}

func (w *world) schedules(list ...Schedule) *Schedules {
	s, err := New(Config{
		Schedules: list, Store: ports{w}, Engine: ports{w}, Queue: ports{w}, Ahead: w.ahead, Now: w.clock, NewID: w.id,
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// send sends at a time, and processes what is on the queue. It returns the time of the next tick.
func (w *world) send(moment string, list ...Schedule) string {
	w.t.Helper()
	w.now = at(moment)
	next, err := w.schedules(list...).Send(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.process()
	return next.Format(time.RFC3339)
}

func (w *world) process() {
	w.t.Helper()
	for _, m := range w.queue {
		out := w.engine().Process(w.t.Context(), []record.Message{m})[0]
		switch out.Kind {
		case record.Processed, record.Duplicate:
		case record.Rejected:
			w.dead = append(w.dead, m.ID+" "+string(out.Reason))
		default:
			w.t.Fatalf("message %s: got %v %v", m.ID, out.Kind, out.Err)
		}
	}
	w.queue = nil
}

func (w *world) ran(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.runs); diff != "" {
		w.t.Errorf("processed ticks (-want +got):\n%s", diff)
	}
	w.runs = nil
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAScheduleSendsOneMessageAtEachOfItsTimes(t *testing.T) {
	for _, admission := range []record.Admission{record.ByKey, record.ByToken} {
		w := newWorld(t, "2026-11-27T12:00:00Z", record.Stream{Name: "reports", Admission: admission})
		equal(t, "next", w.send("2026-11-27T12:00:00Z", nightly), "2026-11-28T03:00:00Z")
		w.ran()
		equal(t, "next", w.send("2026-11-28T02:59:59Z", nightly), "2026-11-28T03:00:00Z")
		w.ran()
		equal(t, "next", w.send("2026-11-28T03:00:00Z", nightly), "2026-11-29T03:00:00Z")
		w.ran(`nightly/2026-11-28T03:00:00Z to nightly: {"all":true}`)
		equal(t, "next", w.send("2026-11-28T03:00:01Z", nightly), "2026-11-29T03:00:00Z")
		w.ran()
		w.send("2026-11-29T03:00:00Z", nightly)
		w.ran(`nightly/2026-11-29T03:00:00Z to nightly: {"all":true}`)
		equal(t, "dead letters", w.dead, []string(nil))
	}
}

func TestATickIsTheWholeMessage(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", reports)
	x := Schedule{Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", Stream: "reports", Group: "all", ContentType: "text/plain", Body: []byte("go")}
	w.now = at("2026-11-27T12:00:00Z")
	w.send("2026-11-27T12:00:00Z", x)
	w.now = at("2026-11-28T01:30:00.25Z")
	if _, err := w.schedules(x).Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "message", w.queue, []record.Message{{
		Principal: "~schedule", Stream: "reports", ID: "nightly/2026-11-28T01:30:00Z", Group: "all", ContentType: "text/plain", Body: []byte("go"), Accepted: w.now,
		Headers: map[string]string{"Schedule": "nightly", "Scheduled-For": "2026-11-28T01:30:00Z"},
	}})
}

func TestATickThatIsDueSoonIsPutOnTheQueueWithItsTime(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", reports)
	x := nightly
	x.Cron = "* * * * *"
	w.ahead = 2 * time.Minute
	if _, err := w.schedules(x).Send(t.Context()); err != nil { // the schedule begins
		t.Fatal(err)
	}
	w.queue, w.now = nil, at("2026-11-27T12:05:10Z")
	next, err := w.schedules(x).Send(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "next", next, at("2026-11-27T12:06:00Z"))
	var got []string
	for _, m := range w.queue {
		text := m.ID + " accepted " + m.Accepted.Format(time.TimeOnly)
		if !m.NotBefore.IsZero() {
			text += " for " + m.NotBefore.Format(time.TimeOnly)
		}
		got = append(got, text)
	}
	equal(t, "messages", got, []string{
		"nightly/2026-11-27T12:05:00Z accepted 12:05:10", // the latest of those that were missed
		"nightly/2026-11-27T12:06:00Z accepted 12:06:00 for 12:06:00",
		"nightly/2026-11-27T12:07:00Z accepted 12:07:00 for 12:07:00",
	})
}

func TestOfTheTimesThatWereMissedTheLatestIsSentLate(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", reports)
	w.send("2026-11-27T12:00:00Z", nightly)
	equal(t, "next", w.send("2026-12-10T09:00:00Z", nightly), "2026-12-11T03:00:00Z")
	w.ran(`nightly/2026-12-10T03:00:00Z to nightly: {"all":true}`)
	if got := w.log.String(); !strings.Contains(got, "missed=12 sent=2026-12-10T03:00:00.000Z late=6h0m0s") {
		t.Errorf("the log has no line that counts 12 missed times:\n%s", got)
	}
}

func TestTheFirstStartSendsNothingForEarlierTimes(t *testing.T) {
	w := newWorld(t, "2026-11-27T03:00:00Z", reports)
	equal(t, "next, at the very moment of a tick", w.send("2026-11-27T03:00:00Z", nightly), "2026-11-28T03:00:00Z")
	w.ran()
}

func TestAScheduleThatChangesItsTimesBeginsAnew(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", reports)
	w.send("2026-11-27T12:00:00Z", nightly)
	w.send("2026-11-28T03:00:00Z", nightly)
	w.ran(`nightly/2026-11-28T03:00:00Z to nightly: {"all":true}`)
	later := nightly
	later.Cron = "0 9 * * *"
	equal(t, "next, after 09:00", w.send("2026-11-28T10:00:00Z", later), "2026-11-29T09:00:00Z")
	w.ran()
	later.Zone = "Europe/Berlin"
	equal(t, "next, in another zone, after 09:00 there", w.send("2026-11-29T08:30:00Z", later), "2026-11-30T08:00:00Z")
	w.ran()
	later.Group, later.Body = "other", []byte("[]")
	equal(t, "next, with another body", w.send("2026-11-30T08:30:00Z", later), "2026-12-01T08:00:00Z")
	w.ran(`nightly/2026-11-30T08:00:00Z to other: []`)
}

func TestASchedulesOfAnotherNameBeginsAnew(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", reports)
	w.send("2026-11-27T12:00:00Z", nightly)
	renamed := nightly
	renamed.Name = "midnight"
	w.send("2026-11-28T04:00:00Z", renamed)
	w.ran()
	w.send("2026-11-29T03:00:00Z", renamed)
	w.ran(`midnight/2026-11-29T03:00:00Z to midnight: {"all":true}`)
	// the old name comes back
	w.send("2026-11-29T04:00:00Z", nightly)
	w.ran(`nightly/2026-11-29T03:00:00Z to nightly: {"all":true}`)
}

func TestATickThatWasBegunIsCompletedAsItWasBegun(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", reports)
	w.send("2026-11-27T12:00:00Z", nightly)
	w.now = at("2026-11-28T03:00:00Z")
	w.fault = func(call string, _ bool) error {
		if call == "commit" && len(w.queue) > 0 { // the tick is on the queue
			return errInjected
		}
		return nil
	}
	if _, err := w.schedules(nightly).Send(t.Context()); !errors.Is(err, errInjected) {
		t.Fatalf("got %v, want the injected error", err)
	}
	w.fault = nil
	w.process()
	w.ran(`nightly/2026-11-28T03:00:00Z to nightly: {"all":true}`)
	changed := nightly
	changed.Cron, changed.Body, changed.Group = "0 4 * * *", []byte("other"), "other"
	equal(t, "next", w.send("2026-11-28T03:30:00Z", changed), "2026-11-28T04:00:00Z")
	w.ran()
	equal(t, "dead letters", w.dead, []string(nil))
}

// The stream forgets the tick after an hour; whether it was sent is not recorded.
func TestATickThatMayBeForgottenIsNeverProcessedTwice(t *testing.T) {
	for _, admission := range []record.Admission{record.ByKey, record.ByToken} {
		w := newWorld(t, "2026-11-27T12:00:00Z", record.Stream{Name: "reports", Admission: admission, Retention: time.Hour})
		w.send("2026-11-27T12:00:00Z", nightly)
		w.now = at("2026-11-28T03:00:00Z")
		w.fault = func(call string, _ bool) error {
			if call == "commit" && len(w.queue) > 0 {
				return errInjected
			}
			return nil
		}
		if _, err := w.schedules(nightly).Send(t.Context()); !errors.Is(err, errInjected) {
			t.Fatalf("got %v, want the injected error", err)
		}
		w.fault = nil
		w.process()
		w.ran(`nightly/2026-11-28T03:00:00Z to nightly: {"all":true}`)
		w.send("2026-11-28T05:00:00Z", nightly)
		w.ran()
		want := map[record.Admission]string{record.ByKey: "expired", record.ByToken: "unknown"}[admission]
		equal(t, "dead letters", w.dead, []string{"nightly/2026-11-28T03:00:00Z " + want})
	}
}

func TestARestartAfterTheRetentionSendsNoTickAgain(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", record.Stream{Name: "reports", Retention: time.Hour})
	monthly := nightly
	monthly.Cron = "@monthly"
	w.send("2026-11-27T12:00:00Z", monthly)
	w.send("2026-12-01T00:00:00Z", monthly)
	w.ran(`nightly/2026-12-01T00:00:00Z to nightly: {"all":true}`)
	equal(t, "next", w.send("2026-12-30T00:00:00Z", monthly), "2027-01-01T00:00:00Z")
	w.ran()
}

func TestAYearlyScheduleIsNotForgotten(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", reports)
	leap := nightly
	leap.Cron = "0 0 29 2 *"
	w.send("2026-11-27T12:00:00Z", leap)
	w.send("2028-02-29T00:00:00Z", leap)
	w.ran(`nightly/2028-02-29T00:00:00Z to nightly: {"all":true}`)
	w.send("2032-03-01T00:00:00Z", leap)
	w.ran(`nightly/2032-02-29T00:00:00Z to nightly: {"all":true}`)
}

func TestAClockThatIsPutBackSendsNoTickTwice(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", record.Stream{Name: "reports", Retention: time.Hour})
	w.send("2026-11-27T12:00:00Z", nightly)
	w.send("2026-11-29T03:00:00Z", nightly)
	w.ran(`nightly/2026-11-29T03:00:00Z to nightly: {"all":true}`)
	equal(t, "next", w.send("2026-11-28T03:00:00Z", nightly), "2026-11-30T03:00:00Z")
	w.ran()
	if got := w.log.String(); !strings.Contains(got, "the clock is behind") {
		t.Errorf("the log does not say that the clock is behind:\n%s", got)
	}
}

func TestARecordThatIsOlderThanTheTokensSendsNoTickTwice(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", reports)
	w.send("2026-11-27T12:00:00Z", nightly)
	groups, _, err := w.store.Load(t.Context(), []record.GroupKey{key("nightly")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.send("2026-11-28T03:00:00Z", nightly)
	w.ran(`nightly/2026-11-28T03:00:00Z to nightly: {"all":true}`)
	// the groups are restored from a backup, the tokens are not
	now, _, err := w.store.Load(t.Context(), []record.GroupKey{key("nightly")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	older := groups[0]
	older.Version = now[0].Version + 1
	if err := w.store.Commit(t.Context(), record.Commit{Loaded: now[0], Next: older, Attempt: "restore"}); err != nil {
		t.Fatal(err)
	}
	w.send("2026-11-28T08:00:00Z", nightly)
	w.ran()
	equal(t, "dead letters", w.dead, []string(nil))
}

func TestATickOfAStreamThatIsGoneIsStillPutOnTheQueue(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", record.Stream{Name: "other"})
	w.send("2026-11-27T12:00:00Z", nightly)
	w.send("2026-11-28T03:00:00Z", nightly)
	w.ran()
	equal(t, "dead letters", w.dead, []string{"nightly/2026-11-28T03:00:00Z invalid"})
}

func TestAScheduleThatFailsDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t, "2026-11-27T12:00:00Z", reports)
	broken, fine := nightly, nightly
	broken.Name = "a"
	damaged := record.Group{Key: key("a"), Version: 1, Incarnation: 1, State: []byte("{"), Expires: at("2030-01-01T00:00:00Z")}
	if err := w.store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: key("a")}, Next: damaged, Attempt: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.schedules(broken, fine).Send(t.Context()); !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), "schedule a") {
		t.Errorf("got %v, want an error that names schedule a", err)
	}
	w.now = at("2026-11-28T03:00:00Z")
	if _, err := w.schedules(broken, fine).Send(t.Context()); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("got %v, want the error of the record", err)
	}
	w.process()
	w.ran(`nightly/2026-11-28T03:00:00Z to nightly: {"all":true}`)
}

func TestAScheduleThatIsWrongIsRefused(t *testing.T) {
	for want, x := range map[string]Schedule{
		"schedule a: never happens":  {Name: "a", Cron: "0 0 31 2 *", Stream: "s"},
		"there is no time zone":      {Name: "a", Cron: "@daily", Zone: "Here", Stream: "s"},
		"body must be at most 65536": {Name: "a", Cron: "@daily", Stream: "s", Body: make([]byte, MaxBody+1)},
		"group must be at most 256":  {Name: "a", Cron: "@daily", Stream: "s", Group: strings.Repeat("g", 257)},
	} {
		if _, err := New(Config{Schedules: []Schedule{x}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
