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

// Config configures an issuer. All fields are required.
type Config struct {
	Streams record.Streams
	Store   record.Store
	Queues  record.Queues
	// Restores are those of the engine.
	Restores record.Restores
	Now      func() time.Time
	// NewID makes unique names for the owners of tokens.
	NewID func() string
	// Recordless reports whether a message of a stream needs no group record.
	Recordless func(record.Stream, *Arrival) bool
	// LateDelay is the delay of a trigger for a commit that may still be in flight.
	LateDelay time.Duration
	Log       *slog.Logger
	LogKeys   bool
}

// An Issuer handles messages before and after the engine runs them: it issues their tokens, refuses
// them, and reports their status. It keeps nothing in memory between calls, so any number of
// issuers may share a store.
type Issuer struct{ cfg Config }

// New returns an issuer. It does no input or output.
func New(cfg Config) *Issuer { return &Issuer{cfg} }

// Issue writes the token of a message before the message is put on a queue. fresh reports whether
// this call wrote it.
//
// Otherwise Issue returns the stored token. It is Done, or it is Issued: the first try may have
// died before it could enqueue, or the message was refused, so the caller enqueues it again. A
// request that is being deleted is reported as before the delete began.
//
// If the identity was used with other content, or names a deleted request, the error is a
// [*record.RefusedError]. A one-time request (with a Route) is stored with its token.
func (i *Issuer) Issue(ctx context.Context, m record.Message) (token record.Token, fresh bool, err error) {
	a := &Arrival{Message: m}
	swap, err := i.issuing(a)
	if err != nil {
		return record.Token{}, false, err
	}
	named, err := i.named(ctx, []*Arrival{a})
	if err != nil {
		return record.Token{}, false, fmt.Errorf("issue token: %w", err)
	}
	if token, ok := i.kept(a, named); ok {
		return i.known(a, token)
	}
	found, err := i.cfg.Store.SwapToken(ctx, swap.Old, swap.Next)
	return i.issued(ctx, a, named, swap.Next, found, err)
}

// issuing returns the write that issues the token of a message.
func (i *Issuer) issuing(a *Arrival) (record.Swap, error) {
	if _, err := a.Check(i.cfg.Streams); err != nil {
		return record.Swap{}, err
	}
	next := record.Token{
		Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint(), Stream: a.Stream, Group: a.GroupName(), Owner: i.cfg.NewID(),
		Expires: i.issuedUntil(a),
	}
	if a.Route != "" {
		next.Request = &a.Message
	}
	return record.Swap{Old: record.Token{Key: a.Token()}, Next: next}, nil
}

// issued decides from the result of the write that issues a token.
func (i *Issuer) issued(ctx context.Context, a *Arrival, named namedGroups, next, found record.Token, err error) (token record.Token, fresh bool, _ error) {
	if g := named.of(a); errors.Is(err, record.ErrConflict) && Stale(&found, &g, i.cfg.Now()) {
		found, err = i.cfg.Store.SwapToken(ctx, found, next)
	}
	switch {
	case err == nil:
		return found, true, nil
	case !errors.Is(err, record.ErrConflict):
		return record.Token{}, false, fmt.Errorf("issue token: %w", err)
	}
	if found, err = i.renew(ctx, a, found); err != nil {
		return record.Token{}, false, fmt.Errorf("issue token: %w", err)
	}
	if found.State == record.Absent { // the token has expired since it was found
		return record.Token{}, false, fmt.Errorf("issue token: %w", record.ErrConflict)
	}
	return i.known(a, found)
}

// known returns what Issue returns for a message whose token was there before.
func (i *Issuer) known(a *Arrival, found record.Token) (record.Token, bool, error) {
	if fate, _ := Admit(record.Stream{}, a, found, i.cfg.Now()); fate.Kind == record.Rejected {
		return found, false, &record.RefusedError{Reason: fate.Reason, Detail: fate.Detail}
	}
	return found, false, nil
}

// Issued is what [Issuer.Issue] returns for one message.
type Issued struct {
	Token record.Token
	Fresh bool
	Err   error
}

// IssueAll writes the tokens of messages as Issue does, together, and returns a result for each. No
// two of the messages may have the same identity.
func (i *Issuer) IssueAll(ctx context.Context, messages []record.Message) []Issued {
	if len(messages) == 1 {
		token, fresh, err := i.Issue(ctx, messages[0])
		return []Issued{{token, fresh, err}}
	}
	results := make([]Issued, len(messages))
	arrivals := make([]*Arrival, len(messages))
	for n := range messages {
		arrivals[n] = &Arrival{Message: messages[n]}
	}
	named, loaded := i.named(ctx, arrivals)
	swaps, places := make([]record.Swap, 0, len(messages)), make([]int, 0, len(messages))
	for n, a := range arrivals {
		r := &results[n]
		swap, err := i.issuing(a)
		if err == nil && loaded != nil {
			err = fmt.Errorf("issue token: %w", loaded)
		}
		if err != nil {
			r.Err = err
			continue
		}
		if token, ok := i.kept(a, named); ok {
			r.Token, r.Fresh, r.Err = i.known(a, token)
			continue
		}
		swaps, places = append(swaps, swap), append(places, n)
	}
	for k, s := range record.SwapTokens(ctx, i.cfg.Store, swaps) {
		n := places[k]
		results[n].Token, results[n].Fresh, results[n].Err = i.issued(ctx, arrivals[n], named, swaps[k].Next, s.Token, s.Err)
	}
	return results
}

