package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// maxRounds is how often a contended group is loaded before its messages are returned to their
// queue.
const maxRounds = 12

// settleAll processes parts in rounds, until each is settled or has conflicted maxRounds times.
func (e *Engine) settleAll(ctx context.Context, parts []*part) {
	for n := 1; len(parts) > 0; n++ {
		e.round(ctx, parts)
		if parts = e.unsettled(ctx, parts); len(parts) == 0 {
			return
		}
		if until := parts[0].until; n == maxRounds || !until.IsZero() && !e.cfg.Now().Before(until) {
			e.giveUp(ctx, parts, nil)
			return
		}
		if err := e.cfg.Pause(ctx, n); err != nil {
			e.giveUp(ctx, parts, err)
			return
		}
	}
}

// unsettled returns the parts that need another round. A part with a corrupt record does not, nor
// one that knows a restore that the configuration does not list: the next round would read the same
// record, so its messages are retried later. So are those of a group that another call works on.
func (e *Engine) unsettled(ctx context.Context, parts []*part) (again []*part) {
	for _, p := range parts {
		switch {
		case errors.Is(p.err, record.ErrCorrupt), errors.As(p.err, new(*record.RestoreError)), errors.As(p.err, new(*busyError)):
			e.giveUp(ctx, []*part{p}, nil)
		case p.err != nil:
			again = append(again, p)
		}
	}
	return again
}

// round processes the parts whose groups are free together, and then each of the others when its
// group becomes free.
func (e *Engine) round(ctx context.Context, parts []*part) {
	free := parts
	var busy []*part
	for i, p := range parts {
		p.turn = e.cfg.Running.Groups.Take(p.key, e.cfg.Now())
		switch {
		case !p.turn && busy == nil:
			free, busy = slices.Clone(parts[:i]), []*part{p}
		case !p.turn:
			busy = append(busy, p)
		case busy != nil:
			free = append(free, p)
		}
	}
	if len(free) > 0 {
		e.together(ctx, free)
	}
	if len(busy) == 0 {
		return
	}
	e.each(busy, func(p *part) {
		if err := e.cfg.Running.Groups.Wait(ctx, p.key, e.cfg.Now); err != nil {
			p.err = &busyError{err}
			return
		}
		p.turn = true
		e.together(ctx, []*part{p})
	})
}

// A busyError says that another call of this process works on the group of a part.
type busyError struct{ error }

func (e *busyError) Unwrap() error { return e.error }

// leave ends the turn of a part that has been advanced.
func (e *Engine) leave(p *part) {
	if p.turn {
		p.turn = false
		e.cfg.Running.Groups.End(p.key)
	}
}

// together loads the parts, advances each, and settles those without an error. Each part has the
// turn of its group, and leaves it as soon as it is advanced.
func (e *Engine) together(ctx context.Context, parts []*part) {
	defer func() {
		for _, p := range parts {
			e.leave(p)
		}
	}()
	switch err := e.load(ctx, parts); {
	// load each alone, so that one corrupt record does not block the others
	case errors.Is(err, record.ErrCorrupt) && len(parts) > 1:
		e.each(parts, func(p *part) { e.together(ctx, []*part{p}) })
		return
	case err != nil:
		for _, p := range parts {
			p.err = err
		}
		return
	}
	if len(parts) == 1 {
		parts[0].err = e.advance(ctx, parts[0])
		e.leave(parts[0])
	} else {
		e.advanceAll(ctx, parts)
	}
	e.settle(ctx, parts)
}

// load reads the groups and then, in the same call, the tokens of the messages. Reading tokens
// first would be wrong: between the two reads, a publisher could mark a token done and clear its
// entry, and the message would run again.
func (e *Engine) load(ctx context.Context, parts []*part) error {
	keys := make([]record.GroupKey, len(parts))
	for i, p := range parts {
		keys[i] = p.key
	}
	keys = withNamed(keys, parts)
	tokens := openTokens(parts)
	groups, found, err := e.cfg.Store.Load(ctx, keys, tokens)
	if errors.Is(err, record.ErrCorrupt) && len(parts) == 1 {
		groups, found, err = e.loadApart(ctx, parts[0], tokens)
	}
	if err != nil {
		return fmt.Errorf("load groups: %w", err)
	}
	known := tokensOf(found)
	if left := leftovers(parts, groups, &known); len(left) > 0 {
		found, err = record.TokenStates(ctx, e.cfg.Store, left)
		// A corrupt token in a single part counts as not done: its message is committed, and the
		// token is written again.
		if err != nil && (len(parts) > 1 || !errors.Is(err, record.ErrCorrupt)) {
			return fmt.Errorf("load tokens of leftovers: %w", err)
		}
		for _, t := range found {
			known.put(t)
		}
	}
	named := e.namedTokens(parts, groups)
	for i, p := range parts {
		p.view, p.tokens, p.done, p.named = groups[i], known, nil, named
		e.resolveDoubts(ctx, p)
	}
	return nil
}

