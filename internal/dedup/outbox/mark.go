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

// MarkDone marks the tokens of committed messages done.
func (p *Publisher) MarkDone(ctx context.Context, marks []record.Token) error {
	if len(marks) == 0 {
		return nil
	}
	messages := lastOfEach(marks)
	var requests []record.Token
	if slices.ContainsFunc(messages, conditional) {
		messages, requests = apart(messages)
	}
	if len(messages) > 0 {
		if err := p.cfg.Store.MarkDone(ctx, messages); err != nil {
			return fmt.Errorf("mark tokens done: %w", err)
		}
	}
	for _, t := range requests {
		if err := p.markUnless(ctx, t); err != nil {
			return fmt.Errorf("mark request done: %w", err)
		}
	}
	return nil
}

// conditional reports whether a token is marked on a condition: a request may have been deleted
// since its commit, and a refused message reopened.
func conditional(t record.Token) bool {
	_, _, refused := t.Reply.Refused()
	return refused || t.OfRequest()
}

// apart separates the marks that have a condition.
func apart(marks []record.Token) (messages, requests []record.Token) {
	for _, t := range marks {
		if conditional(t) {
			requests = append(requests, t)
		} else {
			messages = append(messages, t)
		}
	}
	return messages, requests
}

// lastOfEach keeps only the last mark of each token, because a batch write must not contain a key
// twice.
func lastOfEach(marks []record.Token) []record.Token {
	if len(marks) == 1 {
		return marks
	}
	last := make(map[record.TokenKey]int, len(marks))
	for i := range marks {
		last[marks[i].Key] = i
	}
	if len(last) == len(marks) {
		return marks
	}
	var out []record.Token
	for i := range marks {
		if last[marks[i].Key] == i {
			out = append(out, marks[i])
		}
	}
	return out
}

// markUnless marks a token done, unless it is done or deleted, or its refusal was reopened.
func (p *Publisher) markUnless(ctx context.Context, done record.Token) error {
	_, found, err := p.cfg.Store.Load(ctx, nil, []record.TokenKey{done.Key})
	if err != nil {
		return err
	}
	for old := found[0]; old.State != record.Done && old.Owner != record.Reopened(done.Owner); {
		if old, err = p.cfg.Store.SwapToken(ctx, old, done); err != nil && !errors.Is(err, record.ErrConflict) {
			return err
		}
	}
	return nil
}

// MarkLeftovers makes sure that the tokens of entries without effects are done. If one is not,
// because its worker died or because the done token has expired, it is marked again: a pending
// entry proves that its message is committed. The token of a kept entry expires when the entry
// would. If a kept entry is forgotten, MarkLeftovers deletes the issued token that it made stale:
// without the entry, that token would show the message as new.
func (p *Publisher) MarkLeftovers(ctx context.Context, key record.GroupKey, left []record.Pending, now time.Time) error {
	byToken := make(map[record.TokenKey]record.Pending, len(left))
	for _, entry := range left {
		byToken[entry.Token] = entry
	}
	tokens, err := record.TokenStates(ctx, p.cfg.Store, slices.Collect(maps.Keys(byToken)))
	if err != nil {
		return fmt.Errorf("load tokens of leftovers: %w", err)
	}
	var marks []record.Token
	for _, t := range tokens {
		switch entry := byToken[t.Key]; {
		case t.StaleBy(&entry, now):
			if _, err := p.cfg.Store.SwapToken(ctx, t, record.Token{Key: t.Key}); err != nil {
				return fmt.Errorf("delete stale token: %w", err)
			}
		case t.State != record.Done && !entry.Forgotten(now):
			marks = append(marks, entry.DoneToken(key, now))
		}
	}
	return p.MarkDone(ctx, marks)
}