// issuedUntil returns when the issued token of a message expires: [record.IssuedRetention] after
// now or, if the message is delayed, after the time when it is due.
func (i *Issuer) issuedUntil(a *Arrival) time.Time {
	from := i.cfg.Now()
	if a.Waits(from) {
		from = a.NotBefore
	}
	return from.Add(record.IssuedRetention)
}

// renewAfter is the age at which an issued token is renewed when its message is enqueued again. An
// issued token younger than this remains valid for longer than its message can be in flight.
const renewAfter = 24 * time.Hour

// renew extends the token of a message that is sent again to its full retention, and removes the
// reason of a dead letter: a look-up would otherwise show it in place of the new try. A conflict
// means that another worker has changed the token; renew then returns the token as it is now.
func (i *Issuer) renew(ctx context.Context, a *Arrival, found record.Token) (record.Token, error) {
	expires := i.issuedUntil(a)
	fresh := found.Reason == "" && expires.Sub(found.Expires) <= renewAfter
	if found.State != record.Issued || found.Reason == record.ReasonHandler || fresh || found.Deleting() || found.Fingerprint != a.Fingerprint() {
		return found, nil
	}
	next := found
	next.Owner, next.Reason, next.Detail = i.cfg.NewID(), "", ""
	if expires.After(found.Expires) { // an earlier copy may be delayed for longer
		next.Expires = expires
	}
	stored, err := i.cfg.Store.SwapToken(ctx, found, next)
	if errors.Is(err, record.ErrConflict) {
		return stored, nil
	}
	return stored, err
}

// Refuse puts messages on the dead-letter queue of which no commit says that they are refused. If
// the reason is to be visible in the message's status, it also writes it into the token.
//
// An earlier delivery of the message may still commit afterwards: its worker runs on past its
// deadline, or has died while its write was in flight. Then no delivery is left that would publish
// the effects, so Refuse sends a delayed trigger first.
//
// If only some of the messages are on the dead-letter queue, the error wraps a [record.EachError].
func (i *Issuer) Refuse(ctx context.Context, refused []record.Refused) error {
	if groups := i.groups(refused); len(groups) > 0 {
		if err := i.cfg.Queues.Trigger(ctx, groups, i.cfg.LateDelay); err != nil {
			// its results are those of groups; none of the messages is on the dead-letter queue
			if each, ok := errors.AsType[record.EachError](err); ok {
				err = errors.Join(each...)
			}
			return fmt.Errorf("trigger ahead of dead letters: %w", err)
		}
	}
	err := i.cfg.Queues.DeadLetter(ctx, refused)
	for n, failed := range record.ErrorsOf(err, len(refused)) {
		r := refused[n]
		if failed != nil || r.Delivery != nil || !r.Reason.Open() && r.Reason != record.ReasonEnded {
			continue // the message has no token for this reason, or the token of another message
		}
		if err := i.note(ctx, r); err != nil {
			i.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "refusal not noted", append(r.Message.LogAttrs(i.cfg.LogKeys),
				slog.String("reason", string(r.Reason)), slog.Any("error", err))...)
		}
	}
	if err != nil {
		return fmt.Errorf("dead-letter messages: %w", err)
	}
	return nil
}

// triesOver is the detail of a message whose tries are over. The tokens of older versions, which
// told waiting callers that such a message is refused, have none.
const triesOver = "its handler failed for too long: it is a dead letter, and can be processed later"

// groups returns the groups of the refused messages, each once. Effects and invalid messages have
// no group, and neither have messages that need no group record.
func (i *Issuer) groups(refused []record.Refused) []record.GroupKey {
	var keys []record.GroupKey
	for _, r := range refused {
		a := &Arrival{Message: r.Message}
		s, err := a.Check(i.cfg.Streams)
		if err == nil && r.Delivery == nil && !i.cfg.Recordless(s, a) && !slices.Contains(keys, a.GroupKey()) {
			keys = append(keys, a.GroupKey())
		}
	}
	return keys
}

// note writes the reason into an issued token. A conflict means that another worker has changed the
// token since; then the reason is obsolete.
func (i *Issuer) note(ctx context.Context, r record.Refused) error {
	a := &Arrival{Message: r.Message}
	s, err := a.Check(i.cfg.Streams)
	if err != nil || a.ByNumber {
		return err
	}
	_, tokens, err := i.cfg.Store.Load(ctx, nil, []record.TokenKey{a.Token()})
	if err != nil {
		return err
	}
	old := tokens[0]
	if _, fresh := Admit(s, a, old, i.cfg.Now()); !fresh {
		return nil
	}
	next := old
	next.Key, next.State, next.Fingerprint, next.Stream, next.Group = a.Token(), record.Issued, a.Fingerprint(), a.Stream, a.GroupName()
	next.Owner, next.Reason, next.Detail = i.cfg.NewID(), r.Reason, ""
	if expires := i.issuedUntil(a); expires.After(old.Expires) { // another copy may be delayed for longer
		next.Expires = expires
	}
	if r.Reason.Open() { // the detail of the letter is an internal error
		next.Detail = triesOver
	}
	if _, err := i.cfg.Store.SwapToken(ctx, old, next); err != nil && !errors.Is(err, record.ErrConflict) {
		return err
	}
	return nil
}
