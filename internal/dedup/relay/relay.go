// Package relay forwards messages that need no group record: their handlers keep no state, and
// their streams neither keep an order nor number effects.
//
// The protocol is the engine's without the group: check the token, send effects under the message's
// own identity, mark the token done. If a worker crashes, the redelivered message repeats the
// missing steps, under the same identity.
//
// # Errors
//
// The fate of a message is a value, a [record.Outcome]; an error of a port becomes an outcome of
// the kind [record.Retry].
//
// # Limits
//
// The package imports the standard library and its siblings only. It keeps neither state nor blobs,
// and numbers nothing.
package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// Config configures a relay. All fields but Sequenced, Unrelayed and
// Running are required.
type Config struct {
	Streams record.Streams
	// Sequenced names the destinations whose deliveries are numbered without gaps for each group.
	Sequenced map[string]bool
	// Unrelayed names the destinations that effects of messages of other systems do not go to.
	Unrelayed map[string]bool
	Store     record.Store
	Queues    record.Queues
	Publisher *outbox.Publisher
	// Running holds the messages that run. Defaults to one of its own.
	Running *admission.Running
	Now     func() time.Time
	// NewID makes unique names for attempts.
	NewID func() string
	// Observe is called with an event for each published message.
	Observe func(record.Event)
}

// A Relay forwards messages. Any number of relays may share a store.
type Relay struct{ cfg Config }

// New returns a relay. It does no input or output.
func New(cfg Config) *Relay {
	if cfg.Running == nil {
		cfg.Running = &admission.Running{}
	}
	return &Relay{cfg}
}

// Takes reports whether a checked message of a stream needs no group record. A one-time request
// always has one, because DELETE and POST are serialised by its commits.
func (r *Relay) Takes(s record.Stream, a *admission.Arrival) bool {
	free := a.Timer == "" && s.Stateless && s.LogRetention == 0 && !a.ByNumber && a.Route == "" && (s.Unordered || a.Group == "")
	return free && !r.chains(s)
}

// chains reports whether the stream sends to a destination that needs numbers without gaps, which
// are kept in the group record.
func (r *Relay) chains(s record.Stream) bool {
	return slices.ContainsFunc(s.Events, func(to string) bool { return r.cfg.Sequenced[to] })
}

// A task is one message of a batch.
type task struct {
	*admission.Arrival
	lead  *task        // the first message of the batch with this identity
	turn  bool         // of the lead: no other call runs the message
	token record.Token // of the lead: as it was loaded
	runs  *task        // of the lead: the message with this identity that runs
	fate  record.Outcome
	list  []*outbox.Shipment
	entry record.Pending // of the message, if its handler ran
}

// Process runs a batch of messages and returns their outcomes, in the same order. No handler starts
// after the time until, if that is not zero.
func (r *Relay) Process(ctx context.Context, until time.Time, arrivals []*admission.Arrival) []record.Outcome {
	tasks := make([]task, len(arrivals))
	for i, a := range arrivals {
		tasks[i].Arrival = a
	}
	fates := make([]record.Outcome, len(tasks))
	defer r.leave(tasks)
	err := r.load(ctx, tasks)
	switch {
	// process each alone, so that one corrupt token does not block the others; nothing has run yet
	case errors.Is(err, record.ErrCorrupt) && len(arrivals) > 1:
		r.leave(tasks)
		for i := range arrivals {
			fates[i] = r.Process(ctx, until, arrivals[i:i+1])[0]
		}
		return fates
	case err == nil:
		err = r.process(ctx, until, tasks)
	}
	for i := range tasks {
		if fates[i] = tasks[i].fate; err != nil {
			fates[i] = record.Outcome{Kind: record.Retry, Err: err}
		}
	}
	return fates
}

// leave ends the turns of messages.
func (r *Relay) leave(tasks []task) {
	for i := range tasks {
		if t := &tasks[i]; t.turn {
			t.turn = false
			r.cfg.Running.Messages.End(t.Token())
		}
	}
}

