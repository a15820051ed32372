package dedup_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

var long = flag.Bool("long", false, "simulate twenty times as long")

// seeds is how many simulations of a kind are run.
func seeds(n uint64) uint64 {
	if *long {
		return 20 * n
	}
	return n
}

// body returns the script of the n-th message.
func body(n int, key string) []byte {
	return []byte([]string{
		"", "send=out", "send=side", "send=out+side reply", "send=out send=side send=out", "reply", "blob=" + key, "send=side blob=" + key + " reply",
	}[n%8])
}

var groupNames = []string{"g0", "g1", "g2"}

// simulate runs a world of a stream for each seed. The store of every other world marks tokens done
// in a commit. Half of the worlds have batch handlers, which answer any number of messages.
func simulate(t *testing.T, stream record.Stream, n uint64, do func(w *world)) {
	t.Helper()
	for seed := range seeds(n) {
		t.Run(fmt.Sprintf("%s %s %d", stream.Admission, stream.Gap.Policy, seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, stream)
			w.commitsDone, w.batched = seed%2 == 1, seed%4 >= 2
			w.answers = func(n int) int { return n - w.pick(n+1) }
			do(w)
		})
	}
}

func TestUnderFaultsEachMessageIsAppliedOnceAndEachEffectSentUnderOneIdentity(t *testing.T) {
	for _, stream := range []record.Stream{byKey, byToken} {
		simulate(t, stream, 10, func(w *world) {
			for n := range 36 {
				m := record.Message{Stream: "s", Group: groupNames[n%3], ID: fmt.Sprintf("m%d", n), Body: body(n/3, fmt.Sprintf("k%d", n))}
				if stream.Admission == record.ByToken {
					w.worker(stream).issue(m)
				}
				w.send(m)
				w.send(m)
			}
			w.run(groupNames)
			w.check(groupNames)
			for _, group := range groupNames {
				same(w.t, "applied", len(w.applied(group)), 12)
			}
			for _, m := range w.messages {
				if token := w.token(m); token.State != record.Done || (token.Reply != nil) != strings.Contains(string(m.Body), "reply") {
					w.t.Errorf("%s: token %+v", m.ID, token)
				}
			}
			same(w.t, "dead letters", len(w.dead), 0)
		})
	}
}

func TestUnderFaultsRelayedMessagesArriveUnderOneIdentity(t *testing.T) {
	simulate(t, relay, 5, func(w *world) {
		want := map[string]int{}
		for n := range 24 {
			m := record.Message{Stream: "s", Group: groupNames[n%3], ID: fmt.Sprintf("m%d", n), Body: []byte("send=out+side")}
			want["out "+m.Group+" "+m.ID], want["side "+m.Group+" "+m.ID] = 1, 1
			w.send(m)
			w.send(m)
		}
		w.run(nil)
		same(w.t, "effects", w.effects(), want)
	})
}

func TestUnderFaultsEachSourceIsProcessedInOrder(t *testing.T) {
	testOrderUnderFaults(t, bySequence, 15)
}

func TestUnderFaultsEachSourceIsProcessedInOrderWithTightBounds(t *testing.T) {
	tight := bySequence
	tight.Bounds, tight.Limits = record.Bounds{Count: 3, Distance: 3}, record.Limits{Sources: 2, Ranges: 1}
	testOrderUnderFaults(t, tight, 10)
}

func testOrderUnderFaults(t *testing.T, stream record.Stream, n uint64) {
	t.Helper()
	simulate(t, stream, n, func(w *world) {
		for n := range uint64(12) {
			for i, group := range groupNames {
				a := record.Message{Stream: "s", Group: group, Source: "a", Sequence: n + 1, Body: body(int(n)+i, fmt.Sprintf("a%s%d", group, n))}
				b := record.Message{Stream: "s", Group: group, Source: "b", Sequence: n + 1, Body: body(int(n)+i+3, fmt.Sprintf("b%s%d", group, n))}
				if n%2 == 0 {
					b.DependsOn = map[string]uint64{"a": n + 1, "b": n, "nobody": 0}
				}
				for range 2 {
					w.send(a)
					w.send(b)
				}
			}
		}
		w.run(groupNames)
		w.check(groupNames)
		for _, group := range groupNames {
			inOrder(w.t, w.applied(group), 12)
		}
		same(w.t, "dead letters", len(w.dead), 0)
	})
}

