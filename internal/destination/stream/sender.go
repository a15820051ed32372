// Package stream is a destination that is another stream of the same system. Each delivery becomes
// a message on the ingress queue, numbered by the group that sent it, so that a stream with
// sequence admission processes every effect once and in order without a token.
//
// # Identity
//
// Under key and token admission a message is identified by its id: the delivery's identity, an at
// sign, and the incarnation of the group that sent it, as in orders/eve/7@1763700000000. The
// incarnation is needed because a forgotten group numbers from 1 again, and the stream may remember
// its ids for longer. Under sequence admission the incarnation is the epoch, and the id is the
// identity alone.
//
// # Errors
//
// If the target stream would not accept a message (its body or headers are too large, a header name
// begins with once-), the effect is refused as invalid, also after a redrive. Under sequence
// admission its number is then missing at the target until the target's gap policy acts.
package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/record"
)

// ownPrincipal is the principal of these messages. No external sender can have it, because the HTTP
// API and the SQS endpoint refuse principals that start with a tilde.
const ownPrincipal = "~stream"

// errUnnumbered says that a delivery without a number was sent to a stream with sequence admission.
// Streams that send to such a stream have to keep a group record.
var errUnnumbered = errors.New("a stream with sequence admission takes no message without a number: its sender must keep a group record")

// A Queue accepts messages for the engine.
type Queue interface {
	// Enqueue puts messages on the ingress queue, durably no later than any write that the caller
	// makes afterwards, and returns an error for each. Messages of one group are put in their
	// order; after one that failed, no later one of its group is. Those of a numbered stream may be
	// put in any order. Repeating a message is harmless.
	Enqueue(ctx context.Context, messages []record.Message) []error
}

// An Issuer writes tokens, as dedup.Engine does. It may be called concurrently.
type Issuer interface {
	Issue(ctx context.Context, m record.Message) (token record.Token, fresh bool, err error)
}

// issuing is how many tokens of one Send are issued concurrently.
const issuing = 16

// A Sender sends to one stream.
type Sender struct {
	target    string
	stream    record.Stream // whose limit on bodies is used
	admission record.Admission
	queue     Queue
	issuer    Issuer
}

var _ record.Sender = (*Sender)(nil)

// New returns a sender to a stream; only the stream's name, admission and
// limit on bodies are used. The issuer is
// used under token admission only and may be nil otherwise.
func New(target record.Stream, queue Queue, issuer Issuer) (*Sender, error) {
	if err := record.ValidStream(target.Name); err != nil {
		return nil, fmt.Errorf("send to stream %q: %w", target.Name, err)
	}
	if target.Admission == record.ByToken && issuer == nil {
		return nil, fmt.Errorf("send to stream %s: token admission needs an issuer", target.Name)
	}
	return &Sender{target: target.Name, stream: target, admission: target.Admission, queue: queue, issuer: issuer}, nil
}

// Send issues tokens if the stream requires them, then enqueues. If the token of a delivery is
// done, it was processed before and is settled.
func (s *Sender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	messages := make([]record.Message, len(deliveries))
	fates := make([]fate, len(deliveries))
	for i := range deliveries {
		messages[i], fates[i].err = s.message(&deliveries[i])
	}
	if s.admission == record.ByToken {
		s.issue(ctx, messages, fates)
	}
	s.enqueue(ctx, deliveries, messages, fates)
	errs := make([]error, len(fates))
	for i, f := range fates {
		if errs[i] = f.err; f.err != nil && !isRefused(f.err) {
			errs[i] = fmt.Errorf("send to stream %s: %w", s.target, f.err)
		}
	}
	return errs
}

// A fate is the state of one delivery.
type fate struct {
	done bool // its token is done
	err  error
}

// message converts a delivery.
func (s *Sender) message(d *record.Delivery) (record.Message, error) {
	m := record.Message{
		Principal: ownPrincipal, Stream: s.target, ID: record.Fit(s.id(d)), Group: d.Target,
		Via: d.Effect.Via, ContentType: d.Effect.ContentType, Headers: d.Effect.Headers, Body: d.Effect.Body,
	}
	if d.Sequence > 0 {
		m.Source, m.Epoch, m.Sequence = record.Fit(d.Stream+"/"+d.Group), d.Incarnation, d.Sequence
		m.DependsOn = d.Effect.DependsOn
	} else if s.admission == record.BySequence {
		return m, errUnnumbered
	}
	if err := s.takes(&m); err != nil {
		return m, &record.RefusedError{Reason: record.ReasonInvalid, Detail: err.Error()}
	}
	return m, nil
}

// id returns an id that is the same for every copy of a delivery, but differs for the same number
// in another incarnation of the group. It does not have the form of a source, an epoch and a
// sequence: see [record.ParseNumber].
func (s *Sender) id(d *record.Delivery) string {
	if d.Number == 0 || s.admission == record.BySequence {
		return d.Identity
	}
	return d.Identity + "@" + strconv.FormatUint(d.Incarnation, 10)
}

// issue writes the tokens. Tokens have no order, so they are issued concurrently.
func (s *Sender) issue(ctx context.Context, messages []record.Message, fates []fate) {
	var g errgroup.Group
	g.SetLimit(issuing)
	for i := range messages {
		if fates[i].err != nil {
			continue
		}
		g.Go(func() error {
			token, _, err := s.issuer.Issue(ctx, messages[i])
			fates[i] = fate{done: err == nil && token.State == record.Done, err: err}
			return nil
		})
	}
	_ = g.Wait() // the errors are in fates
}

// enqueue puts the messages that are neither settled nor after a failure of their group, and then
// fails those that are after one.
func (s *Sender) enqueue(ctx context.Context, deliveries []record.Delivery, messages []record.Message, fates []fate) {
	stop(deliveries, fates)
	var put []record.Message
	var index []int
	for i := range messages {
		if !fates[i].done && fates[i].err == nil {
			put = append(put, messages[i])
			index = append(index, i)
		}
	}
	if len(put) == 0 {
		return
	}
	for k, err := range s.queue.Enqueue(ctx, put) {
		fates[index[k]].err = err
	}
	stop(deliveries, fates)
}

// stop fails the deliveries that follow a failed one of their group. A refused one is settled and
// stops nothing.
func stop(deliveries []record.Delivery, fates []fate) {
	failed := map[record.GroupKey]error{}
	for i := range deliveries {
		d := &deliveries[i]
		if d.Number == 0 {
			continue
		}
		key := record.GroupKey{Stream: d.Stream, Group: d.Group}
		if before := failed[key]; before != nil {
			if fates[i].err == nil {
				fates[i].err = fmt.Errorf("an earlier delivery of the group failed: %w", before)
			}
		} else if err := fates[i].err; err != nil && !isRefused(err) {
			failed[key] = err
		}
	}
}

func isRefused(err error) bool { return errors.As(err, new(*record.RefusedError)) }
