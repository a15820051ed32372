package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Config configures a publisher. All fields but Numbered, Restores, Large, CheckDelay and
// Blobs are required.
type Config struct {
	Streams record.Streams
	Store   record.Store
	Queues  record.Queues
	// Senders are the destinations, by name.
	Senders map[string]record.Sender
	// Numbered names the destinations that take no effect without a number.
	Numbered map[string]bool
	// Restores are those of the engine.
	Restores record.Restores
	// Large is that of the engine.
	Large bool
	// CheckDelay is that of the engine.
	CheckDelay func(*record.Delayed) error
	// Blobs may be nil if no handler makes blobs.
	Blobs   record.Blobs
	Now     func() time.Time
	Observe func(record.Event)
}

// A Publisher sends pending effects. It keeps nothing in memory between calls, so any number of
// publishers may share a store.
type Publisher struct{ cfg Config }

// New returns a publisher. It does no input or output.
func New(cfg Config) *Publisher { return &Publisher{cfg} }

// Publish sends the pending effects of groups, marks their messages done and clears them. It
// returns an error for each group, nil if nothing of it is left to publish. Any worker may publish
// any group any number of times.
func (p *Publisher) Publish(ctx context.Context, groups []record.GroupKey) []error {
	byKey := make(map[record.GroupKey]error, len(groups))
	var keys []record.GroupKey
	for _, key := range groups {
		if _, twice := byKey[key]; !twice {
			byKey[key] = nil
			keys = append(keys, key)
		}
	}
	for i, err := range p.publishGroups(ctx, keys) {
		byKey[keys[i]] = err
	}
	errs := make([]error, len(groups))
	for i, key := range groups {
		errs[i] = byKey[key]
	}
	return errs
}

// A publication is one group that is being published.
type publication struct {
	group   record.Group
	entries []record.Pending // those of the group that are to be settled
	list    []*Shipment
	clear   record.Clear
	sent    map[uint64][]record.Sent // sent by this call, by entry number
	// The number of an entry whose blob failed, or 0. The effects of this and later entries are not
	// published.
	stop uint64
	err  error
}

func newPublication(g record.Group) *publication {
	return &publication{group: g, entries: g.Pending}
}

func (p *Publisher) publishGroups(ctx context.Context, keys []record.GroupKey) []error {
	groups, _, err := p.cfg.Store.Load(ctx, keys, nil)
	if err != nil {
		errs := make([]error, len(keys))
		for i := range errs {
			// load each alone, so that one corrupt record does not block the others
			if errs[i] = fmt.Errorf("load groups: %w", err); errors.Is(err, record.ErrCorrupt) && len(keys) > 1 {
				errs[i] = p.publishGroups(ctx, keys[i:i+1])[0]
			}
		}
		return errs
	}
	return p.PublishViews(ctx, groups)
}

// PublishViews is Publish for groups as their caller has just loaded or committed them. No group is
// there twice. If another worker has published effects since then, they are sent again, under the
// same identities.
func (p *Publisher) PublishViews(ctx context.Context, groups []record.Group) []error {
	publications := make([]*publication, len(groups))
	var all []*Shipment
	for i, g := range groups {
		publications[i] = newPublication(g)
		p.prepare(ctx, publications[i])
		all = append(all, publications[i].list...)
	}
	p.Ship(ctx, all)
	grace, cancel := WithGrace(ctx)
	defer cancel()
	return p.finish(grace, publications)
}

// prepare lists the shipments of a group, in number order, and publishes blobs on the way. After a
// blob that fails, nothing more of the group is sent.
func (p *Publisher) prepare(ctx context.Context, pub *publication) {
	for at := range pub.entries {
		entry := &pub.entries[at]
		for i := range entry.Effects {
			if err := p.publishBlob(ctx, entry.Effects[i].Blob); err != nil {
				pub.stop, pub.err = entry.Number, fmt.Errorf("publish blob: %w", err)
				return
			}
			shipments, err := p.newShipments(&pub.group, entry, i)
			if err != nil {
				pub.stop, pub.err = entry.Number, err
				return
			}
			pub.list = append(pub.list, shipments...)
		}
	}
}

func (p *Publisher) publishBlob(ctx context.Context, b *record.Blob) error {
	switch {
	case b == nil:
		return nil
	case p.cfg.Blobs == nil:
		return errNoDestination
	default:
		return p.cfg.Blobs.Publish(ctx, *b)
	}
}

// finish marks the messages of published effects done, and then clears them. Never the other way
// round: after a crash between the two, nothing would prove that the message was committed.
func (p *Publisher) finish(ctx context.Context, publications []*publication) []error {
	each := make([][]record.Token, len(publications))
	for i, pub := range publications {
		each[i] = p.published(pub)
	}
	all := p.MarkDone(ctx, slices.Concat(each...))
	errs := make([]error, len(publications))
	for i, pub := range publications {
		marked := all
		// mark each group alone, so that one token does not block the others
		if all != nil && len(publications) > 1 {
			marked = p.MarkDone(ctx, each[i])
		}
		if marked != nil { // at least record the sends, which must not be repeated
			pub.clear.Numbers, pub.clear.Done, pub.clear.Sent = nil, nil, pub.sent
		}
		errs[i] = errors.Join(pub.err, marked, p.clear(ctx, pub))
	}
	return errs
}

// published determines which entries of a group are settled, to be cleared, and returns their
// tokens, which have to be marked done first.
func (p *Publisher) published(pub *publication) []record.Token {
	now, g := p.cfg.Now(), &pub.group
	c := record.NewClear(g, now)
	for _, s := range pub.list {
		if s.Err != nil {
			// of many effects behind a failed one, one error is enough
			if pub.err == nil || !errors.Is(s.Err, record.ErrBlocked) {
				pub.err = errors.Join(pub.err, s.Err)
			}
			continue
		}
		c.Sent[s.number] = append(c.Sent[s.number], record.Sent{Effect: s.effect, To: s.To})
	}
	pub.sent = maps.Clone(c.Sent)
	var done []record.Token
	for i := range pub.entries {
		entry := &pub.entries[i]
		stopped := pub.stop != 0 && entry.Number >= pub.stop && len(entry.Effects) > 0
		if stopped || entry.Unsent(c.Sent[entry.Number]) || entry.Kept() {
			continue
		}
		delete(c.Sent, entry.Number)
		if len(entry.Effects) > 0 && p.cfg.Streams[g.Key.Stream].Keeps(g.Key, entry) {
			c.Done = append(c.Done, entry.Keep(now))
			continue
		}
		c.Numbers = append(c.Numbers, entry.Number)
		if entry.Marks {
			done = append(done, entry.DoneToken(g.Key, now))
		}
	}
	pub.clear = c
	return done
}

func (p *Publisher) clear(ctx context.Context, pub *publication) error {
	c := pub.clear
	if len(c.Numbers)+len(c.Done)+len(c.Sent) == 0 && !pub.group.MissingExpiry() {
		return nil
	}
	if err := p.cfg.Store.Clear(ctx, c); err != nil {
		return fmt.Errorf("clear group: %w", err)
	}
	if n := len(c.Numbers) + len(c.Done); n > 0 {
		p.cfg.Observe(record.Event{Name: record.EventPublished, Stream: c.Group.Stream, Count: n})
	}
	return nil
}
