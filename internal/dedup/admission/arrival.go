package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// An Arrival is a message with its identity in its stream. It caches hashes, so it is not for
// concurrent use.
type Arrival struct {
	record.Message
	// ByNumber says that the message is admitted by its sequence.
	ByNumber bool
	// Direct says that the message did not come from a queue, and that no token was issued for it
	// unless its stream requires one. A leased token then belongs to another attempt.
	Direct bool

	key   record.TokenKey
	print record.Fingerprint
}

// Check validates the message and its stream, places it in a partition, and sets ByNumber. It
// returns a [*record.InvalidError], or an error that wraps [record.ErrNoStream].
func (a *Arrival) Check(streams record.Streams) (record.Stream, error) {
	s, ok := streams[a.Stream]
	if !ok {
		return s, fmt.Errorf("%w: %q", record.ErrNoStream, a.Stream)
	}
	if err := a.Validate(); err != nil {
		return s, err
	}
	if err := s.CheckBody(&a.Message); err != nil {
		return s, err
	}
	if err := s.Place(&a.Message); err != nil {
		return s, err
	}
	if a.End && s.LogRetention == 0 {
		return s, &record.InvalidError{Field: "end", Rule: "needs a stream with a log"}
	}
	if a.Timer != "" {
		a.ByNumber = false
		if s.Partitions > 0 {
			return s, &record.InvalidError{Field: "timer", Rule: "must not be given: a stream with a pool has no timers"}
		}
		return s, nil
	}
	a.ByNumber = s.Admission == record.BySequence && a.Route == ""
	if a.ByNumber && a.Source == "" {
		return s, &record.InvalidError{Field: "source", Rule: "and sequence are required by this stream"}
	}
	if !a.ByNumber && len(a.Parents) > 0 && s.LogRetention == 0 {
		return s, &record.InvalidError{Field: "parents", Rule: "must not be given: this stream has no log"}
	}
	return s, nil
}

// Name returns the message's identity within its stream and principal. For a message admitted by
// sequence that is its number, even if it has an id too.
func (a *Arrival) Name() string {
	if a.ByNumber {
		return a.Number()
	}
	return a.Identity()
}

// Token returns the key of the message's token. It computes the hash on first use, because most
// numbered messages never need it.
func (a *Arrival) Token() record.TokenKey {
	if a.key == (record.TokenKey{}) {
		switch {
		case a.ByNumber:
			a.key = record.NewNumberKey(a.Principal, a.GroupKey(), a.Number())
		case a.Timer != "": // no id of a sender has this key
			a.key = record.NewNumberKey("", a.GroupKey(), a.ID)
		default:
			a.key = record.NewTokenKey(a.Principal, a.Stream, a.Identity())
		}
	}
	return a.key
}

// NeedsToken reports whether only a token will prove that the message was processed by an attempt.
// Otherwise the record of the group proves it: by the number that is next, or because the timer of
// the message is gone. The reply to a numbered message is in its token; that to a timer is dropped.
func (a *Arrival) NeedsToken(attempt *record.Attempt) bool {
	return a.Timer == "" && (!a.ByNumber || attempt.Answer() != nil)
}

// Fingerprint returns the message's fingerprint, computed on first use.
func (a *Arrival) Fingerprint() record.Fingerprint {
	if a.print == (record.Fingerprint{}) {
		a.print = a.Message.Fingerprint()
	}
	return a.print
}

// Entry returns the message's pending entry in the record of its group. It leaves out a kept entry
// that is forgotten.
func (a *Arrival) Entry(g *record.Group, now time.Time) (record.Pending, bool) {
	for i := range g.Pending {
		if p := &g.Pending[i]; p.Token == a.Token() && !p.Forgotten(now) {
			return *p, true
		}
	}
	return record.Pending{}, false
}

// Named returns the group that is named by the message's id. Its record may take the place of the
// message's done token if the stream keeps done entries, even if this copy names another group:
// then the same id was used for two contents.
func (a *Arrival) Named(s record.Stream) (record.GroupKey, bool) {
	if !s.KeepDone || a.Timer != "" { // which is only set for streams that are admitted by key
		return record.GroupKey{}, false
	}
	return record.GroupKey{Stream: a.Stream, Group: a.Identity()}, true
}

// Failed returns the outcome of a message whose handler failed: rejected if the handler refused it,
// or else to be retried. Whoever called the engine logs the failure.
func Failed(err error) record.Outcome {
	if reject, ok := errors.AsType[*record.RejectError](err); ok {
		fate := record.Outcome{Kind: record.Rejected, Reason: record.ReasonHandler, Detail: reject.Detail}
		if reject.Unkept {
			fate.Reason = ""
		}
		return fate
	}
	var failed *record.HandlerError
	if !errors.As(err, &failed) {
		failed = &record.HandlerError{Err: err}
	}
	return record.Outcome{Err: failed}
}
