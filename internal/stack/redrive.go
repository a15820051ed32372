package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// ErrUntrusted says that a dead letter can't be put back from here under the identity that it has.
var ErrUntrusted = errors.New("the functions would not believe the caller under which principal, by which route or when it was accepted: " +
	"redrive it as one of the stack's trusted senders (ONCE_TRUSTED_SENDERS)")

// Redrive puts dead letters back under their identities: first on the queue that they came to, and only when that has answered, off the dead-letter queue. What dies in
// between is there twice under one identity, which the engine is made for. What comes back while it runs is left.
//
// SQS names the sender of a message, and what a message says of its principal, route and acceptance is believed only of senders that the functions trust. A dead letter
// that depends on it is put back by a trusted caller only; from any other it would be a new message under another identity. It counts as failed. Triggers and effects
// depend on nothing of it.
func (s *System) Redrive(ctx context.Context, o admin.RedriveOptions) (admin.RedriveInfo, error) {
	trusted, err := s.stack.trusted(ctx)
	if err != nil {
		return admin.RedriveInfo{}, err
	}
	c, err := s.stack.caller(ctx)
	if err != nil {
		return admin.RedriveInfo{}, err
	}
	there, err := s.depth(ctx, o)
	if err != nil {
		return admin.RedriveInfo{}, err
	}
	r := &redrive{system: s, options: o, believed: c.among(trusted, s.stack.emulated()), before: map[string]bool{}}
	err = s.walk(ctx, o.Queue, trusted, r.visit)
	r.info.Left = max(r.info.Left, there-r.info.Redriven-r.info.Failed)
	return r.info, err
}

// depth is about how many dead letters there are, where not all of them will be looked at.
func (s *System) depth(ctx context.Context, o admin.RedriveOptions) (n int, err error) {
	if o.Max == 0 {
		return 0, nil
	}
	stats, err := s.queueStats(ctx)
	for _, q := range stats {
		if q.DeadLetter && (o.Queue == "" || o.Queue == q.Queue) {
			n += q.Depth()
		}
	}
	return n, err
}

// A redrive is one run of Redrive.
type redrive struct {
	system  *System
	options admin.RedriveOptions
	// believed tells whether the functions believe what the caller sends.
	believed bool
	// before holds what was put back in this run: it may come back at once.
	before map[string]bool
	info   admin.RedriveInfo
}

func (r *redrive) visit(ctx context.Context, q queue.Queue, d *queue.Delivery, refused record.Refused, err error) verdict {
	if r.options.Max > 0 && r.info.Redriven >= r.options.Max {
		r.info.Left++
		return stop
	}
	if r.options.Reason != "" && r.options.Reason != string(refused.Reason) {
		r.info.Left++
		return keep
	}
	name := nameOf(d, refused)
	if r.before[name] {
		r.info.Left++
		return keep
	}
	if err := r.putBack(ctx, d, refused, err); err != nil {
		r.info.Failed++
		r.system.options.Log.Warn("dead letter not redriven", "queue", q.Name(), "message_id", d.ID, "error", err)
		return keep
	}
	r.before[name] = true
	r.info.Redriven++
	return remove
}

// nameOf tells one dead letter from another across its ways through the queues, by its identity and its content.
func nameOf(d *queue.Delivery, r record.Refused) string {
	if r.Delivery != nil {
		return r.To + "\x00" + r.Delivery.Identity
	}
	if r.Message.Stream == "" && r.Message.ID == "" {
		return wire.MD5OfBody(d.Body)
	}
	return fmt.Sprintf("%s\x00%x", record.TokenText(r.Message.Principal, r.Message.Stream, r.Message.Identity()), r.Message.Fingerprint())
}

// putBack sends a dead letter to where it came from; nil means that the queue has it.
func (r *redrive) putBack(ctx context.Context, d *queue.Delivery, refused record.Refused, unreadable error) error {
	switch {
	case errors.Is(unreadable, wire.ErrTrigger):
		return r.trigger(ctx, d)
	case unreadable != nil:
		return fmt.Errorf("read dead letter: %w", unreadable)
	case refused.Delivery == nil && !r.believed && r.dependsOnTrust(refused):
		return ErrUntrusted
	}
	if err := r.system.queues.Redrive(ctx, refused); err != nil {
		return fmt.Errorf("send back: %w", Explain(err))
	}
	return nil
}

// trigger asks anew for what a trigger asked for.
func (r *redrive) trigger(ctx context.Context, d *queue.Delivery) error {
	t, err := wire.FromTrigger(events.SQSMessage{Body: d.Body})
	if err != nil {
		return fmt.Errorf("read dead letter: %w", err)
	}
	if err := r.system.queues.Trigger(ctx, []record.GroupKey{t.Group}, 0); err != nil {
		return fmt.Errorf("send back: %w", Explain(err))
	}
	return nil
}

// dependsOnTrust tells whether a message would be another one, or would count as new again, where what it says of itself is not believed: then it has no principal and
// no route, was accepted when it is sent, and is remembered for the default time.
func (r *redrive) dependsOnTrust(refused record.Refused) bool {
	m := refused.Message
	if m.Principal != "" || m.Route != "" {
		return true
	}
	if refused.Reason == record.ReasonExpired {
		return false // whoever redrives it has decided that it was not processed
	}
	stream, _ := r.system.engine.Stream(m.Stream)
	remembered := min(stream.RetentionOf(&m), record.DefaultRetention)
	return !r.system.options.Now().Before(m.Accepted.Add(remembered))
}