func TestUnderFaultsASourceIsProcessedInOrderOrRefusedByTheLimit(t *testing.T) {
	few := bySequence
	few.Limits = record.Limits{Sources: 3}
	simulate(t, few, 10, func(w *world) {
		const sources, each = 8, 5
		for n := range uint64(each) {
			for s := range sources {
				for i, group := range groupNames {
					m := record.Message{Stream: "s", Group: group, Source: fmt.Sprintf("s%d", s), Sequence: n + 1, Body: body(int(n)+i, fmt.Sprintf("%d%s%d", s, group, n))}
					w.send(m)
					w.send(m)
				}
			}
		}
		w.run(groupNames)
		w.check(groupNames)
		letters := w.letters()
		for _, group := range groupNames {
			last := map[string]int{}
			for _, id := range w.applied(group) {
				source, _, _ := strings.Cut(id, "/")
				if last[source]++; id != fmt.Sprintf("%s/0/%d", source, last[source]) {
					w.t.Errorf("applied %s as number %d", id, last[source])
				}
			}
			same(w.t, "sources", len(last), 3)
			for key, m := range w.messages {
				if done, refused := last[m.Source] == each, letters[key][record.ReasonLimit]; m.Group == group && done == refused {
					w.t.Errorf("%s: applied %v, refused %v", key, done, refused)
				}
			}
		}
	})
}

func TestUnderFaultsANewEpochFencesTheOldOne(t *testing.T) {
	simulate(t, bySequence, 10, func(w *world) {
		for n := range uint64(8) {
			for _, group := range groupNames {
				for epoch := range uint64(2) {
					m := record.Message{Stream: "s", Group: group, Source: "a", Epoch: epoch, Sequence: n + 1, Body: body(int(n+epoch), fmt.Sprintf("%s%d-%d", group, epoch, n))}
					w.send(m)
					w.send(m)
				}
			}
		}
		w.run(groupNames)
		w.check(groupNames)
		letters := w.letters()
		for _, group := range groupNames {
			var old, latest []string
			for _, id := range w.applied(group) {
				if strings.HasPrefix(id, "a/0/") && len(latest) == 0 {
					old = append(old, id)
				} else {
					latest = append(latest, id)
				}
			}
			for n := range 8 {
				if want := fmt.Sprintf("a/1/%d", n+1); len(latest) != 8 || latest[n] != want {
					w.t.Fatalf("new epoch: %v", latest)
				}
				id := fmt.Sprintf("a/0/%d", n+1)
				if n < len(old) && old[n] != id || n >= len(old) && !letters[group+" "+id][record.ReasonStaleEpoch] {
					w.t.Errorf("%s is lost: applied %v", id, old)
				}
			}
		}
	})
}

func TestUnderFaultsNumbersAreSkippedOnceAndNothingIsLost(t *testing.T) {
	for _, policy := range []record.GapPolicy{record.GapSkip, record.GapFail} {
		testGapsUnderFaults(t, gapped(policy, "side"))
	}
}

func TestUnderFaultsManyOrLargeGapsLoseNothing(t *testing.T) {
	for _, policy := range []record.GapPolicy{record.GapSkip, record.GapFail} {
		stream := gapped(policy, "side")
		stream.Bounds, stream.Limits = record.Bounds{Count: 4, Distance: 2}, record.Limits{Ranges: 1}
		testGapsUnderFaults(t, stream)
	}
}

func testGapsUnderFaults(t *testing.T, stream record.Stream) {
	t.Helper()
	simulate(t, stream, 10, func(w *world) {
		late := map[string]bool{}
		for n := range uint64(15) {
			for _, group := range groupNames {
				m := record.Message{Stream: "s", Group: group, Source: "a", Sequence: n + 1, Body: body(int(n), fmt.Sprintf("%s%d", group, n))}
				if n%5 == 3 { // may arrive after the policy acted on its gap
					late[group+" "+m.Identity()] = true
					w.messages[group+" "+m.Identity()] = m
					continue
				}
				w.send(m)
			}
		}
		for _, faults := range []float64{w.faults, 0} {
			w.faults = faults
			w.run(groupNames)
			for key := range late {
				w.send(w.messages[key])
			}
			clear(late)
		}
		w.run(groupNames)
		w.check(groupNames)
		w.accounted(stream.Gap.Policy)
	})
}

func TestUnderFaultsOneTimeRequestsRunAtMostOnceAndADeleteLasts(t *testing.T) {
	simulate(t, byKey, 10, func(w *world) {
		var all sync.WaitGroup
		answered := make([]bool, 12)
		for n := range 12 {
			r := record.Message{Stream: "s", Group: groupNames[n%3], ID: fmt.Sprintf("r%d", n), Route: "POST /", Body: body(n, fmt.Sprintf("k%d", n))}
			w.messages[r.Group+" "+r.ID] = r
			w.stubborn(func(k *worker) bool { _, _, err := k.Issue(w.t.Context(), r); return err == nil })
			for range 2 {
				all.Go(func() {
					w.stubborn(func(k *worker) bool {
						o := k.Call(w.t.Context(), r)
						if o.Kind == record.Processed || o.Kind == record.Duplicate {
							w.rmu.Lock()
							answered[n] = true
							w.rmu.Unlock()
						}
						return o.Settled()
					})
				})
			}
			if n%2 == 0 {
				all.Go(func() { w.stubborn(func(k *worker) bool { return k.Forget(w.t.Context(), r) == nil }) })
			}
			all.Go(func() { w.publishing(10) })
		}
		all.Wait()
		w.faults = 0
		w.run(groupNames)
		w.check(groupNames)
		w.settledRequests(answered)
	})
}
