package dedup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/effectively-once/once/internal/record"
)

// maxRounds is how often a contended group is loaded anew before its messages are given back to their queue.
const maxRounds = 12

// maxParallel bounds the groups of one batch that are worked on at once.
const maxParallel = 64

// An item is one delivery of a batch.
type item struct {
	record.Message
	byNumber bool           // admitted by its sequence
	attempts []string       // at it, of commits that may have landed
	plan     *plan          // the last one that decided it
	planned  record.Outcome // what it decided
	fate     record.Outcome // what is certain
	out      *record.Outcome

	key         record.TokenKey // see token
	fingerprint record.Fingerprint
}

// identity names the message within its stream and principal: what its sender counts counts more than an id that it gave besides.
func (it *item) identity() string {
	if it.byNumber {
		return it.Number()
	}
	return it.Identity()
}

// token names the item's token. Numbers belong to a group: a source counts in each of its groups. Hashes are made when they are asked for: numbered messages need none.
func (it *item) token() record.TokenKey {
	if it.key == (record.TokenKey{}) {
		identity := it.identity()
		if it.byNumber {
			identity = it.GroupName() + "\x1f" + identity
		}
		it.key = record.NewTokenKey(it.Principal, it.Stream, identity)
	}
	return it.key
}

// print is the message's fingerprint.
func (it *item) print() record.Fingerprint {
	if it.fingerprint == (record.Fingerprint{}) {
		it.fingerprint = it.Fingerprint()
	}
	return it.fingerprint
}

// open reports whether the item's fate is still to be decided.
func (it *item) open() bool { return it.fate.Kind == record.Retry && it.fate.Err == nil }

// stops reports whether the item has to be delivered again, before anything that follows it.
func (it *item) stops() bool {
	return it.fate.Kind == record.Retry && it.fate.Err != nil && !errors.Is(it.fate.Err, ErrBounds)
}

// A part is what a batch has of one group.
type part struct {
	key    record.GroupKey
	stream record.Stream
	items  []*item
	view   record.Group // as loaded, or as this worker's own commit left it
	tokens map[record.TokenKey]record.Token
	// marks are the tokens to mark done before anything is acknowledged.
	marks []record.Token
	// trigger says that what is pending in the view is to be published.
	trigger  bool
	numbered bool    // deliveries are settled by numbers: what is pending, with effects or without, is to be finished before they are acknowledged
	doubts   []*plan // commits whose answer was lost
	early    bool    // trigger before the commit too
	sweeping bool
	err      error // nil when the part is settled
}

// Process runs a batch of messages through the protocol and tells each one's fate, in their order. Messages of one group are processed in their order, and
// after one that must be tried again, the later ones of its group must be too. Messages may belong to any streams and groups.
func (e *Engine) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	return e.process(ctx, messages, false)
}

// Call processes one message that no queue would deliver again, on behalf of a caller that waits for the answer. Because a crash after the commit must not strand
// the effects, the trigger to publish them is sent before it, delayed by Config.CallDelay; another one follows the commit.
func (e *Engine) Call(ctx context.Context, m record.Message) record.Outcome {
	return e.process(ctx, []record.Message{m}, true)[0]
}

func (e *Engine) process(ctx context.Context, messages []record.Message, early bool) []record.Outcome {
	out := make([]record.Outcome, len(messages))
	parts, relays := e.split(messages, out)
	e.relay(ctx, relays)
	for _, p := range parts {
		p.early = early
	}
	e.settleAll(ctx, parts)
	for _, p := range parts {
		e.count(p.stream.Name, p.items)
	}
	return out
}

// settleAll works on parts in rounds, until each is settled or was contended too often.
func (e *Engine) settleAll(ctx context.Context, parts []*part) {
	for n := 1; len(parts) > 0; n++ {
		e.round(ctx, parts)
		parts = unsettled(parts)
		if len(parts) == 0 {
			return
		}
		if n == maxRounds {
			giveUp(parts, nil)
			return
		}
		if err := e.cfg.Pause(ctx, n); err != nil {
			giveUp(parts, err)
			return
		}
	}
}

// split validates the messages and sorts them by group. Those that need no group record come apart.
func (e *Engine) split(messages []record.Message, out []record.Outcome) (parts []*part, relays []*item) {
	byKey := make(map[record.GroupKey]*part, len(messages))
	byToken := make(map[record.TokenKey]*part, len(messages))
	items := make([]item, len(messages))
	for i := range messages {
		it := &items[i]
		it.Message, it.out = messages[i], &out[i]
		s, err := e.admissible(it)
		if err != nil {
			out[i] = record.Outcome{Kind: record.Rejected, Reason: record.ReasonInvalid, Detail: err.Error()}
			e.count(it.Stream, []*item{it})
			continue
		}
		if it.relayed(s) && !e.chains(s) {
			relays = append(relays, it)
			continue
		}
		key := it.GroupKey()
		p := byKey[key]
		if p == nil {
			p = newPart(key, s)
			byKey[key] = p
			parts = append(parts, p)
		}
		p.items = append(p.items, it)
		if it.byNumber {
			continue
		}
		if first := byToken[it.token()]; first != nil && first != p {
			it.fate = record.Outcome{Err: errTwin}
		}
		byToken[it.token()] = p
	}
	return parts, relays
}

