package dedup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// errNoDestination says that an effect names a destination that is not configured (any more); it waits for one.
var errNoDestination = errors.New("no such destination")

// Publish sends the pending effects of groups, marks their messages done and clears them, and tells for each group whether nothing is left.
// Any worker may publish any group any number of times.
func (e *Engine) Publish(ctx context.Context, groups []GroupKey) []error {
	return e.publishGroups(ctx, groups)
}

// A shipment is one delivery on its way to one destination.
type shipment struct {
	Delivery
	to     string
	number uint64 // of the pending entry
	effect int
	err    error
}

func (e *Engine) publishGroups(ctx context.Context, keys []GroupKey) []error {
	errs := make([]error, len(keys))
	groups, _, err := e.cfg.Store.Load(ctx, keys, nil)
	if err != nil {
		for i := range errs {
			errs[i] = fmt.Errorf("load groups: %w", err)
		}
		return errs
	}
	batches := make([][]*shipment, len(groups))
	var all []*shipment
	for i := range groups {
		batches[i], errs[i] = e.shipments(ctx, &groups[i])
		all = append(all, batches[i]...)
	}
	e.ship(ctx, all)
	clears := make([]Clear, len(groups))
	var marks []Token
	for i := range groups {
		var done []Token
		clears[i], done, err = e.published(&groups[i], batches[i])
		errs[i] = errors.Join(errs[i], err)
		marks = append(marks, done...)
	}
	if err := e.markDone(ctx, marks); err != nil { // never clear before done
		for i := range errs {
			errs[i] = errors.Join(errs[i], err)
		}
		return errs
	}
	for i, c := range clears {
		if len(c.Numbers)+len(c.Sent) > 0 {
			if err := e.cfg.Store.Clear(ctx, c); err != nil {
				errs[i] = errors.Join(errs[i], fmt.Errorf("clear group: %w", err))
			}
			e.observe(EventPublished, c.Group.Stream, len(c.Numbers))
		}
	}
	return errs
}

// shipments lists what is to be sent of a group, in number order. Blobs are published on the way; after one that fails nothing more of the group is sent.
func (e *Engine) shipments(ctx context.Context, g *Group) ([]*shipment, error) {
	var out []*shipment
	for _, p := range g.Pending {
		for i, f := range p.Effects {
			if f.Blob != nil {
				if e.cfg.Blobs == nil {
					return out, fmt.Errorf("publish blob: %w", errNoDestination)
				}
				if err := e.cfg.Blobs.Publish(ctx, *f.Blob); err != nil {
					return out, fmt.Errorf("publish blob: %w", err)
				}
			}
			for _, to := range f.To {
				if !p.sent(i, to) {
					out = append(out, g.shipment(p.Number, i, f, to))
				}
			}
		}
	}
	return out, nil
}

func (p *Pending) sent(effect int, to string) bool {
	for _, s := range p.Sent {
		if s.Effect == effect && s.To == to {
			return true
		}
	}
	return false
}

