package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// Answered reports whether the caller of a dead letter may have been told that its message is
// refused: then processing it would contradict that answer. A refusal that is remembered counts as
// told, because everyone who asks gets it. If nothing is remembered (the token has expired, or the
// message is numbered), the reason of the letter decides.
func (e *Engine) Answered(ctx context.Context, r record.Refused) (bool, error) {
	m, told := r.Message, r.Reason == record.ReasonHandler || r.Reason == record.ReasonLimit
	if r.Delivery != nil || m.Timer != "" || m.RedeliveryOf != "" {
		return false, nil
	}
	a := &admission.Arrival{Message: m}
	_, err := a.Check(e.streams)
	if remembered := err == nil && !a.ByNumber; !remembered { // a redrive reports the error
		return told, nil
	}
	st, err := e.Status(ctx, m)
	switch {
	case err != nil:
		return false, fmt.Errorf("look up dead letter: %w", err)
	case st.OfOther(&m), st.Status == admission.StatusDone, st.Status == admission.StatusCommitted:
		return false, nil // it was processed, or its identity is that of another message
	case st.Status == admission.StatusRejected:
		return true, nil
	}
	// an older version told callers that a message was refused when its tries were over
	return told || st.Reason == record.ReasonAttempts && st.Detail == "", nil
}

// Reopen takes back the refusal of a message, so that it is new again, and counts as accepted now.
// The caller then puts it on its queue. A numbered message has no refusal to be taken back.
//
// A commit that is under way may refuse the message too, on a view in which it was not refused. So
// Reopen first commits the group unchanged: such a commit fails, and writes its dead letter again.
func (e *Engine) Reopen(ctx context.Context, m *record.Message) error {
	a := &admission.Arrival{Message: *m}
	s, err := a.Check(e.streams)
	if err != nil || a.ByNumber {
		return err
	}
	if err = e.untilFirst(ctx, func() error { return e.reopen(ctx, a, e.relay.Takes(s, a)) }); err != nil {
		return fmt.Errorf("reopen message: %w", err)
	}
	m.Accepted = e.cfg.Now() // or it would expire again
	return nil
}

func (e *Engine) reopen(ctx context.Context, a *admission.Arrival, recordless bool) error {
	if key := a.GroupKey(); !recordless {
		groups, _, err := e.cfg.Store.Load(ctx, []record.GroupKey{key}, nil)
		if err != nil {
			return err
		}
		p := newPart(key, e.streams[key.Stream])
		p.view = groups[0]
		if err := e.fence(ctx, p); err != nil {
			return err
		}
		// an entry would refuse it again
		if err := errors.Join(e.publisher.ClearLeftovers(ctx, key), e.publisher.Release(ctx, key)); err != nil {
			return err
		}
	}
	_, tokens, err := e.cfg.Store.Load(ctx, nil, []record.TokenKey{a.Token()})
	if err != nil {
		return err
	}
	old := tokens[0]
	_, _, refused := old.Reply.Refused()
	if old.State != record.Absent && (old.Fingerprint != a.Fingerprint() || old.State != record.Issued && !refused) {
		return nil
	}
	// An absent token is written too: a worker that refuses the message has not written it yet, or
	// it has expired. The epoch makes the writes of workers fail that have loaded the token
	// before.
	next := record.Token{
		Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint(), Stream: a.Stream, Group: a.GroupName(),
		Owner: record.Reopened(old.Owner), Epoch: old.Epoch + 1, Request: old.Request, Expires: e.cfg.Now().Add(record.IssuedRetention),
	}
	_, err = e.cfg.Store.SwapToken(ctx, old, next)
	return err
}
