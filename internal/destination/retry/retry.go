// Package retry sends to a destination by its retry policy: it keeps the pauses between tries, and
// ends the tries of a delivery that the destination does not take.
//
// Every failed try is counted, by delivery, in memory. Until the pause after a failed try is over,
// each Send of the delivery, and of those behind it in its group, fails with a [record.LaterError]
// without a try. A delivery becomes undeliverable, which is a [record.RefusedError], when the time
// of the policy is over since its commit and this process has seen enough failures: after a long
// outage, a backlog is older than the policy allows when its first try begins. The deliveries
// behind it fail with [record.ErrBlocked]: the caller sends them when it has written the dead
// letter.
//
// # Limits
//
// After a restart, and in each further process, counting starts again. The pauses then continue as
// long as the queue's count of receives says, see [WithReceives].
package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// maxTracked is the number of failing deliveries that a sender keeps. Beyond it, each new one
// replaces any other, which then counts as never tried.
const maxTracked = 100_000

// Options configure a sender. Zero fields take the defaults in their comments.
type Options struct {
	// Policy takes the defaults of [record.EffectRetry] for its zero fields.
	Policy record.RetryPolicy
	// MinTries is how often a delivery is tried at least, by one process, before it is
	// undeliverable. After twice the time of the policy, or [record.LastChance] if that is earlier,
	// one try is enough. Defaults to [record.MinTries].
	MinTries int
	// Failed is called after every failed try. It must not block. Defaults to nothing.
	Failed func(Try)
	// Settled is called when a delivery that failed before is sent, refused or forgotten. If it is
	// forgotten, it has no Effect. It must not block. Defaults to nothing.
	Settled func(d *record.Delivery)
	// Random returns a number in [0, n). Defaults to [rand.Int64N].
	Random func(n int64) int64
	// Now defaults to time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Policy = o.Policy.Or(record.EffectRetry())
	o.MinTries = cmp.Or(o.MinTries, record.MinTries)
	if o.Failed == nil {
		o.Failed = func(Try) {}
	}
	if o.Settled == nil {
		o.Settled = func(*record.Delivery) {}
	}
	if o.Random == nil {
		o.Random = rand.Int64N
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// A Try is a failed try of a delivery.
type Try struct {
	Delivery *record.Delivery
	// Number is how often this process has tried. If the sender did not try this time, Err wraps
	// [record.ErrUntried], and Number does not count it.
	Number int
	Err    error
	At     time.Time
	// Next is when the delivery is tried again; zero if it is undeliverable.
	Next time.Time
}

// Status returns the HTTP status of the answer, or 0 if there was none.
func (t *Try) Status() int {
	if answer, ok := errors.AsType[*record.AnswerError](t.Err); ok {
		return answer.Status
	}
	return 0
}

// A Sender sends by a retry policy.
type Sender struct {
	mu       sync.Mutex
	inner    record.Sender
	replaced int // how often inner was replaced
	options  Options
	waits    map[name]*wait
}

// A name is the identity of a delivery.
type name struct {
	identity    string
	incarnation uint64
}

func nameOf(d *record.Delivery) name { return name{d.Identity, d.Incarnation} }

// A wait is a delivery that failed.
type wait struct {
	tries  int
	pauses int // the tries, and the times that the sender did not try
	since  time.Time
	next   time.Time
	err    error
	busy   bool // being tried now
}

var _ record.Sender = (*Sender)(nil)

// New returns a sender that sends by inner.
func New(inner record.Sender, options Options) *Sender {
	return &Sender{inner: inner, options: options.withDefaults(), waits: map[name]*wait{}}
}

type receivesKey struct{}

// WithReceives returns a context with the queue's count of receives of the triggers of groups. It
// stands for the tries that other processes made.
func WithReceives(ctx context.Context, receives map[record.GroupKey]int) context.Context {
	return context.WithValue(ctx, receivesKey{}, receives)
}

func receivesOf(ctx context.Context, key record.GroupKey) int {
	receives, _ := ctx.Value(receivesKey{}).(map[record.GroupKey]int)
	return receives[key]
}

var errNoAnswer = errors.New("the destination did not answer for each delivery")

// Send sends the deliveries whose pauses are over. See [record.Sender].
func (s *Sender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	list, index := s.due(deliveries, errs)
	if len(list) == 0 {
		return errs
	}
	defer s.finish(list)
	inner, replaced := s.current()
	results := inner.Send(ctx, list)
	begun, stopped := map[record.GroupKey]bool{}, map[record.GroupKey]bool{}
	for k, i := range index {
		d, key, err := &deliveries[i], keyOf(&deliveries[i]), errNoAnswer
		if len(results) == len(list) {
			err = results[k]
		}
		switch {
		case err == nil, isRefused(err):
			s.settle(d)
			errs[i] = err
		case d.Number > 0 && stopped[key]:
			errs[i] = record.ErrBlocked
		default:
			receives := 0
			if !begun[key] {
				receives = receivesOf(ctx, key)
			}
			errs[i] = s.failed(ctx, d, receives, replaced, err)
			stopped[key] = stopped[key] || d.Number > 0
		}
		begun[key] = true
	}
	return errs
}

// current returns the sender to send by, and how often it was replaced before.
func (s *Sender) current() (inner record.Sender, replaced int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner, s.replaced
}

// Replace sends by another sender and policy from now on. Failed tries still count. The pauses
// after them end, also of tries that are under way: the new sender may succeed where the old one
// failed.
func (s *Sender) Replace(inner record.Sender, policy record.RetryPolicy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inner, s.options.Policy = inner, policy.Or(record.EffectRetry())
	s.replaced++
	s.hasten()
}

func keyOf(d *record.Delivery) record.GroupKey {
	return record.GroupKey{Stream: d.Stream, Group: d.Group}
}

// due returns the deliveries to be sent now, with their indexes. The others get their errors.
func (s *Sender) due(deliveries []record.Delivery, errs []error) (list []record.Delivery, index []int) {
	now := s.options.Now()
	stopped := map[record.GroupKey]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	index = make([]int, 0, len(deliveries))
	for i := range deliveries {
		d, key := &deliveries[i], keyOf(&deliveries[i])
		if d.Number > 0 && stopped[key] {
			errs[i] = record.ErrBlocked
			continue
		}
		if w := s.waits[nameOf(d)]; w != nil {
			if w.busy || now.Before(w.next) {
				at := w.next
				if w.busy { // by another call, which sets the next time
					at = now.Add(s.options.Policy.Pause(w.pauses, s.options.Random))
				}
				errs[i] = &record.LaterError{At: at, Err: w.err}
				stopped[key] = stopped[key] || d.Number > 0
				continue
			}
			w.busy = true
		}
		index = append(index, i)
	}
	if len(index) == len(deliveries) {
		return deliveries, index
	}
	for _, i := range index {
		list = append(list, deliveries[i])
	}
	return list, index
}

// finish ends a call of inner.
func (s *Sender) finish(list []record.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		if w := s.waits[nameOf(&list[i])]; w != nil {
			w.busy = false
		}
	}
}

// failed notes a failed delivery, and returns the error to report: it is to be tried later, or
// undeliverable. If the caller's time is over, the destination may be fine, and nothing is noted.
func (s *Sender) failed(ctx context.Context, d *record.Delivery, receives, replaced int, err error) error {
	if ctx.Err() != nil {
		return err
	}
	try := s.note(d, receives, replaced, err)
	s.options.Failed(try)
	if try.Next.IsZero() {
		s.options.Settled(d)
		return &record.RefusedError{Reason: record.ReasonUndeliverable, Detail: detail(try.Err)}
	}
	return &record.LaterError{At: try.Next, Err: err}
}

func (s *Sender) note(d *record.Delivery, receives, replaced int, err error) Try {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	w := s.waits[nameOf(d)]
	if w == nil {
		if len(s.waits) >= maxTracked {
			for other := range s.waits {
				delete(s.waits, other)
				break
			}
		}
		w = &wait{since: now}
		s.waits[nameOf(d)] = w
	}
	w.pauses++
	tried := !errors.Is(err, record.ErrUntried)
	if tried {
		w.tries++
	}
	if tried || w.err == nil {
		w.err = err
	}
	try := Try{Delivery: d, Number: w.tries, Err: err, At: now}
	if !d.Committed.IsZero() {
		w.since = d.Committed
	}
	age := now.Sub(w.since)
	if tried && s.over(age, w.tries) {
		delete(s.waits, nameOf(d))
		return try
	}
	n := w.pauses
	if age < s.options.Policy.For { // after it, the last tries follow each other sooner
		n = max(n, receives)
	}
	if w.next = now; replaced == s.replaced {
		w.next = now.Add(s.options.Policy.Pause(n, s.options.Random))
	}
	try.Next = w.next
	return try
}

// over reports whether a delivery of an age that this process has tried so often is undeliverable.
func (s *Sender) over(age time.Duration, tries int) bool {
	long := s.options.Policy.For
	return age >= long && tries >= s.options.MinTries || age >= min(2*long, record.LastChance)
}

// settle forgets a delivery that was sent or refused.
func (s *Sender) settle(d *record.Delivery) {
	s.mu.Lock()
	_, failed := s.waits[nameOf(d)]
	delete(s.waits, nameOf(d))
	s.mu.Unlock()
	if failed {
		s.options.Settled(d)
	}
}

// Forget forgets a failed delivery, by its identity, as if it had been sent.
func (s *Sender) Forget(d *record.Delivery) {
	s.mu.Lock()
	failed := false
	for n := range s.waits {
		if n.identity == d.Identity {
			failed = true
			delete(s.waits, n)
		}
	}
	s.mu.Unlock()
	if failed {
		s.options.Settled(d)
	}
}

// Hasten ends all pauses: an operator asks for a try now.
func (s *Sender) Hasten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasten()
}

// hasten is Hasten for a caller that holds the lock.
func (s *Sender) hasten() {
	for _, w := range s.waits {
		w.next = time.Time{}
	}
}

func isRefused(err error) bool { return errors.As(err, new(*record.RefusedError)) }

// detail describes the last error of an undeliverable effect: all that is kept of the answer, or
// the text of the error.
func detail(err error) string {
	if answer, ok := errors.AsType[*record.AnswerError](err); ok {
		return answer.Detail()
	}
	return strings.TrimSpace(fmt.Sprint(err))
}
