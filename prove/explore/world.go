package explore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/destination/retry"
	"github.com/effectively-once/once/internal/record"
)

const (
	stream      = "s"
	destination = "out"
	nameHeader  = "Name" // in the front door's spelling
)

// start returns the initial time of every scenario.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// A world holds all objects of an exploration.
type world struct {
	scenario *Scenario
	stores   *table[storePart]
	sends    *table[sendsPart]
	queues   *table[queuesPart]
	blobs    *table[blobsPart]
	pasts    *table[pastPart]
	tellings map[telling]*pastPart // results of tell
	backups  *table[backupPart]
	calls    *table[call]
	answers  *table[answer]
	runs     *table[run]
	// arrivals holds the messages of the scenario by their names, and tokens the names by their
	// tokens.
	arrivals map[string]*admission.Arrival
	tokens   map[record.TokenKey]string
	// delayed holds the delayed effects by their names on the queues.
	delayed map[string]record.Delayed
}

func newWorld(s *Scenario) *world {
	w := &world{
		scenario: s, stores: newTable[storePart](), sends: newTable[sendsPart](), queues: newTable[queuesPart](), blobs: newTable[blobsPart](), pasts: newTable[pastPart](), tellings: map[telling]*pastPart{},
		backups: newTable[backupPart](), calls: newTable[call](), answers: newTable[answer](), runs: newTable[run](), arrivals: map[string]*admission.Arrival{}, tokens: map[record.TokenKey]string{}, delayed: map[string]record.Delayed{},
	}
	for name := range s.Messages {
		if a, err := w.arrival(name); err == nil {
			w.arrivals[name], w.tokens[a.Token()] = a, name
		}
	}
	return w
}

// arrival returns a message as an admission.Arrival, which must not be changed.
func (w *world) arrival(name string) (*admission.Arrival, error) {
	if a, ok := w.arrivals[name]; ok {
		return a, nil
	}
	streams, err := record.NewStreams(w.streams(nil))
	if err != nil {
		return nil, err
	}
	a := &admission.Arrival{Message: w.scenario.message(name)}
	_, err = a.Check(streams)
	return a, err
}

// clock returns the time after a number of ticks.
func (w *world) clock(ticks uint8) time.Time {
	return start().Add(time.Duration(ticks) * time.Duration(w.scenario.Tick))
}

func (w *world) streams(a *host) []record.Stream {
	s := w.scenario.Stream
	handler := func(_ context.Context, t *record.Attempt, m record.Message) error { return w.handle(a, t, m) }
	out := record.Stream{
		Name: stream, Admission: s.Admission, Handler: handler, Stateless: s.Stateless, Unordered: s.Stateless,
		Retention: time.Duration(s.Retention), GroupRetention: time.Duration(s.GroupRetention),
		Gap: record.Gap{Policy: s.Gap, After: time.Duration(s.After)}, Bounds: record.Bounds{Distance: s.Distance},
		LogState: w.isDeleted,
	}
	if s.StateRetention != nil {
		out.StateRetention = time.Duration(*s.StateRetention)
	}
	if s.Asks > 0 {
		out.Handler, out.BatchSize = nil, s.Asks
		out.Batch = func(_ context.Context, b *record.Batch) error { return w.handleBatch(a, b) }
	}
	if s.Pool {
		out.Partitions = 1
	}
	if s.Events {
		out.Events = w.scenario.destinations()
	}
	out.LogRetention = w.logRetention()
	return []record.Stream{out}
}

// isDeleted reports whether a record with that state is kept as one without: the last message of the
// state deleted it, or the scenario keeps no states.
func (w *world) isDeleted(state []byte) bool {
	all := lines(state)
	return w.scenario.Stream.StateRetention == nil || len(all) == 0 || w.scenario.Messages[nameIn(all[len(all)-1])].Deletes
}

// effects returns how many effects the handler sends for a message.
func (w *world) effects(name string) int {
	if w.scenario.Messages[name].Silent {
		return 0
	}
	return w.scenario.Stream.Effects
}

// logRetention returns how long entries of logs can be read, or 0 if there are no logs.
func (w *world) logRetention() time.Duration {
	if !w.scenario.Stream.Log {
		return 0
	}
	return cmp.Or(time.Duration(w.scenario.Stream.Retain), record.DefaultLogRetention)
}