// errTwin keeps two groups of one batch from running one identity side by side. When the second message comes again, the first one's token refuses it.
var errTwin = errors.New("another group of the batch has the same identity")

func newPart(key record.GroupKey, s record.Stream) *part {
	return &part{key: key, stream: s}
}

// relayed reports whether the message needs no group record. A one-time request always has one: DELETE and POST meet there.
func (it *item) relayed(s record.Stream) bool {
	return s.Stateless && !it.byNumber && it.Route == "" && (s.Unordered || it.Group == "")
}

// chains reports whether the stream feeds a destination that needs numbers without gaps; those live in the group record.
func (e *Engine) chains(s record.Stream) bool {
	for _, to := range s.Events {
		if e.cfg.Sequenced[to] {
			return true
		}
	}
	return false
}

// admissible checks a message against the rules and its stream, and fills in what identifies it.
func (e *Engine) admissible(it *item) (record.Stream, error) {
	s, ok := e.streams[it.Stream]
	if !ok {
		return s, fmt.Errorf("%w: %q", record.ErrNoStream, it.Stream)
	}
	if err := it.Validate(); err != nil {
		return s, err
	}
	it.byNumber = s.Admission == record.BySequence && it.Route == ""
	if it.byNumber && it.Source == "" {
		return s, &record.InvalidError{Field: "source", Rule: "and sequence are required by this stream"}
	}
	return s, nil
}

// round loads the parts, advances each, and settles those that went well.
func (e *Engine) round(ctx context.Context, parts []*part) {
	if err := e.load(ctx, parts); err != nil {
		for _, p := range parts {
			p.err = err
		}
		return
	}
	each(parts, func(p *part) { p.err = e.advance(ctx, p) })
	e.settle(ctx, parts)
}

// load reads the groups and then, in the same call, the tokens of the messages: never the other way round.
func (e *Engine) load(ctx context.Context, parts []*part) error {
	keys := make([]record.GroupKey, len(parts))
	var tokens []record.TokenKey
	asked := map[record.TokenKey]bool{}
	for i, p := range parts {
		keys[i] = p.key
		for _, it := range p.items {
			if !it.byNumber && it.open() && !asked[it.token()] {
				asked[it.token()] = true
				tokens = append(tokens, it.token())
			}
		}
	}
	groups, found, err := e.cfg.Store.Load(ctx, keys, tokens)
	if err != nil {
		return fmt.Errorf("load groups: %w", err)
	}
	byKey := make(map[record.TokenKey]record.Token, len(found))
	for _, t := range found {
		byKey[t.Key] = t
	}
	for i, p := range parts {
		p.view, p.tokens = groups[i], byKey
		e.resolveDoubts(ctx, p)
	}
	return nil
}

// advance plans and commits until nothing of the group is left that this worker could do. Where the record is full it publishes first; it does so again only after a
// commit of its own, so each turn gets on.
func (e *Engine) advance(ctx context.Context, p *part) error {
	for published := false; ; {
		pl, err := e.plan(ctx, p)
		if errors.Is(err, errFull) && !published { // nothing is changed yet: what is decided, the view decided
			p.accept(pl)
			if err := e.publishFirst(ctx, p); err != nil {
				return err
			}
			published = true
			continue
		}
		if err != nil {
			return err
		}
		if pl.changed {
			if err := e.commit(ctx, p, pl); err != nil {
				return err
			}
			published = false
		}
		p.accept(pl)
		if !pl.more {
			return nil
		}
	}
}

// accept takes over what a plan decided.
func (p *part) accept(pl *plan) {
	for _, it := range p.items {
		if it.plan == pl {
			it.fate = it.planned
		}
	}
}

func each(parts []*part, do func(*part)) {
	if len(parts) == 1 {
		do(parts[0])
		return
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, maxParallel)
	for _, p := range parts {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			do(p)
		})
	}
	wg.Wait()
}

func unsettled(parts []*part) []*part {
	var open []*part
	for _, p := range parts {
		if p.err != nil {
			open = append(open, p)
		}
	}
	return open
}

func giveUp(parts []*part, cause error) {
	for _, p := range parts {
		err := p.err
		if cause != nil {
			err = errors.Join(cause, err)
		}
		for _, it := range p.items {
			*it.out = record.Outcome{Kind: record.Retry, Err: err}
		}
	}
}

// count reports outcomes to the observer.
func (e *Engine) count(stream string, items []*item) {
	for _, it := range items {
		e.cfg.Observe(it.out.Event(stream))
	}
}
