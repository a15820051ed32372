package record_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func TestADelayIsFromZeroToAYear(t *testing.T) {
	for after, want := range map[time.Duration]string{
		0: "", time.Millisecond: "", record.MaxDelay: "", -1: "must not be negative", record.MaxDelay + 1: "at most 365 days",
	} {
		a := &record.Attempt{Now: noon}
		for what, err := range map[string]error{
			"effect": a.SendAfter(record.Effect{To: []string{"out"}}, after),
			"timer":  a.SetTimer("t", after, record.Effect{}),
		} {
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s after %s: got %v, want an error with %q", what, after, err, want)
			}
		}
		if n := len(a.Effects()); want != "" && n != 0 || want == "" && n != 2 {
			t.Errorf("after %s: %d effects", after, n)
		}
	}
}

func TestAnEffectWithoutADelayIsNotDelayed(t *testing.T) {
	a := &record.Attempt{Now: noon}
	_ = a.SendAfter(record.Effect{To: []string{"out"}}, 0)
	_ = a.SendAfter(record.Effect{To: []string{"out"}}, time.Microsecond)
	got := a.Effects()
	if got[0].Delayed() || !got[1].NotBefore.Equal(noon.Add(time.Millisecond)) {
		t.Errorf("got %v and %v, want none and a millisecond after noon", got[0].NotBefore, got[1].NotBefore)
	}
}

func TestOnlyTheLastChangeOfATimerCounts(t *testing.T) {
	a := &record.Attempt{Now: noon}
	for _, do := range []error{
		a.SetTimer("a", time.Hour, record.Effect{Body: []byte("1")}),
		a.SetTimer("b", time.Hour, record.Effect{}),
		a.SetTimer("a", time.Minute, record.Effect{Body: []byte("2"), To: []string{"out"}, Group: "g"}),
		a.CancelTimer("b"), a.CancelTimer("c"), a.SetTimer("c", 0, record.Effect{}),
	} {
		if do != nil {
			t.Fatal(do)
		}
	}
	var got []string
	for _, f := range a.Effects() {
		got = append(got, fmt.Sprintf("%s %s %q to %v/%q", f.Timer, f.NotBefore.Sub(noon), f.Body, f.To, f.Group))
	}
	if want := []string{`a 1m0s "2" to [@timer]/""`, `c 0s "" to [@timer]/""`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if c := a.Timers(); len(c) != 3 || c[1].Name != "b" || c[1].Effect != nil {
		t.Errorf("got changes %+v, want that b is cancelled", c)
	}
}

func TestATimerNeedsANameAndAState(t *testing.T) {
	a := &record.Attempt{Now: noon}
	for name, want := range map[string]string{"": "must not be empty", "a\n": "control characters", strings.Repeat("x", 257): "at most 256"} {
		for _, err := range []error{a.SetTimer(name, 0, record.Effect{}), a.CancelTimer(name)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("name %.9q: got %v, want %q", name, err, want)
			}
		}
	}
	for want, s := range map[string]record.Stream{"stateless": {Stateless: true}, "a pool": {Partitions: 1}} {
		a.NoTimers = s.NoTimers()
		for _, err := range []error{a.SetTimer("t", 0, record.Effect{}), a.CancelTimer("t")} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error about %s", err, want)
			}
		}
	}
}

func TestTheTimersOfAGroupAreBounded(t *testing.T) {
	set := func(names ...string) (out []record.TimerChange) {
		for _, n := range names {
			out = append(out, record.TimerChange{Name: n, Effect: &record.Effect{}})
		}
		return out
	}
	full := record.Group{Timers: map[string]record.Timer{}}
	for i := range record.MaxTimers {
		full.Timers[fmt.Sprintf("timer %d", i)] = record.Timer{Number: 1}
	}
	long := record.Group{Timers: map[string]record.Timer{}}
	for i := range record.MaxTimerNames / record.MaxName {
		long.Timers[fmt.Sprintf("%0256d", i)] = record.Timer{Number: 1}
	}
	for _, c := range []struct {
		name  string
		group record.Group
		fired string
		do    []record.TimerChange
		want  string
	}{
		{"one more", full, "", set("new"), "1001 timers in one group: at most 1000"},
		{"replaced", full, "", set("timer 7"), ""},
		{"one cancelled", full, "", append(set("new"), record.TimerChange{Name: "timer 1"}), ""},
		{"one fired", full, "timer 1", set("new"), ""},
		{"names", long, "", set("x"), "have 32769 bytes: at most 32768"},
		{"the first", record.Group{}, "", set("x"), ""},
	} {
		err := c.group.HasRoomFor(c.do, c.fired)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	if len(full.Timers) != record.MaxTimers {
		t.Error("the check changed the group")
	}
}

func TestOnlyACompleteMessageOfATimerIsValid(t *testing.T) {
	ok := record.Message{Stream: "s", ID: "timer:1:7", Group: "g", Timer: "t", TimerNumber: 7}
	if err := ok.Validate(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	for name, change := range map[string]func(m *record.Message){
		"no name": func(m *record.Message) { m.Timer = "" }, "no number": func(m *record.Message) { m.TimerNumber = 0 },
		"no group": func(m *record.Message) { m.Group = "" }, "a long name": func(m *record.Message) { m.Timer = strings.Repeat("x", 257) },
	} {
		m := ok
		if change(&m); m.Validate() == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
