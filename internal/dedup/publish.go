package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/effectively-once/once/internal/record"
)

// errNoDestination says that an effect names a destination that is not configured (any more); it waits for one.
var errNoDestination = errors.New("no such destination")

var errNoAnswer = errors.New("the destination did not answer for each delivery")

// Publish sends the pending effects of groups, marks their messages done and clears them, and tells for each group whether nothing is left.
// Any worker may publish any group any number of times.
func (e *Engine) Publish(ctx context.Context, groups []record.GroupKey) []error {
	byKey := make(map[record.GroupKey]error, len(groups))
	var keys []record.GroupKey
	for _, key := range groups {
		if _, twice := byKey[key]; !twice {
			byKey[key] = nil
			keys = append(keys, key)
		}
	}
	for i, err := range e.publishGroups(ctx, keys) {
		byKey[keys[i]] = err
	}
	errs := make([]error, len(groups))
	for i, key := range groups {
		errs[i] = byKey[key]
	}
	return errs
}

// A shipment is one delivery on its way to one destination.
type shipment struct {
	record.Delivery
	to     string
	number uint64 // of the pending entry
	effect int
	err    error
}

// A publication is one group on its way to its destinations.
type publication struct {
	group record.Group
	list  []*shipment
	clear record.Clear
	stop  uint64 // a blob of this entry failed: what it and later ones hold is not published; 0 for none
	err   error
}

func (e *Engine) publishGroups(ctx context.Context, keys []record.GroupKey) []error {
	groups, _, err := e.cfg.Store.Load(ctx, keys, nil)
	if err != nil {
		errs := make([]error, len(keys))
		for i := range errs {
			errs[i] = fmt.Errorf("load groups: %w", err)
		}
		return errs
	}
	publications := make([]*publication, len(groups))
	var all []*shipment
	for i, g := range groups {
		publications[i] = &publication{group: g}
		e.prepare(ctx, publications[i])
		all = append(all, publications[i].list...)
	}
	e.ship(ctx, all)
	return e.finish(ctx, publications)
}

// finish marks the messages of what is published done, and then clears it: never the other way round.
func (e *Engine) finish(ctx context.Context, publications []*publication) []error {
	var marks []record.Token
	for _, pub := range publications {
		marks = append(marks, e.published(pub)...)
	}
	marked := e.markDone(ctx, marks)
	errs := make([]error, len(publications))
	for i, pub := range publications {
		err := marked
		if err == nil {
			err = e.clear(ctx, pub)
		}
		errs[i] = errors.Join(pub.err, err)
	}
	return errs
}

func (e *Engine) clear(ctx context.Context, pub *publication) error {
	c := pub.clear
	if len(c.Numbers)+len(c.Sent) == 0 && !pub.group.Endless() {
		return nil
	}
	if err := e.cfg.Store.Clear(ctx, c); err != nil {
		return fmt.Errorf("clear group: %w", err)
	}
	e.observe(record.EventPublished, c.Group.Stream, len(c.Numbers))
	return nil
}

// prepare lists what is to be sent of a group, in number order. Blobs are published on the way; after one that fails nothing more of the group is sent.
func (e *Engine) prepare(ctx context.Context, pub *publication) {
	for _, p := range pub.group.Pending {
		for i, f := range p.Effects {
			if err := e.publishBlob(ctx, f.Blob); err != nil {
				pub.stop, pub.err = p.Number, fmt.Errorf("publish blob: %w", err)
				return
			}
			for _, to := range f.To {
				if !slices.Contains(p.Sent, record.Sent{Effect: i, To: to}) {
					pub.list = append(pub.list, newShipment(&pub.group, p.Number, i, f, to))
				}
			}
		}
	}
}

func (e *Engine) publishBlob(ctx context.Context, b *record.Blob) error {
	switch {
	case b == nil:
		return nil
	case e.cfg.Blobs == nil:
		return errNoDestination
	default:
		return e.cfg.Blobs.Publish(ctx, *b)
	}
}

func newShipment(g *record.Group, number uint64, i int, f record.Effect, to string) *shipment {
	n := number + uint64(i) //nolint:gosec // an index
	return &shipment{
		to: to, number: number, effect: i,
		Delivery: record.Delivery{
			Identity: g.Key.String() + "/" + strconv.FormatUint(n, 10), Stream: g.Key.Stream, Group: g.Key.Group, Number: n, Incarnation: g.Incarnation,
			Sequence: f.Chain[to], Target: f.Target(g.Key), Effect: f,
		},
	}
}