// handle is the handler of every scenario. All its results contain the names of the message and of
// the attempt.
func (w *world) handle(worker *host, a *record.Attempt, m record.Message) error {
	s, name := w.scenario.Stream, m.Headers[nameHeader]
	was := slices.Clone(a.State)
	mark := name + " by " + a.ID
	if s.Stateless { // an attempt that dies after a send is repeated, under the same identity
		mark = name
	} else {
		// the handler may fail below, and must not have damaged the stored state
		copy(a.State, bytes.Repeat([]byte("?"), len(was)))
	}
	for i := range w.effects(name) {
		effect := record.Effect{To: w.scenario.destinations(), Body: []byte(fmt.Sprintf("%s, effect %d", mark, i+1))}
		if err := w.sendLater(a, name, effect); err != nil {
			return err
		}
	}
	if err := w.setTimers(a, name); err != nil {
		return err
	}
	if s.Blob {
		a.Blob("blob of "+name, []byte(mark))
	}
	if s.Log {
		a.Append(record.Entry{Body: []byte(mark)})
	}
	if s.Reply {
		a.Reply(record.Reply{Status: 200, Body: []byte(mark)})
	}
	if s.Fails {
		if err := worker.work(name); err != nil {
			return err
		}
	}
	if m := w.scenario.Messages[name]; m.Rejected || m.RejectedBefore != "" && !strings.Contains("\n"+string(was), "\n"+m.RejectedBefore+" by ") {
		return &record.RejectError{Detail: "as the scenario says"}
	}
	if !s.Stateless {
		a.State = append(was, mark+"\n"...)
	}
	return nil
}

// handleBatch is the batch handler of a scenario. The state in its answer has all messages of the
// answer.
func (w *world) handleBatch(worker *host, b *record.Batch) error {
	answered, err := worker.askHandler(b.Messages)
	if err != nil {
		return err
	}
	for i := range b.Messages {
		if w.scenario.Messages[nameOf(b.Messages[i])].Fails {
			return errFails
		}
	}
	state := b.State
	for i := range b.Messages[:answered] {
		m := b.Messages[i]
		if w.scenario.Messages[nameOf(m)].Rejected {
			b.Reject("as the scenario says")
			continue
		}
		a := b.Accept()
		a.State = state
		if err := w.handle(worker, a, m); err != nil {
			return err
		}
		state = a.State
	}
	b.State = state
	return nil
}

// errFails is the error of a call with a message that fails.
var errFails = errors.New("as the scenario says")

// engine returns the engine of a worker.
func (w *world) engine(a *host) *dedup.Engine {
	senders, sequenced := map[string]record.Sender{}, map[string]bool{}
	for _, to := range w.scenario.destinations() {
		senders[to], sequenced[to] = w.sender(a, to), w.scenario.Stream.Sequenced
	}
	e, err := dedup.New(dedup.Config{
		Streams: w.streams(a), Store: storePort{a}, Queues: queuesPort{a}, Senders: senders, Sequenced: sequenced, Restores: a.restores, Blobs: blobsPort{a}, Now: a.clock, NewID: a.newID,
		Pause: queuesPort{a}.Pause, KeepDone: w.keeps(a), Recalls: w.scenario.Recalls,
		Parallel: 1, // a step has one result, also in a batch of several groups
	})
	if err != nil {
		panic(fmt.Sprintf("explore: %v", err)) // the scenario was validated
	}
	return e
}

// keeps reports whether a worker's engine keeps done entries. If the scenario is mixed, only
// workers with an odd number do.
func (w *world) keeps(a *host) bool {
	return w.scenario.Stream.Keep && (!w.scenario.Stream.Mixed || !strings.HasSuffix(a.name, "#2"))
}

// sender returns a destination. With a retry policy, each worker counts its own tries, and one is
// enough.
func (w *world) sender(a *host, to string) record.Sender {
	long := time.Duration(w.scenario.Stream.For)
	if long == 0 {
		return senderPort{a, to}
	}
	return retry.New(senderPort{a, to}, retry.Options{
		Policy: record.RetryPolicy{First: long, Max: long, For: long}, MinTries: 1, Random: func(int64) int64 { return 0 }, Now: a.clock,
	})
}