func (g *Group) shipment(number uint64, i int, f Effect, to string) *shipment {
	n := number + uint64(i) //nolint:gosec // an index
	return &shipment{
		to: to, number: number, effect: i,
		Delivery: Delivery{
			Identity: g.Key.String() + "/" + strconv.FormatUint(n, 10), Stream: g.Key.Stream, Group: g.Key.Group, Number: n, Incarnation: g.Incarnation,
			Sequence: f.Chain[to], Target: f.target(g.Key), Effect: f,
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

func (e *Engine) shipTo(ctx context.Context, sender Sender, list []*shipment) {
	deliveries := make([]Delivery, len(list))
	for i, s := range list {
		deliveries[i] = s.Delivery
	}
	for i, err := range sender.Send(ctx, deliveries) {
		var refused *RefusedError
		if errors.As(err, &refused) {
			d := deliveries[i]
			err = e.cfg.Queues.DeadLetter(ctx, []Refused{{Delivery: &d, To: list[i].to, Reason: refused.Reason, Detail: refused.Detail}})
		}
		if err != nil {
			list[i].err = fmt.Errorf("send to %s: %w", list[i].to, err)
		}
	}
}

// published tells what of a group is settled: the entries to clear, and the tokens to mark done before.
func (e *Engine) published(g *Group, list []*shipment) (Clear, []Token, error) {
	now := e.cfg.Now()
	c := Clear{Group: g.Key, Incarnation: g.Incarnation, Sent: map[uint64][]Sent{}, Expires: now.Add(e.groupRetention(g.Key.Stream))}
	sent := map[uint64]map[Sent]bool{}
	var errs []error
	for _, s := range list {
		if s.err != nil {
			errs = append(errs, s.err)
			continue
		}
		if sent[s.number] == nil {
			sent[s.number] = map[Sent]bool{}
		}
		sent[s.number][Sent{s.effect, s.to}] = true
	}
	var done []Token
	for i := range g.Pending {
		p := &g.Pending[i]
		switch open := p.unsent(sent[p.Number]); {
		case open == 0:
			c.Numbers = append(c.Numbers, p.Number)
			if p.Marks {
				done = append(done, p.done(g.Key, now))
			}
		case len(sent[p.Number]) > 0:
			for s := range sent[p.Number] {
				c.Sent[p.Number] = append(c.Sent[p.Number], s)
			}
		}
	}
	return c, done, errors.Join(errs...)
}

// unsent counts what of an entry is sent neither now nor before.
func (p *Pending) unsent(now map[Sent]bool) int {
	n := 0
	for i, f := range p.Effects {
		for _, to := range f.To {
			if !now[Sent{i, to}] && !p.sent(i, to) {
				n++
			}
		}
	}
	return n
}

func (e *Engine) groupRetention(stream string) time.Duration {
	if s, ok := e.streams[stream]; ok {
		return s.GroupRetention
	}
	return DefaultGroupRetention
}

// publishFirst makes room in a group record that is full.
func (e *Engine) publishFirst(ctx context.Context, p *part) error {
	if err := e.publishGroups(ctx, []GroupKey{p.key})[0]; err != nil {
		return fmt.Errorf("%w: %w", errFull, err)
	}
	return errReload
}

// Deliver sends one effect that was refused before, under its old identity.
func (e *Engine) Deliver(ctx context.Context, to string, d Delivery) error {
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
			*it.out = Outcome{Kind: Retry, Err: err}
		}
	}
	for _, it := range items {
		e.count(it.Stream, []*item{it})
	}
}

func (e *Engine) relayAll(ctx context.Context, items []*item) error {
	first := map[TokenKey]*item{}
	var keys []TokenKey
	for _, it := range items {
		if first[it.token] == nil {
			first[it.token] = it
			keys = append(keys, it.token)
		}
	}
	_, tokens, err := e.cfg.Store.Load(ctx, nil, keys)
	if err != nil {
		return fmt.Errorf("load tokens: %w", err)
	}
	var all []*shipment
	marks := make(map[*item]Token, len(keys))
	mine := make(map[*item][]*shipment, len(keys))
	for i, key := range keys {
		it := first[key]
		done, list := e.relayOne(ctx, it, tokens[i])
		if it.fate.Kind == Processed {
			marks[it], mine[it] = done, list
			all = append(all, list...)
		}
	}
	e.ship(ctx, all)
	var done []Token
	for it, token := range marks {
		for _, s := range mine[it] {
			if s.err != nil {
				it.fate = Outcome{Kind: Retry, Err: s.err}
			}
		}
		if it.fate.Kind == Processed {
			done = append(done, token)
		}
	}
	if err := e.markDone(ctx, done); err != nil {
		return err
	}
	for _, it := range items {
		*it.out = follow(it, first[it.token])
	}
	return nil
}

// follow is the fate of a message beside the first one of its identity in the batch.
func follow(it, first *item) Outcome {
	switch {
	case it == first || first.fate.Kind == Retry:
		return first.fate
	case it.fingerprint != first.fingerprint:
		return keyReuse()
	case first.fate.Kind == Processed:
		return Outcome{Kind: Duplicate, Reply: first.fate.Reply}
	default:
		return first.fate
	}
}

// relayOne admits and runs one message; its effects are not sent yet.
func (e *Engine) relayOne(ctx context.Context, it *item, t Token) (Token, []*shipment) {
	s := e.streams[it.Stream]
	now := e.cfg.Now()
	fate, fresh := admit(s, it, t, now)
	if !fresh {
		it.fate = fate
		return Token{}, nil
	}
	a := &Attempt{ID: e.cfg.NewID()}
	pl := &plan{Engine: e}
	if err := run(ctx, s.Handler, a, it.Message); err != nil {
		it.fate = pl.failure(it, err)
		return Token{}, nil
	}
	if err := e.feasible(a); err != nil {
		it.fate = pl.failure(it, err)
		return Token{}, nil
	}
	if len(a.blobs) > 0 || a.State != nil {
		it.fate = Outcome{Err: &HandlerError{Err: errors.New("a stateless handler can keep neither state nor blobs")}}
		return Token{}, nil
	}
	var list []*shipment
	for i, f := range a.effects {
		for _, to := range f.To {
			list = append(list, &shipment{to: to, Delivery: Delivery{
				Identity: it.relayIdentity(i), Stream: it.Stream, Group: it.Group, Target: f.target(it.GroupKey()), Effect: f, Retention: s.retention(&it.Message),
			}})
		}
	}
	it.fate = Outcome{Kind: Processed, Reply: a.reply}
	p := Pending{Token: it.token, Fingerprint: it.fingerprint, Attempt: a.ID, Reply: a.reply, Retention: s.retention(&it.Message)}
	return p.done(it.GroupKey(), now), list
}

// relayIdentity is stream/id for the first effect of a message without a group record. Slashes in the id are escaped: stream/group/number belongs to the others.
func (it *item) relayIdentity(i int) string {
	escape := strings.NewReplacer("%", "%25", "/", "%2F", "@", "%40")
	identity := it.Stream + "/" + escape.Replace(it.identity)
	if it.Principal != "" || i > 0 {
		identity += "@" + escape.Replace(it.Principal)
	}
	if i > 0 {
		identity += "@" + strconv.Itoa(i+1)
	}
	return identity
}
