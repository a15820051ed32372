package dedup_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

// applied returns the identities that were applied to the state of a group, in order.
func (w *world) applied(group string) []string {
	g := w.record(group)
	return strings.FieldsFunc(string(g.State), func(r rune) bool { return r == ',' })
}

// check compares effects, objects and records with the applied messages.
func (w *world) check(groups []string) {
	w.t.Helper()
	want, blobs := map[string]int{}, []string{}
	for _, group := range groups {
		if g := w.record(group); g.HasEffects() || g.HasHeld() {
			w.t.Errorf("left: %s", summary(g))
		}
		seen := map[string]bool{}
		for _, id := range w.applied(group) {
			if seen[id] {
				w.t.Errorf("%s: %s applied twice", group, id)
			}
			seen[id] = true
			m := w.messages[group+" "+id]
			for word := range strings.FieldsSeq(string(m.Body)) {
				verb, value, _ := strings.Cut(word, "=")
				switch verb {
				case "send":
					for to := range strings.SplitSeq(value, "+") {
						want[to+" "+group+" "+id]++
					}
				case "blob":
					blobs = append(blobs, value+"="+id)
				}
			}
		}
	}
	same(w.t, "effects", w.effects(), want)
	if _, err := w.worker(w.stream).SweepBlobs(context.Background(), w.store, w.clock()); err != nil {
		w.t.Error(err)
	}
	slices.Sort(blobs)
	same(w.t, "objects", w.objects(), blobs)
	same(w.t, "staged objects", len(w.staged), 0)
}

// effects counts the effects that arrived, by destination, group and message, each identity once.
// The first copies have to be in the order of their numbers.
func (w *world) effects() map[string]int {
	w.t.Helper()
	got := map[string]int{}
	content, last := map[string]string{}, map[string]uint64{}
	for _, d := range w.sent {
		if d.Effect.Headers["once-event"] != "" {
			continue
		}
		lane := d.To + " " + d.Group
		before, twice := content[d.To+" "+d.Identity]
		if twice {
			if before != string(d.Effect.Body) {
				w.t.Errorf("%s stands for two contents: %s and %s", d.Identity, before, d.Effect.Body)
			}
			continue
		}
		content[d.To+" "+d.Identity] = string(d.Effect.Body)
		if d.Number != 0 && d.Number <= last[lane] {
			w.t.Errorf("first copy of %s at %s after number %d", d.Identity, d.To, last[lane])
		}
		last[lane] = d.Number
		got[lane+" "+string(d.Effect.Body)]++
	}
	return got
}

// letters returns the reasons why each message was refused.
func (w *world) letters() map[string]map[record.Reason]bool {
	out := map[string]map[record.Reason]bool{}
	for _, r := range w.dead {
		key := r.Message.Group + " " + r.Message.Identity()
		if out[key] == nil {
			out[key] = map[record.Reason]bool{}
		}
		out[key][r.Reason] = true
	}
	return out
}

// inOrder checks that the sources a and b were processed 1 to n, and each even message of b
// (counted from 0) after that of a.
func inOrder(t *testing.T, applied []string, n int) {
	t.Helper()
	next := map[string]int{"a": 1, "b": 1}
	for _, id := range applied {
		source, _, _ := strings.Cut(id, "/")
		if want := fmt.Sprintf("%s/0/%d", source, next[source]); id != want {
			t.Errorf("applied %s in place of %s", id, want)
		}
		if source == "b" && next["b"]%2 == 1 && next["a"] <= next["b"] {
			t.Errorf("applied %s before what it depends on", id)
		}
		next[source]++
	}
	same(t, "next", next, map[string]int{"a": n + 1, "b": n + 1})
}

// accounted checks that every message was applied in the order of its number, or refused because of
// a gap.
func (w *world) accounted(policy record.GapPolicy) {
	w.t.Helper()
	letters := w.letters()
	reasons := map[record.GapPolicy][]record.Reason{record.GapSkip: {record.ReasonSkipped}, record.GapFail: {record.ReasonGap}}[policy]
	tight := w.stream.Limits.Ranges > 0
	if tight && policy == record.GapSkip {
		reasons = append(reasons, record.ReasonExpired, record.ReasonGap)
	}
	applied := map[string]bool{}
	for _, group := range groupNames {
		last := 0
		for _, id := range w.applied(group) {
			var n int
			if _, err := fmt.Sscanf(id, "a/0/%d", &n); err != nil || n <= last {
				w.t.Errorf("%s: %s after %d", group, id, last)
			}
			last = n
			applied[group+" "+id] = true
		}
	}
	for key := range w.messages {
		if !applied[key] && !slices.ContainsFunc(reasons, func(r record.Reason) bool { return letters[key][r] }) {
			w.t.Errorf("%s is lost", key)
		}
		if applied[key] && policy == record.GapSkip && !tight && len(letters[key]) > 0 {
			w.t.Errorf("%s was applied and refused: %v", key, letters[key])
		}
	}
}

// stubborn repeats a request with new workers until one answers.
func (w *world) stubborn(do func(k *worker) bool) {
	for range 200 {
		k, dead := w.unreliable()
		if do(k) && !dead() {
			return
		}
	}
	w.t.Error("no answer")
}

func (w *world) settledRequests(answered []bool) {
	w.t.Helper()
	for key, r := range w.messages {
		var n int
		if _, err := fmt.Sscanf(r.ID, "r%d", &n); err != nil {
			w.t.Fatal(err)
		}
		ran := slices.Contains(w.applied(r.Group), r.ID)
		if answered[n] && !ran {
			w.t.Errorf("%s was answered and is not applied", key)
		}
		want := "rejected deleted"
		if n%2 != 0 {
			want = strings.TrimSuffix("duplicate with "+r.ID, map[bool]string{false: " with " + r.ID}[strings.Contains(string(r.Body), "reply")])
		}
		same(w.t, key, w.worker(w.stream).call1(r), want)
	}
}
