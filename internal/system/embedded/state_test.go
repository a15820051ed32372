package embedded

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A foldered system is opened again and again on one folder, at times that the test sets.
type foldered struct {
	t   *testing.T
	dir string
	now time.Time
	ids int
	*System
}

func (f *foldered) open(text string, streams ...system.Stream) {
	f.t.Helper()
	var err error
	if f.System, err = Open(Options{DataDir: f.dir, Config: parsed(f.t, text), Now: func() time.Time { return f.now }}); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.Start(streams); err != nil {
		f.t.Fatal(err)
	}
}

func (f *foldered) close() {
	f.t.Helper()
	if err := f.Close(); err != nil {
		f.t.Fatal(err)
	}
}

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("once.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// process processes a new message of group g.
func (f *foldered) process() {
	f.t.Helper()
	f.ids++
	m := record.Message{Stream: "accounts", Group: "g", ID: string(rune('a' + f.ids))}
	if o := (durable{f.engine, f.System}).Process(f.t.Context(), []record.Message{m})[0]; o.Kind != record.Processed {
		f.t.Fatalf("%+v", o)
	}
}

// pass lets time pass, and deletes what has expired.
func (f *foldered) pass(d time.Duration) {
	f.t.Helper()
	f.now = f.now.Add(d)
	if _, _, err := f.expire(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// stored returns how many messages the state of the group has counted, and when it expires.
func (f *foldered) stored() (count uint64, expires time.Time) {
	f.t.Helper()
	groups, _, err := f.store.Load(f.t.Context(), []record.GroupKey{{Stream: "accounts", Group: "g"}}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if len(groups[0].State) > 0 {
		count = binary.BigEndian.Uint64(groups[0].State)
	}
	return count, groups[0].Expires
}

func counted() system.Stream {
	return system.Stream{Stream: record.Stream{Name: "accounts", Handler: counting, LogRetention: time.Hour}}
}

const (
	day = 24 * time.Hour
	// expiring writes the records as earlier versions did: with an expiry after 30 days.
	expiring = "streams: {accounts: {state: {retain: 30d}, log: {retain: 1h}}}"
	keeping  = "streams: {accounts: {log: {retain: 1h}}}"
)

func TestTheStatesOfAnEarlierVersionAreKeptFromTheirNextMessageOn(t *testing.T) {
	f := &foldered{t: t, dir: t.TempDir(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	f.open(expiring, counted())
	f.process()
	if _, at := f.stored(); !at.Equal(f.now.Add(30 * day)) {
		t.Fatalf("expires %s: earlier versions wrote 30 days", at)
	}
	f.close()
	f.open(keeping, counted())
	f.pass(29 * day)
	f.process()
	f.pass(3650 * day)
	if n, at := f.stored(); n != 2 || !at.IsZero() {
		t.Errorf("the state has counted %d messages, and expires %s", n, at)
	}
	// a stream whose handler is gone forwards, and leaves the state as it is
	f.close()
	f.open(keeping)
	f.process()
	f.pass(3650 * day)
	if n, at := f.stored(); n != 2 || !at.IsZero() {
		t.Errorf("after a forwarder, the state has counted %d messages, and expires %s", n, at)
	}
	f.close()
}

func TestTheRetentionOfStatesIsReloaded(t *testing.T) {
	f := &foldered{t: t, dir: t.TempDir(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	f.open(keeping, counted())
	defer f.close()
	for _, c := range []struct {
		text, changed string
		want          time.Duration
	}{
		{"streams: {accounts: {state: {retain: 90d}, log: {retain: 1h}}}", "streams.accounts.state.retain", 90 * day},
		{expiring, "streams.accounts.state.retain", 30 * day},
		{keeping, "streams.accounts.state.retain", 0},
	} {
		if changed, err := f.Reconfigure(t.Context(), parsed(t, c.text)); err != nil || len(changed) != 1 || changed[0] != c.changed {
			t.Fatalf("changed %q, %v", changed, err)
		}
		f.process()
		var want time.Time
		if c.want > 0 {
			want = f.now.Add(c.want)
		}
		if _, at := f.stored(); !at.Equal(want) {
			t.Errorf("%s: expires %s, want %s", c.text, at, want)
		}
	}
}
