package dedup_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// A world is a lab in which everything goes wrong now and then: queues deliver again, out of order and to several workers at once, answers get lost, workers die.
type world struct {
	*lab
	stream record.Stream

	rmu    sync.Mutex
	rnd    *rand.Rand
	faults float64
	queue  []*entry
	// messages came from outside; by group and identity.
	messages map[string]record.Message
}

// entry is a message on the ingress queue. Its acknowledgement takes it away from whoever else has it.
type entry struct {
	m    record.Message
	gone bool
}

func newWorld(t *testing.T, seed uint64, stream record.Stream) *world {
	t.Helper()
	return &world{
		lab: newLab(t), stream: stream, rnd: rand.New(rand.NewPCG(seed, 1)), faults: 0.15, messages: map[string]record.Message{},
	}
}

func (w *world) float() float64 {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	return w.rnd.Float64()
}

func (w *world) pick(n int) int {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	return w.rnd.IntN(n)
}

// send puts a message on the queue.
func (w *world) send(m record.Message) {
	w.messages[m.Group+" "+m.Identity()] = m
	w.queue = append(w.queue, &entry{m: m})
}

// unreliable starts a worker that dies, and whose calls fail before and after. The destination "side" is away half of the time.
func (w *world) unreliable() (k *worker, dead func() bool) {
	k = w.worker(w.stream)
	var mu sync.Mutex
	died := false
	k.at = func(call string) fault {
		mu.Lock()
		defer mu.Unlock()
		f := w.float()
		switch {
		case died:
			return failsBefore
		case f < w.faults/5:
			died = true
			return fault(1 + w.pick(2))
		case f < w.faults, w.faults > 0 && strings.HasPrefix(call, "send side") && f < 0.5:
			return fault(1 + w.pick(2))
		}
		return works
	}
	return k, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return died
	}
}

// take receives up to n messages. What was received before and not acknowledged yet may come again at the same time.
func (w *world) take(n int) []*entry {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(e *entry) bool { return e.gone })
	w.mu.Lock()
	for _, m := range w.returned {
		w.queue = append(w.queue, &entry{m: m})
	}
	w.returned = nil
	w.mu.Unlock()
	w.rnd.Shuffle(len(w.queue), func(i, j int) { w.queue[i], w.queue[j] = w.queue[j], w.queue[i] })
	return slices.Clone(w.queue[:min(n, len(w.queue))])
}

// serve processes batches until the queue is empty.
func (w *world) serve(turns int) {
	for range turns {
		batch := w.take(1 + w.pick(5))
		if len(batch) == 0 {
			return
		}
		messages := make([]record.Message, len(batch))
		for i, e := range batch {
			messages[i] = e.m
		}
		k, dead := w.unreliable()
		var outcomes []record.Outcome
		if len(messages) == 1 && w.pick(2) == 0 {
			outcomes = []record.Outcome{k.Call(context.Background(), messages[0])}
		} else {
			outcomes = k.Process(context.Background(), messages)
		}
		for i, o := range outcomes {
			refused := o.Kind == record.Rejected && k.Refuse(context.Background(), []record.Refused{{Message: messages[i], Reason: o.Reason}}) != nil
			if o.Settled() && !refused && !dead() {
				w.acknowledge(batch[i])
			}
		}
	}
}

func (w *world) acknowledge(e *entry) {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	e.gone = true
}

// publishing serves triggers until there are none.
func (w *world) publishing(turns int) {
	for range turns {
		w.mu.Lock()
		if len(w.triggers) == 0 {
			w.mu.Unlock()
			return
		}
		x := w.triggers[0]
		w.triggers = w.triggers[1:]
		w.mu.Unlock()
		k, dead := w.unreliable()
		if k.Publish(context.Background(), []record.GroupKey{x.Key})[0] != nil || dead() {
			w.mu.Lock()
			w.triggers = append(w.triggers, x)
			w.mu.Unlock()
		}
	}
}

// sweeping closes gaps and sweeps now and then, while time goes by.
func (w *world) sweeping(groups []string) {
	for range 3 {
		w.pass(20 * time.Second)
		for _, g := range groups {
			k, _ := w.unreliable()
			key := record.GroupKey{Stream: "s", Group: g}
			if w.pick(4) == 0 {
				_ = k.Sweep(context.Background(), key)
			} else {
				_ = k.CloseGaps(context.Background(), key)
			}
		}
	}
}

// run lets three processors, three publishers and a sweeper work side by side until everything is done: with faults, and then without.
func (w *world) run(groups []string) {
	w.t.Helper()
	for _, faults := range []float64{w.faults, w.faults, 0, 0} {
		w.faults = faults
		for range 8 {
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { w.serve(40) })
				all.Go(func() { w.publishing(40) })
			}
			all.Go(func() { w.sweeping(groups) })
			all.Wait()
		}
	}
	for turn := 0; w.open(groups); turn++ {
		if turn > 200 {
			w.t.Fatalf("it does not end: %d messages, %d triggers", len(w.queue), len(w.triggers))
		}
		w.serve(100)
		w.publishing(100)
		w.sweeping(groups)
	}
}

// open reports whether anything is left to do.
func (w *world) open(groups []string) bool {
	for _, name := range groups {
		if g := w.record(name); g.HasHeld() {
			return true
		}
	}
	return len(w.take(1)) > 0 || len(w.triggers) > 0
}

// applied lists what the state of a group has seen, in order.
func (w *world) applied(group string) []string {
	g := w.record(group)
	return strings.FieldsFunc(string(g.State), func(r rune) bool { return r == ',' })
}

// check compares effects, objects and records with what was applied.
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

// effects counts the effects that arrived, by destination, group and message, each identity once; the first copies have to be in the order of their numbers.
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

// letters gives the reasons why each message was refused.
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

// body is what the n-th message does.
func body(n int, key string) []byte {
	return []byte([]string{
		"", "send=out", "send=side", "send=out+side reply", "send=out send=side send=out", "reply", "blob=" + key, "send=side blob=" + key + " reply",
	}[n%8])
}

var groupNames = []string{"g0", "g1", "g2"}

// simulate runs a world of a stream for each seed.
func simulate(t *testing.T, stream record.Stream, n uint64, do func(w *world)) {
	t.Helper()
	for seed := range seeds(n) {
		t.Run(fmt.Sprintf("%s %s %d", stream.Admission, stream.Gap.Policy, seed), func(t *testing.T) {
			t.Parallel()
			do(newWorld(t, seed, stream))
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

func TestUnderFaultsEachSourceIsProcessedInOrderWhereNextToNothingIsHeld(t *testing.T) {
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

func TestUnderFaultsASourceIsProcessedInOrderOrRefusedAsOneTooMany(t *testing.T) {
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

// inOrder checks that the sources a and b were processed 1 to n, and each even message of b (counted from 0) after that of a.
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

func TestUnderFaultsNothingIsLostOfGapsThatAreTooManyOrTooFar(t *testing.T) {
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
				if n%5 == 3 { // comes when its gap was acted on, perhaps
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

// accounted checks that every message was applied in the order of its number, or refused because of a gap.
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

// stubborn repeats a request with other workers until it is answered.
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