func (r *Relay) process(ctx context.Context, until time.Time, tasks []task) error {
	var followers []*task
	all := make([]*outbox.Shipment, 0, len(tasks))
	for i := range tasks {
		t := &tasks[i]
		s := r.cfg.Streams[t.Stream]
		fate, fresh := admission.Admit(s, t.Arrival, t.lead.token, r.cfg.Now())
		switch {
		case !fresh:
			t.fate = fate
		case !t.lead.turn:
			t.fate = record.Outcome{Err: r.cfg.Running.Messages.Busy(t.Token(), r.cfg.Now())}
		case t.lead.runs != nil:
			followers = append(followers, t)
		default:
			t.lead.runs = t
			r.run(ctx, until, s, t)
			all = append(all, t.list...)
		}
	}
	r.cfg.Publisher.Ship(ctx, all)
	grace, cancel := outbox.WithGrace(ctx)
	defer cancel()
	for i := range tasks {
		r.deadLetter(grace, &tasks[i])
		r.reject(grace, &tasks[i])
	}
	done := make([]record.Token, 0, len(tasks))
	// A token must not expire before the mark of a destination that drops repeated identities:
	// until the mark expires, the destination would drop a new message with the same key.
	now := r.cfg.Now()
	for i := range tasks {
		if t := &tasks[i]; t.settled() {
			done = append(done, t.entry.DoneToken(t.GroupKey(), now))
		}
	}
	if err := r.cfg.Publisher.MarkDone(grace, done); err != nil {
		return err
	}
	for i := range tasks {
		if t := &tasks[i]; t.fate.Kind == record.Processed && len(t.list) > 0 {
			r.cfg.Observe(record.Event{Name: record.EventPublished, Stream: t.Stream, Count: 1})
		}
	}
	for _, t := range followers {
		t.follow(t.lead.runs)
	}
	return nil
}

// load sets the lead of each message, takes its turn, and loads its token.
func (r *Relay) load(ctx context.Context, tasks []task) error {
	byKey := make(map[record.TokenKey]*task, len(tasks))
	keys := make([]record.TokenKey, 0, len(tasks))
	for i := range tasks {
		t := &tasks[i]
		if t.lead = byKey[t.Token()]; t.lead == nil {
			t.lead, byKey[t.Token()] = t, t
			t.turn = r.cfg.Running.Messages.Take(t.Token(), r.cfg.Now())
			keys = append(keys, t.Token())
		}
	}
	_, tokens, err := r.cfg.Store.Load(ctx, nil, keys)
	if err != nil {
		return fmt.Errorf("load tokens: %w", err)
	}
	for i, token := range tokens {
		byKey[keys[i]].token = token
	}
	return nil
}

// deadLetter makes the refused effects of a message dead letters when all its other effects are
// sent. If it did so before, each retry of the message would write the letters again.
func (r *Relay) deadLetter(ctx context.Context, t *task) {
	if slices.ContainsFunc(t.list, func(s *outbox.Shipment) bool { return s.Err != nil }) {
		return
	}
	for _, s := range t.list {
		if s.Refused != nil {
			s.Err = r.cfg.Publisher.DeadLetter(ctx, s)
		}
	}
}

// reject makes a message that its handler refused a dead letter, and its token remember that.
func (r *Relay) reject(ctx context.Context, t *task) {
	if t.fate.Kind != record.Rejected || !t.fate.Reason.Final() || t.lead.runs != t {
		return
	}
	err := r.cfg.Queues.DeadLetter(ctx, []record.Refused{{Message: t.Message, Reason: t.fate.Reason, Detail: t.fate.Detail}})
	if err == nil {
		done := t.entry.DoneToken(t.GroupKey(), r.cfg.Now())
		var found record.Token
		found, err = r.cfg.Store.SwapToken(ctx, t.lead.token, done)
		// the caller may have put the message on the queue since the token was loaded
		issued := found.State == record.Issued && found.Reason == "" && !found.WasReopened() && found.Fingerprint == t.Fingerprint()
		if errors.Is(err, record.ErrConflict) && issued && !t.lead.token.WasReopened() {
			_, err = r.cfg.Store.SwapToken(ctx, found, done)
		}
	}
	if t.fate.Reply = t.entry.Reply; err != nil {
		t.fate = record.Outcome{Err: fmt.Errorf("refuse message: %w", err)}
	}
}

