package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Config is what a desk is made of. All fields are required.
type Config struct {
	Streams record.Streams
	Store   record.Store
	Queues  record.Queues
	Now     func() time.Time
	// NewID makes unique names for the owners of tokens.
	NewID func() string
	// Recordless reports whether a message of a stream needs no group record.
	Recordless func(record.Stream, *Arrival) bool
	// LateDelay is how long a trigger waits for a commit that may yet come.
	LateDelay time.Duration
	Log       *slog.Logger
}

// A Desk is asked about messages before and after the engine runs them. It keeps nothing between calls; any number of desks may share a store.
type Desk struct{ cfg Config }

// New makes a desk. It does no work.
func New(cfg Config) *Desk { return &Desk{cfg} }

// IssuedRetention is how long an issued token waits for its message: longer than 14 days in a queue and 14 in its dead-letter queue.
const IssuedRetention = 30 * 24 * time.Hour

// Issue writes the token of a message before the message is put on a queue. fresh says that this call made it. Otherwise the token is as
// found: Issued (the first try may have died before it could enqueue, or was refused: enqueue again; a request that is being deleted is what it was
// until then) or Done. Reuse of the identity for another content, and a deleted request, are a [*record.RefusedError]. A one-time request (with a Route) is stored with its token.
func (d *Desk) Issue(ctx context.Context, m record.Message) (token record.Token, fresh bool, err error) {
	a := &Arrival{Message: m}
	if _, err := a.Check(d.cfg.Streams); err != nil {
		return record.Token{}, false, err
	}
	next := record.Token{
		Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint(), Stream: m.Stream, Group: m.GroupName(), Owner: d.cfg.NewID(),
		Expires: d.cfg.Now().Add(IssuedRetention),
	}
	if m.Route != "" {
		next.Request = &m
	}
	found, err := d.cfg.Store.SwapToken(ctx, record.Token{Key: a.Token()}, next)
	switch {
	case err == nil:
		return found, true, nil
	case !errors.Is(err, record.ErrConflict):
		return record.Token{}, false, fmt.Errorf("issue token: %w", err)
	}
	if found, err = d.renew(ctx, a, found); err != nil {
		return record.Token{}, false, fmt.Errorf("issue token: %w", err)
	}
	if found.State == record.Absent { // it has expired since it was found
		return record.Token{}, false, fmt.Errorf("issue token: %w", record.ErrConflict)
	}
	if fate, _ := Admit(record.Stream{}, a, found, d.cfg.Now()); fate.Kind == record.Rejected {
		return found, false, &record.RefusedError{Reason: fate.Reason, Detail: fate.Detail}
	}
	return found, false, nil
}

// renewAfter is how old an issued token may be when its message is enqueued again. What is left of its time is longer than the message may be under way.
const renewAfter = 24 * time.Hour

// renew gives the token of a message that comes again its whole time, and takes the reason of an earlier refusal off it: whoever waits for the message would be told the old fate
// in place of the new one. On a conflict the message has moved on, and the token is as found then.
func (d *Desk) renew(ctx context.Context, a *Arrival, found record.Token) (record.Token, error) {
	expires := d.cfg.Now().Add(IssuedRetention)
	fresh := found.Reason == "" && expires.Sub(found.Expires) <= renewAfter
	if found.State != record.Issued || fresh || found.Deleting() || found.Fingerprint != a.Fingerprint() {
		return found, nil
	}
	next := found
	next.Owner, next.Reason, next.Expires = d.cfg.NewID(), "", expires
	stored, err := d.cfg.Store.SwapToken(ctx, found, next)
	if errors.Is(err, record.ErrConflict) {
		return stored, nil
	}
	return stored, err
}

// Refuse puts messages on the dead-letter queue and notes the reason where the message's token is to tell it. A commit of an earlier delivery may come all the same: its worker goes on
// though its time is over, or is dead and its write still on its way. No delivery would be left then to have the effects published, so a trigger waits for them.
func (d *Desk) Refuse(ctx context.Context, refused []record.Refused) error {
	if groups := d.groups(refused); len(groups) > 0 {
		if err := d.cfg.Queues.Trigger(ctx, groups, d.cfg.LateDelay); err != nil {
			return fmt.Errorf("trigger ahead of dead letters: %w", err)
		}
	}
	if err := d.cfg.Queues.DeadLetter(ctx, refused); err != nil {
		return fmt.Errorf("dead-letter messages: %w", err)
	}
	for _, r := range refused {
		if r.Delivery != nil || r.Reason != record.ReasonHandler && r.Reason != record.ReasonAttempts {
			continue // the token is another message's, or there is none to write
		}
		if err := d.note(ctx, r); err != nil {
			d.cfg.Log.Warn("refusal not noted", "stream", r.Message.Stream, "reason", r.Reason, "error", err)
		}
	}
	return nil
}

// groups names the groups of messages, each once. What is no message of a stream has none, nor has one that needs no group record.
func (d *Desk) groups(refused []record.Refused) []record.GroupKey {
	var keys []record.GroupKey
	for _, r := range refused {
		a := &Arrival{Message: r.Message}
		s, err := a.Check(d.cfg.Streams)
		if err == nil && r.Delivery == nil && !d.cfg.Recordless(s, a) && !slices.Contains(keys, a.GroupKey()) {
			keys = append(keys, a.GroupKey())
		}
	}
	return keys
}

// note writes the reason into an issued token. A conflict means that the message has moved on; then there is nothing to say.
func (d *Desk) note(ctx context.Context, r record.Refused) error {
	a := &Arrival{Message: r.Message}
	s, err := a.Check(d.cfg.Streams)
	if err != nil || a.ByNumber {
		return err
	}
	_, tokens, err := d.cfg.Store.Load(ctx, nil, []record.TokenKey{a.Token()})
	if err != nil {
		return err
	}
	old := tokens[0]
	if _, fresh := Admit(s, a, old, d.cfg.Now()); !fresh {
		return nil
	}
	next := old
	next.Key, next.State, next.Fingerprint, next.Stream, next.Group = a.Token(), record.Issued, a.Fingerprint(), a.Stream, a.GroupName()
	next.Owner, next.Reason, next.Expires = d.cfg.NewID(), r.Reason, d.cfg.Now().Add(IssuedRetention)
	if _, err := d.cfg.Store.SwapToken(ctx, old, next); err != nil && !errors.Is(err, record.ErrConflict) {
		return err
	}
	return nil
}
