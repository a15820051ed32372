package embedded

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/schedule"
)

const (
	// maxQuick is how many unfinished groups a quick search reads.
	maxQuick = 5000
	// loadedAtOnce is how many groups one read loads.
	loadedAtOnce = 100
)

// QuickMessage is [System.Message] that reads a bounded number of records. It does not find a
// message without a token, as one that came by SQS, if its group is not among the first [maxQuick]
// unfinished ones.
func (s *System) QuickMessage(ctx context.Context, stream, id string) (admin.MessageInfo, error) {
	if _, ok := s.engine.Stream(stream); !ok {
		return admin.MessageInfo{}, fmt.Errorf("stream %s: %w", stream, admin.ErrNotFound)
	}
	m := record.Message{Stream: stream, ID: id}
	info, err := s.message(ctx, m)
	principals := s.principals()
	if schedule.IsID(id) {
		principals = append(principals, schedule.Principal)
	}
	for _, m.Principal = range principals {
		if !errors.Is(err, admin.ErrNotFound) {
			break
		}
		info, err = s.message(ctx, m)
	}
	if !errors.Is(err, admin.ErrNotFound) {
		return info, err
	}
	found, ok, failed := s.unfinished(ctx, hashOf(stream, id))
	if failed != nil {
		return info, failed
	}
	if ok {
		return s.message(ctx, found)
	}
	return info, err
}

// hashOf selects a message without a principal.
func hashOf(stream, id string) admin.HashOptions {
	return admin.HashOptions{Stream: stream, Hash: record.NewTokenKey("", stream, id).String()}
}

// QuickByHash is [System.ByHash] that reads a bounded number of records, as [System.QuickMessage]
// does. It looks among the messages that fail, in the ingress queues and the dead letters, the
// oldest [maxSearched] of each, among the tokens, and among the unfinished groups.
func (s *System) QuickByHash(ctx context.Context, o admin.HashOptions) (admin.MessageInfo, error) {
	for _, w := range s.waiting.All() {
		if m := (record.Message{Stream: w.Group.Stream, ID: w.ID}); w.Destination == "" && o.Matches(&m) {
			return s.QuickMessage(ctx, m.Stream, m.ID)
		}
	}
	queued, m, err := s.queued(o.Matches)
	if err != nil {
		return admin.MessageInfo{}, err
	}
	if queued != nil {
		return s.message(ctx, m)
	}
	if info, found, err := s.deadByHash(ctx, o); found || err != nil {
		return info, err
	}
	found, ok, err := s.unfinished(ctx, o)
	if err != nil {
		return admin.MessageInfo{}, err
	}
	if ok {
		return s.message(ctx, found)
	}
	return s.tokenByHash(ctx, o)
}

// deadByHash looks among the dead letters.
func (s *System) deadByHash(ctx context.Context, o admin.HashOptions) (info admin.MessageInfo, found bool, err error) {
	letters, err := s.queues.dead.Peek(maxSearched)
	if err != nil {
		return info, false, err
	}
	for i := range letters {
		letter := deadletter.Read(s.queues.dead.Name(), letters[i], trusting().Trusted)
		if !o.Matches(&letter.Refused.Message) {
			continue
		}
		info, err := s.message(ctx, letter.Refused.Message)
		if errors.Is(err, admin.ErrNotFound) { // its stream keeps no token of it
			d := letter.Info()
			info, err = admin.MessageInfo{Stream: d.Stream, ID: d.Name(), Hash: letter.Refused.Message.Hash(), Group: d.Group, Status: "rejected", Reason: d.Reason, Detail: d.Detail}, nil
		}
		return info, true, err
	}
	return info, false, nil
}

// unfinished looks for a message among those that wait in the groups that the watch knows.
func (s *System) unfinished(ctx context.Context, o admin.HashOptions) (m record.Message, found bool, err error) {
	keys := slices.DeleteFunc(s.watch.unfinished(0), func(k record.GroupKey) bool { return o.Stream != "" && k.Stream != o.Stream })
	keys = keys[:min(len(keys), maxQuick)]
	for some := range slices.Chunk(keys, loadedAtOnce) {
		groups, _, err := s.store.Load(ctx, some, nil)
		if err != nil {
			return m, false, err
		}
		for i := range groups {
			if m, found := o.InGroup(&groups[i]); found {
				return m, true, nil
			}
		}
	}
	return m, false, nil
}

// tokenByHash looks among the tokens, which are in the order of their keys. Tokens of different
// streams can have keys that begin alike.
func (s *System) tokenByHash(ctx context.Context, o admin.HashOptions) (admin.MessageInfo, error) {
	after := before(o.Hash)
	for {
		tokens, err := s.store.Tokens(ctx, after, loadedAtOnce)
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return admin.MessageInfo{}, err
		}
		if err != nil {
			s.passedOver(err)
		}
		for i := range tokens {
			t := &tokens[i]
			if !strings.HasPrefix(t.Key.String(), o.Hash) {
				return admin.MessageInfo{}, o.NotFound()
			}
			if o.Stream == "" || o.Stream == t.Stream {
				found := admin.FoundToken(t)
				if found.Message.ID != "" {
					return s.message(ctx, found.Message)
				}
				return found.Info(), nil
			}
			after = t.Key
		}
		if len(tokens) < loadedAtOnce {
			return admin.MessageInfo{}, o.NotFound()
		}
	}
}

// before returns the key before the first one that begins with hexadecimal digits.
func before(digits string) (key record.TokenKey) {
	text := digits + strings.Repeat("0", 2*len(key)-len(digits))
	_, _ = hex.Decode(key[:], []byte(text)) // the digits were checked
	for i := len(key) - 1; i >= 0; i-- {
		key[i]--
		if key[i] != 0xff {
			return key
		}
	}
	return record.TokenKey{} // the digits are zeros
}
