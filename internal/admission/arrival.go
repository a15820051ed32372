package admission

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/effectively-once/once/internal/record"
)

// An Arrival is a message with what identifies it in its stream. Not for concurrent use: it keeps what it has worked out.
type Arrival struct {
	record.Message
	// ByNumber says that the message is admitted by its sequence.
	ByNumber bool

	key   record.TokenKey
	print record.Fingerprint
}

// Check checks the message against the rules and its stream, and fills in what identifies it. The error is a [*record.InvalidError], or wraps [record.ErrNoStream].
func (a *Arrival) Check(streams record.Streams) (record.Stream, error) {
	s, ok := streams[a.Stream]
	if !ok {
		return s, fmt.Errorf("%w: %q", record.ErrNoStream, a.Stream)
	}
	if err := a.Validate(); err != nil {
		return s, err
	}
	a.ByNumber = s.Admission == record.BySequence && a.Route == ""
	if a.ByNumber && a.Source == "" {
		return s, &record.InvalidError{Field: "source", Rule: "and sequence are required by this stream"}
	}
	return s, nil
}

// Name names the message within its stream and principal: what its sender counts counts more than an id that it gave besides.
func (a *Arrival) Name() string {
	if a.ByNumber {
		return a.Number()
	}
	return a.Identity()
}

// Token names the message's token. Hashes are made when they are asked for: numbered messages need none.
func (a *Arrival) Token() record.TokenKey {
	if a.key == (record.TokenKey{}) {
		if a.ByNumber {
			a.key = record.NewNumberKey(a.Principal, a.GroupKey(), a.Number())
		} else {
			a.key = record.NewTokenKey(a.Principal, a.Stream, a.Identity())
		}
	}
	return a.key
}

// Fingerprint is the message's, made once.
func (a *Arrival) Fingerprint() record.Fingerprint {
	if a.print == (record.Fingerprint{}) {
		a.print = a.Message.Fingerprint()
	}
	return a.print
}

// Entry gives the message's pending entry in the record of its group.
func (a *Arrival) Entry(g *record.Group) (record.Pending, bool) {
	for i := range g.Pending {
		if g.Pending[i].Token == a.Token() {
			return g.Pending[i], true
		}
	}
	return record.Pending{}, false
}

// Failed is the fate of the message after its handler failed: rejected for good where the handler says so, or else to be tried again.
func (a *Arrival) Failed(log *slog.Logger, err error) record.Outcome {
	if reject, ok := errors.AsType[*record.RejectError](err); ok {
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonHandler, Detail: reject.Detail}
	}
	var failed *record.HandlerError
	if !errors.As(err, &failed) {
		failed = &record.HandlerError{Err: err}
	}
	log.Warn("handler failed", "stream", a.Stream, "token", a.Token().String(), "error", failed.Err.Error(), "stack", string(failed.Stack))
	return record.Outcome{Err: failed}
}