// ship sends to all destinations at once, in order to each, and notes each shipment's error.
func (e *Engine) ship(ctx context.Context, all []*shipment) {
	byDestination := map[string][]*shipment{}
	for _, s := range all {
		byDestination[s.to] = append(byDestination[s.to], s)
	}
	var wg sync.WaitGroup
	for to, list := range byDestination {
		sender, ok := e.cfg.Senders[to]
		if !ok {
			for _, s := range list {
				s.err = fmt.Errorf("send to %s: %w", to, errNoDestination)
			}
			continue
		}
		if len(byDestination) == 1 {
			e.shipTo(ctx, sender, list)
			continue
		}
		wg.Go(func() { e.shipTo(ctx, sender, list) })
	}
	wg.Wait()
}

func (e *Engine) shipTo(ctx context.Context, sender record.Sender, list []*shipment) {
	deliveries := make([]record.Delivery, len(list))
	for i, s := range list {
		deliveries[i] = s.Delivery
	}
	errs := sender.Send(ctx, deliveries)
	for i := range list {
		err := errNoAnswer
		if len(errs) == len(list) {
			err = errs[i]
		}
		if refused, ok := errors.AsType[*record.RefusedError](err); ok {
			d := deliveries[i]
			err = e.cfg.Queues.DeadLetter(ctx, []record.Refused{{Delivery: &d, To: list[i].to, Reason: refused.Reason, Detail: refused.Detail}})
		}
		if err != nil {
			list[i].err = fmt.Errorf("send to %s: %w", list[i].to, err)
		}
	}
}

// published works out what of a group is settled: the entries to clear, and the tokens to mark done before.
func (e *Engine) published(pub *publication) []record.Token {
	now, g := e.cfg.Now(), &pub.group
	c := record.Clear{Group: g.Key, Incarnation: g.Incarnation, Sent: map[uint64][]record.Sent{}, Expires: now.Add(e.streams.GroupRetention(g.Key.Stream))}
	for _, s := range pub.list {
		if s.err != nil {
			pub.err = errors.Join(pub.err, s.err)
			continue
		}
		c.Sent[s.number] = append(c.Sent[s.number], record.Sent{Effect: s.effect, To: s.to})
	}
	var done []record.Token
	for i := range g.Pending {
		p := &g.Pending[i]
		stopped := pub.stop != 0 && p.Number >= pub.stop && len(p.Effects) > 0
		if stopped || p.Unsent(c.Sent[p.Number]) {
			continue
		}
		delete(c.Sent, p.Number)
		c.Numbers = append(c.Numbers, p.Number)
		if p.Marks {
			done = append(done, p.DoneToken(g.Key, now))
		}
	}
	pub.clear = c
	return done
}

// publishFirst makes room in a group record that is full, and looks at it anew.
func (e *Engine) publishFirst(ctx context.Context, p *part) error {
	if err := e.publishGroups(ctx, []record.GroupKey{p.key})[0]; err != nil {
		return fmt.Errorf("%w: %w", errFull, err)
	}
	return e.load(ctx, []*part{p})
}

// Deliver sends one effect that was refused before, under its old identity.
func (e *Engine) Deliver(ctx context.Context, to string, d record.Delivery) error {
	s := &shipment{Delivery: d, to: to}
	e.ship(ctx, []*shipment{s})
	return s.err
}

// relay forwards messages that need no group record: token, effects under the message's own identity, done.
func (e *Engine) relay(ctx context.Context, items []*item) {
	if len(items) == 0 {
		return
	}
	if err := e.relayAll(ctx, items); err != nil {
		for _, it := range items {
			*it.out = record.Outcome{Kind: record.Retry, Err: err}
		}
	}
	for _, it := range items {
		e.count(it.Stream, []*item{it})
	}
}