// named returns the group that is named by the item's id, if the item is in another group and still
// open.
func (it *item) named(p *part) (record.GroupKey, bool) {
	key, ok := it.Named(p.stream)
	return key, ok && key != p.key && it.open()
}

// withNamed adds the groups that the ids of items name.
func withNamed(keys []record.GroupKey, parts []*part) []record.GroupKey {
	for _, p := range parts {
		for _, it := range p.items {
			if key, ok := it.named(p); ok && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// namedTokens returns the done tokens of items that are committed in the groups that their ids
// name.
func (e *Engine) namedTokens(parts []*part, groups []record.Group) map[record.TokenKey]record.Token {
	var tokens map[record.TokenKey]record.Token
	for _, p := range parts {
		for _, it := range p.items {
			key, ok := it.named(p)
			if !ok {
				continue
			}
			i := slices.IndexFunc(groups, func(g record.Group) bool { return g.Key == key })
			if entry, ok := it.Entry(&groups[i], e.cfg.Now()); ok {
				if tokens == nil {
					tokens = map[record.TokenKey]record.Token{}
				}
				tokens[entry.Token] = entry.DoneToken(key, e.cfg.Now())
			}
		}
	}
	return tokens
}

// loadApart reads a group, and then the tokens of its messages one by one. If a token can't be
// read, its message and the later ones are retried, but the earlier ones can commit. A pending
// message needs no token: its entry proves that it is committed.
func (e *Engine) loadApart(ctx context.Context, p *part, tokens []record.TokenKey) (groups []record.Group, found []record.Token, err error) {
	if groups, _, err = e.cfg.Store.Load(ctx, []record.GroupKey{p.key}, nil); err != nil {
		return nil, nil, err
	}
	groups = append(groups, e.loadNamed(ctx, p)...)
	for _, key := range tokens {
		_, one, err := e.cfg.Store.Load(ctx, nil, []record.TokenKey{key})
		found = append(found, one...)
		for _, it := range p.items {
			if _, pending := it.Entry(&groups[0], e.cfg.Now()); err != nil && it.open() && !pending && it.Token() == key {
				it.settle(record.Outcome{Err: fmt.Errorf("load token: %w", err)})
			}
		}
	}
	return groups, found, nil
}

// loadNamed reads the groups that are named by the ids of items, one by one. If one can't be read,
// its item is retried.
func (e *Engine) loadNamed(ctx context.Context, p *part) (groups []record.Group) {
	for _, it := range p.items {
		key, ok := it.named(p)
		if !ok {
			continue
		}
		found, _, err := e.cfg.Store.Load(ctx, []record.GroupKey{key}, nil)
		if err != nil {
			it.settle(record.Outcome{Err: fmt.Errorf("load group of the id: %w", err)})
			continue
		}
		groups = append(groups, found...)
	}
	return groups
}

// openTokens returns the tokens of the undecided messages, each once.
func openTokens(parts []*part) []record.TokenKey {
	var tokens []record.TokenKey       // the first few are searched without a map
	var later map[record.TokenKey]bool // the tokens after the first few
	for _, p := range parts {
		for _, it := range p.items {
			// A numbered message has a token of interest if a commit of it is in doubt.
			if !it.open() || it.Timer != "" || it.ByNumber && len(it.attempts) == 0 {
				continue
			}
			key := it.Token()
			if later[key] || slices.Contains(tokens[:min(len(tokens), fewTokens)], key) {
				it.copied = true
				continue
			}
			if tokens = append(tokens, key); len(tokens) > fewTokens {
				if later == nil {
					later = map[record.TokenKey]bool{}
				}
				later[key] = true
			}
		}
	}
	return tokens
}

// leftovers returns the tokens of entries without effects that this batch needs and that are not in
// known. These are the tokens of redelivered numbered messages. If there are several groups, they
// include the tokens of all entries that the commits will remove; a single group reads them when it
// commits.
func leftovers(parts []*part, groups []record.Group, known *tokens) (keys []record.TokenKey) {
	for i, p := range parts {
		for _, entry := range groups[i].Leftovers() {
			again := slices.ContainsFunc(p.items, func(it *item) bool { return it.ByNumber && it.open() && it.Token() == entry.Token })
			if known.find(entry.Token) == nil && (again || len(parts) > 1) {
				known.put(record.Token{Key: entry.Token})
				keys = append(keys, entry.Token)
			}
		}
	}
	return keys
}

// advance plans and commits until this worker can do nothing more for the group. If the record is
// full, it publishes first. It publishes a second time only after a commit of its own, so the loop
// always makes progress.
func (e *Engine) advance(ctx context.Context, p *part) error {
	if err := e.begin(ctx, p); err != nil {
		return err
	}
	pl, err := e.plan(ctx, p)
	return e.proceed(ctx, p, pl, err)
}

// begin fences earlier commits and completes deletes, before the first plan.
func (e *Engine) begin(ctx context.Context, p *part) error {
	if len(p.doubts) > 0 {
		if err := e.fence(ctx, p); err != nil {
			return err
		}
	}
	if err := e.finishDelete(ctx, p); err != nil {
		return err
	}
	return nil
}

// proceed is advance from a plan on, whose making returned err.
func (e *Engine) proceed(ctx context.Context, p *part, pl *plan, err error) error {
	for published := false; ; pl, err = e.plan(ctx, p) {
		// nothing has changed yet, so the decisions follow from the view
		if errors.Is(err, record.ErrFull) && !published {
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
			err := e.commit(ctx, p, pl)
			if r := refusal(err); r != nil && p.blame(pl, r.Detail) {
				continue
			}
			if errors.Is(err, record.ErrFull) && !published {
				if err := e.publishFirst(ctx, p); err != nil {
					return err
				}
				published = true
				continue
			}
			if err != nil {
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

// fence commits the view unchanged. While an earlier commit of this worker may still be applied,
// nothing may be decided, refused or returned based on a view without it. The fence makes the
// earlier commit lose its condition.
func (e *Engine) fence(ctx context.Context, p *part) error {
	return e.commit(ctx, p, &plan{Engine: e, part: p, loaded: p.view, attempt: e.cfg.NewID(), now: e.cfg.Now(), next: p.view.Clone()})
}

// publishFirst makes room in a full group record, and loads it again.
func (e *Engine) publishFirst(ctx context.Context, p *part) error {
	err := e.publisher.Publish(ctx, []record.GroupKey{p.key})[0]
	if err == nil && len(p.view.Settled()) > len(p.view.Leftovers()) {
		err = e.publisher.Release(ctx, p.key)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", record.ErrFull, err)
	}
	return e.load(ctx, []*part{p})
}

// each calls do for each part, for several at the same time.
func (e *Engine) each(parts []*part, do func(*part)) {
	if len(parts) == 1 {
		do(parts[0])
		return
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, e.cfg.Parallel)
	for _, p := range parts {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			do(p)
		})
	}
	wg.Wait()
}

// giveUp leaves the messages to their next delivery. Effects that are already committed are
// published now, because the next delivery may fail in the same way.
func (e *Engine) giveUp(ctx context.Context, parts []*part, cause error) {
	var groups []record.GroupKey
	for _, p := range parts {
		if p.trigger && p.view.HasEffects() {
			groups = append(groups, p.key)
		}
		err := p.err
		if cause != nil {
			err = errors.Join(cause, err)
		}
		for _, it := range p.items {
			*it.out = record.Outcome{Kind: record.Retry, Err: err}
		}
	}
	if len(groups) > 0 {
		ctx, cancel := outbox.WithGrace(ctx)
		defer cancel()
		if err := e.cfg.Queues.Trigger(ctx, groups, 0); err != nil {
			e.cfg.Log.Warn("publishing not triggered", "count", len(groups), "error", err)
		}
	}
}