// commit applies a commit and checks its changes of the group's state.
func (w *world) commit(v view, c record.Commit) outcome {
	if !w.scenario.CommitsDone {
		c.Done = nil // the store does not know the field
	}
	switch c.Next.Key.Stream {
	case record.SourcesStream:
		return w.commitEpoch(v, c)
	case record.PoolsStream:
		return w.commitPool(v, c)
	}
	m := v.store.at(v.now)
	before, _, _ := m.Load(context.Background(), []record.GroupKey{c.Next.Key}, nil)
	for _, h := range c.Hold {
		if m := h.Message; slices.Contains(c.Unhold, record.HeldKey{Group: m.GroupKey(), Source: m.SourceKey(), Epoch: m.Epoch, Sequence: m.Sequence}) {
			return outcome{view: v, wrong: fmt.Errorf("one commit holds number %d and takes it out", m.Sequence)}
		}
	}
	if err := w.tooMuch(c); err != nil {
		return outcome{view: v, answer: w.answerOf(err.Error(), err.Error(), v.now, nil, err)}
	}
	err := m.Commit(context.Background(), c)
	switch {
	case errors.Is(err, record.ErrConflict):
		v.store = w.storeOf(m) // unchanged, if the store is correct
		return outcome{view: v, answer: w.answerOf("conflict", "conflict", v.now, nil, record.ErrConflict)}
	case err != nil:
		return outcome{view: v, wrong: err}
	}
	was, is := lines(before[0].State), lines(c.Next.State)
	past, held := v.past, v.store.contents.Held
	if len(is) < len(was) || !slices.Equal(is[:len(was)], was) {
		return outcome{view: v, wrong: fmt.Errorf("the commit overwrites what another one did: the state was %q and is %q", was, is)}
	}
	applied := append(slices.Clone(past.applied), is[len(was):]...)
	v.past, v.store = w.pastOf(pastPart{applied: applied, told: past.told, log: append(slices.Clip(past.log), w.appended(c)...), reader: past.reader}), w.storeOf(m)
	return outcome{view: v, answer: w.done(v.now), wrong: errors.Join(w.remembers(applied, v), w.wrongly(applied, past.told), w.numbered(before[0], c.Next, held, v.now), v.store.sound(), w.logged(&c.Next, v.store.contents.Chunks, v.now), w.timed(applied, is[len(was):], &c.Next, v.now))}
}

// commitAll applies commits of several groups. Its answer has their results.
func (w *world) commitAll(v view, commits []record.Commit) outcome {
	errs, texts, wrong := make([]error, len(commits)), make([]string, len(commits)), error(nil)
	for i, c := range commits {
		o := w.commit(v, c)
		if v, wrong = o.view, errors.Join(wrong, o.wrong); o.answer != nil {
			errs[i], texts[i] = o.answer.err, o.answer.text
		}
	}
	text := "together " + strings.Join(texts, ", ")
	return outcome{view: v, answer: w.answerOf(text, text, v.now, errs, nil), wrong: wrong}
}

// tooMuch returns the store's error for a commit that does not fit.
func (w *world) tooMuch(c record.Commit) error {
	known := map[uint64]bool{}
	for _, p := range c.Loaded.Pending {
		known[p.Number] = true
	}
	for _, p := range c.Next.Pending {
		if name, _, _ := strings.Cut(p.Identity, "/"); !known[p.Number] && w.scenario.Messages[name].Large {
			return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large"}
		}
	}
	for _, t := range c.Done {
		if w.scenario.Messages[w.tokens[t.Key]].Large {
			return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large"}
		}
	}
	switch room := w.scenario.Room; {
	case room == 0 || len(c.Next.Pending) <= room:
		return nil
	case slices.ContainsFunc(c.Next.Pending, func(p record.Pending) bool { return known[p.Number] }):
		return record.ErrFull
	default:
		return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too many"}
	}
}

// refuses reports whether the destinations refuse an effect for good.
func (w *world) refuses(body string) bool {
	mark, _, _ := strings.Cut(body, ",")
	return w.scenario.Messages[nameIn(mark)].Refused
}

// untaken reports whether every try to send an effect fails.
func (w *world) untaken(body string) bool {
	mark, _, _ := strings.Cut(body, ",")
	return w.scenario.Messages[nameIn(mark)].Untaken
}

// mayDie reports whether an effect may be a dead letter: a destination refuses it, the time of its
// retry policy is over, or an operator skipped it.
func (w *world) mayDie(s *state, body string) bool {
	long := time.Duration(w.scenario.Stream.For)
	return w.refuses(body) || w.scenario.Skip > 0 || long > 0 && !s.now.Before(start().Add(long))
}