func (e *Engine) relayAll(ctx context.Context, items []*item) error {
	tokens, err := e.relayTokens(ctx, items)
	if err != nil {
		return err
	}
	first := map[record.TokenKey]*relayed{} // the one that stands for its identity in this batch
	var all []*shipment
	for _, it := range items {
		s := e.streams[it.Stream]
		var fresh bool
		if it.fate, fresh = admit(s, it, tokens[it.token()], e.cfg.Now()); !fresh || first[it.token()] != nil {
			continue
		}
		r := e.relayOne(ctx, s, it)
		first[it.token()] = r
		all = append(all, r.list...)
	}
	e.ship(ctx, all)
	var done []record.Token
	for _, it := range items {
		if r := first[it.token()]; r != nil && r.item == it && r.settled() {
			done = append(done, r.done)
		}
	}
	if err := e.markDone(ctx, done); err != nil {
		return err
	}
	for _, it := range items {
		if *it.out = it.fate; it.open() {
			*it.out = first[it.token()].follow(it)
		}
	}
	return nil
}

func (e *Engine) relayTokens(ctx context.Context, items []*item) (map[record.TokenKey]record.Token, error) {
	byKey := make(map[record.TokenKey]record.Token, len(items))
	var keys []record.TokenKey
	for _, it := range items {
		if _, asked := byKey[it.token()]; !asked {
			byKey[it.token()] = record.Token{}
			keys = append(keys, it.token())
		}
	}
	_, tokens, err := e.cfg.Store.Load(ctx, nil, keys)
	if err != nil {
		return nil, fmt.Errorf("load tokens: %w", err)
	}
	for _, t := range tokens {
		byKey[t.Key] = t
	}
	return byKey, nil
}

// relayed is one message that was run without a group record.
type relayed struct {
	*item
	list []*shipment
	done record.Token // to be written once all of list is sent
}

// settled reports whether the message is processed, now that its effects were sent.
func (r *relayed) settled() bool {
	for _, s := range r.list {
		if s.err != nil {
			r.fate = record.Outcome{Err: s.err}
		}
	}
	return r.fate.Kind == record.Processed
}

// follow is the fate of another message of the same identity in the batch.
func (r *relayed) follow(it *item) record.Outcome {
	same := it.print() == r.print()
	switch {
	case r.fate.Kind == record.Processed && same:
		return record.Outcome{Kind: record.Duplicate, Reply: r.fate.Reply}
	case r.fate.Kind == record.Processed:
		return keyReuse()
	case r.fate.Kind == record.Rejected && same:
		return r.fate
	default:
		return record.Outcome{Err: errBlocked} // it has a turn of its own, later
	}
}

// relayOne runs one new message; its effects are not sent yet.
func (e *Engine) relayOne(ctx context.Context, s record.Stream, it *item) *relayed {
	r := &relayed{item: it}
	if err := context.Cause(ctx); err != nil {
		it.fate = record.Outcome{Err: fmt.Errorf("run handler: %w", err)}
		return r
	}
	a := &record.Attempt{ID: e.cfg.NewID()}
	err := s.Handler.Run(ctx, a, it.Message)
	effects := a.Effects()
	if err == nil {
		err = e.feasible(effects)
	}
	if err == nil && (a.State != nil || slices.ContainsFunc(effects, func(f record.Effect) bool { return f.Blob != nil })) {
		err = errors.New("a stateless handler can keep neither state nor blobs")
	}
	if err != nil {
		it.fate = e.failure(it, err)
		return r
	}
	for i, f := range effects {
		for _, to := range f.To {
			r.list = append(r.list, &shipment{to: to, Delivery: record.Delivery{
				Identity: it.relayIdentity(i), Stream: it.Stream, Group: it.Group, Target: f.Target(it.GroupKey()), Effect: f, Retention: s.RetentionOf(&it.Message),
			}})
		}
	}
	it.fate = record.Outcome{Kind: record.Processed, Reply: a.Answer()}
	p := record.Pending{Token: it.token(), Fingerprint: it.print(), Attempt: a.ID, Reply: a.Answer(), Retention: s.RetentionOf(&it.Message)}
	r.done = p.DoneToken(it.GroupKey(), e.cfg.Now())
	return r
}

// relayIdentity is stream/id for the first effect of a message without a group record. Slashes in the id are escaped: stream/group/number belongs to the others.
func (it *item) relayIdentity(i int) string {
	escape := strings.NewReplacer("%", "%25", "/", "%2F", "@", "%40")
	identity := it.Stream + "/" + escape.Replace(it.identity())
	if it.Principal != "" || i > 0 {
		identity += "@" + escape.Replace(it.Principal)
	}
	if i > 0 {
		identity += "@" + strconv.Itoa(i+1)
	}
	return identity
}
