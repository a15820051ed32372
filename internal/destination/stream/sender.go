// Package stream is a destination that is another stream of the same system: each delivery becomes a message on the ingress queue,
// numbered by the group that sent it, so that a stream with sequence admission takes every effect once and in order without a token.
//
// # Identity
//
// Elsewhere a message is known by its id: the delivery's identity and, behind an at sign, the incarnation of the group that sent it, as in orders/eve/7@1763700000000.
// A group that was forgotten numbers from 1 again, and the stream may remember its ids for longer. Under sequence admission the incarnation is the epoch, and the id the identity alone.
//
// # Errors
//
// A message that the target would not take (a body or headers that are too large, a header whose name begins with once-) is refused as invalid. It stays so when
// it is redriven: under sequence admission its number is missing at the target until the target's gap policy acts.
package stream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/record"
)

// Principal is whose messages these are. No sender outside can be it: front doors refuse principals that start with a tilde.
const Principal = "~stream"

// ErrUnnumbered says that a delivery without a number is on its way to a stream that admits by numbers. Streams that
// feed such a stream have to keep a group record.
var ErrUnnumbered = errors.New("a stream with sequence admission takes no message without a number: its sender must keep a group record")

// A Queue takes messages for the engine.
type Queue interface {
	// Enqueue puts messages on the ingress queue, durably no later than any write that the caller makes afterwards, and gives an
	// error for each. Messages of one group are put in their order, and after one that failed no later one of its group. Repeating a
	// message is harmless.
	Enqueue(ctx context.Context, messages []record.Message) []error
}

// An Issuer writes tokens, as dedup.Engine does. It may be called concurrently.
type Issuer interface {
	Issue(ctx context.Context, m record.Message) (token record.Token, fresh bool, err error)
}

// issuing is how many tokens of one Send are issued at once.
const issuing = 16

// A Sender sends to one stream.
type Sender struct {
	target    string
	admission record.Admission
	queue     Queue
	issuer    Issuer
}

var _ record.Sender = (*Sender)(nil)

// New makes a sender to a stream, of which only name and admission matter. The issuer is used under token admission only and may be nil otherwise.
func New(target record.Stream, queue Queue, issuer Issuer) (*Sender, error) {
	if err := record.ValidStream(target.Name); err != nil {
		return nil, fmt.Errorf("send to stream %q: %w", target.Name, err)
	}
	if target.Admission == record.ByToken && issuer == nil {
		return nil, fmt.Errorf("send to stream %s: token admission needs an issuer", target.Name)
	}
	return &Sender{target: target.Name, admission: target.Admission, queue: queue, issuer: issuer}, nil
}

// Send issues tokens where the stream wants them, then enqueues. A delivery whose token is done already was processed before and is settled.
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

// A fate is what is known of one delivery so far.
type fate struct {
	done bool // its token says so
	err  error
}

// message translates a delivery.
func (s *Sender) message(d *record.Delivery) (record.Message, error) {
	m := record.Message{
		Principal: Principal, Stream: s.target, ID: fit(s.id(d)), Group: d.Target,
		ContentType: d.Effect.ContentType, Headers: d.Effect.Headers, Body: d.Effect.Body,
	}
	if d.Sequence > 0 {
		m.Source, m.Epoch, m.Sequence = fit(d.Stream+"/"+d.Group), d.Incarnation, d.Sequence
	} else if s.admission == record.BySequence {
		return m, ErrUnnumbered
	}
	if err := takes(&m); err != nil {
		return m, &record.RefusedError{Reason: record.ReasonInvalid, Detail: err.Error()}
	}
	return m, nil
}

// id is the same for one delivery, however often it is sent, and another for one of the same number of a group that began anew. It does not look like a source, an epoch
// and a sequence: see [record.ParseNumber].
func (s *Sender) id(d *record.Delivery) string {
	if d.Number == 0 || s.admission == record.BySequence {
		return d.Identity
	}
	return d.Identity + "@" + strconv.FormatUint(d.Incarnation, 10)
}

// issue writes the tokens. Tokens carry no order, so the groups' order does not matter here.
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

// enqueue puts what is neither settled nor behind a failure of its group, and then fails what is behind one.
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

// stop fails the deliveries that follow a failed one of their group. A refused one is settled and stops nothing.
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

// fit makes a name short enough for a message, and keeps different names different: one that is too long, or that looks as if it
// had been, is cut and gets the hash of all of it.
func fit(name string) string {
	const digits = 2 * sha256.Size
	tail := len(name) - digits - 1
	if len(name) <= record.MaxName && (tail < 0 || name[tail] != '~' || strings.Trim(name[tail+1:], "0123456789abcdef") != "") {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	cut := min(len(name), record.MaxName-digits-1)
	for cut > 0 && cut < len(name) && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "~" + hex.EncodeToString(hash[:])
}