// settled reports whether the message is processed, now that its effects were sent. A follower has
// no outcome yet.
func (t *task) settled() bool {
	for _, s := range t.list {
		if s.Err != nil {
			t.fate = record.Outcome{Err: s.Err}
		}
	}
	return t.fate.Kind == record.Processed
}

// follow sets the outcome of another message with the same identity in the batch.
func (t *task) follow(first *task) {
	same := t.Fingerprint() == first.Fingerprint()
	switch {
	case first.fate.Kind == record.Processed && same:
		t.fate = record.Outcome{Kind: record.Duplicate, Reply: first.fate.Reply}
	case first.fate.Kind == record.Processed:
		t.fate = admission.KeyReuse()
	case first.fate.Kind == record.Rejected && same:
		t.fate = record.Outcome{Kind: record.Duplicate, Reply: first.fate.Reply}
	case first.fate.Kind == record.Rejected:
		t.fate = admission.KeyReuse()
	default:
		t.fate = record.Outcome{Err: record.ErrBlocked} // it runs when it is redelivered
	}
}

// run runs the handler for one new message. Its effects are not sent yet.
func (r *Relay) run(ctx context.Context, until time.Time, s record.Stream, t *task) {
	err := context.Cause(ctx)
	if err == nil && !until.IsZero() && !r.cfg.Now().Before(until) {
		err = context.DeadlineExceeded
	}
	if err != nil {
		t.fate = record.Outcome{Err: fmt.Errorf("run handler: %w", err)}
		return
	}
	a := &record.Attempt{ID: r.cfg.NewID(), Now: r.cfg.Now(), NoTimers: s.NoTimers()}
	err = s.Handler.Run(ctx, a, t.Message)
	effects := a.Effects()
	if err == nil {
		err = r.cfg.Publisher.Feasible(effects, a.Answer())
	}
	if err == nil && (a.State != nil || slices.ContainsFunc(effects, func(f record.Effect) bool { return f.Blob != nil })) {
		err = errors.New("a stateless handler can keep neither state nor blobs")
	}
	retention := s.RetentionOf(&t.Message)
	t.entry = record.Pending{Token: t.Token(), Fingerprint: t.Fingerprint(), Attempt: a.ID, Reply: a.Answer(), Retention: retention}
	if err != nil {
		t.fate = admission.Failed(err)
		t.entry.Reply = record.Refusal(t.fate.Reason, t.fate.Detail)
		return
	}
	for i, f := range effects {
		f.Via = t.Via
		for _, to := range f.To {
			if len(t.Via) > 0 && r.cfg.Unrelayed[to] {
				continue
			}
			t.list = append(t.list, &outbox.Shipment{To: to, Hold: true, Delivery: record.Delivery{
				Identity: identity(t.Arrival, i), Stream: t.Stream, Group: t.Group, Hash: t.Token().Short(), Target: f.Target(t.GroupKey()), Effect: f, Retention: retention, Committed: t.Accepted,
			}})
		}
	}
	t.fate = record.Outcome{Kind: record.Processed, Reply: a.Answer()}
}

// identity returns stream/id for the first effect of a message without a group record. It escapes
// slashes in the id, so that the result never looks like stream/group/number.
func identity(a *admission.Arrival, i int) string {
	id := a.Stream + "/" + escape(a.Name())
	if a.Principal != "" || i > 0 {
		id += "@" + escape(a.Principal)
	}
	if i > 0 {
		id += "@" + strconv.Itoa(i+1)
	}
	return id
}

// escape escapes the characters that separate the parts of an identity. The percent sign comes
// first, because the other escapes contain it. A strings.Replacer would allocate 5 KB for each
// message.
func escape(name string) string {
	name = strings.ReplaceAll(name, "%", "%25")
	name = strings.ReplaceAll(name, "/", "%2F")
	return strings.ReplaceAll(name, "@", "%40")
}
