package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func groupsText(keys []record.GroupKey) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Group
	}
	return strings.Join(names, " ")
}

type portStore struct{ w *worker }

// CommitsDone implements record.DoneCommitter. A wrapper that gets its worker later does not.
func (s portStore) CommitsDone() bool { return s.w != nil && s.w.commitsDone }

func (s portStore) Load(ctx context.Context, g []record.GroupKey, t []record.TokenKey) (groups []record.Group, tokens []record.Token, err error) {
	if repeats(g) || repeats(t) {
		panic("a load repeats a key")
	}
	text := strings.TrimSpace(fmt.Sprintf("load %s", groupsText(g)))
	if len(t) > 0 {
		text += fmt.Sprintf(" +%d tokens", len(t))
	}
	err = s.w.call(text, func() error { groups, tokens, err = s.w.store.Load(ctx, g, t); return err })
	if err != nil {
		return nil, nil, err
	}
	return groups, tokens, nil
}

func repeats[K comparable](keys []K) bool {
	seen := map[K]bool{}
	for _, k := range keys {
		seen[k] = true
	}
	return len(seen) != len(keys)
}

func (s portStore) Commit(ctx context.Context, c record.Commit) error {
	return s.w.call("commit "+commitText(c), func() error { return s.w.store.Commit(ctx, c) })
}

// CommitsTogether implements record.GroupsCommitter.
func (s portStore) CommitsTogether() bool { return s.w != nil && s.w.commitsTogether }

// CommitAll makes one call for all commits.
func (s portStore) CommitAll(ctx context.Context, commits []record.Commit) []error {
	texts, errs := make([]string, len(commits)), make([]error, len(commits))
	for i, c := range commits {
		texts[i] = commitText(c)
	}
	err := s.w.call("commit "+strings.Join(texts, ", "), func() error {
		for i, c := range commits {
			errs[i] = s.w.store.Commit(ctx, c)
		}
		return nil
	})
	for i := range errs {
		if err != nil {
			errs[i] = err
		}
	}
	return errs
}

// commitText checks a commit and returns its text.
func commitText(c record.Commit) string {
	checkCommit(c)
	text := fmt.Sprintf("%s v%d", c.Next.Key.Group, c.Next.Version)
	for _, h := range c.Hold {
		text += fmt.Sprintf(" hold %d/%d", h.Message.Epoch, h.Message.Sequence)
	}
	for _, k := range c.Unhold {
		text += fmt.Sprintf(" unhold %d/%d", k.Epoch, k.Sequence)
	}
	if len(c.Done) > 0 {
		text += fmt.Sprintf(" done %d", len(c.Done))
	}
	return text
}

// checkCommit panics at a commit that violates the contract of the store.
func checkCommit(c record.Commit) {
	items := map[record.HeldKey]bool{}
	for _, h := range c.Hold {
		m := h.Message
		items[record.HeldKey{Group: m.GroupKey(), Source: m.SourceKey(), Epoch: m.Epoch, Sequence: m.Sequence}] = true
	}
	for _, k := range c.Unhold {
		items[k] = true
	}
	switch n := len(c.Hold) + len(c.Unhold); {
	case n+len(c.Append) > record.MaxCommitItems:
		panic(fmt.Sprintf("a commit of %d items and %d chunks", n, len(c.Append)))
	case n != len(items):
		panic("a commit puts and deletes one item")
	case c.Next.Version != c.Loaded.Version+1:
		panic("a commit skips a version")
	}
	done := map[record.TokenKey]bool{}
	for _, t := range c.Done {
		if t.State != record.Done || done[t.Key] {
			panic(fmt.Sprintf("a commit marks a token %v", t.State))
		}
		done[t.Key] = true
	}
	if !slices.IsSortedFunc(c.Next.Pending, func(a, b record.Pending) int { return int(a.Number) - int(b.Number) }) {
		panic("pending entries out of order")
	}
}

func (s portStore) Clear(ctx context.Context, c record.Clear) error {
	text := fmt.Sprintf("clear %s", c.Group.Group)
	for _, n := range c.Numbers {
		text += fmt.Sprintf(" %d", n)
	}
	for _, n := range slices.Sorted(maps.Keys(c.Sent)) {
		for _, sent := range c.Sent[n] {
			text += fmt.Sprintf(" %d.%d>%s", n, sent.Effect, sent.To)
		}
	}
	return s.w.call(text, func() error { return s.w.store.Clear(ctx, c) })
}

func (s portStore) Held(ctx context.Context, k record.HeldKey, n int) (held []record.Held, err error) {
	text := fmt.Sprintf("held %s %d/%d x%d", k.Group.Group, k.Epoch, k.Sequence, n)
	err = s.w.call(text, func() error { held, err = s.w.store.Held(ctx, k, n); return err })
	if err != nil {
		return nil, err
	}
	return held, nil
}

func (s portStore) SwapToken(ctx context.Context, old, next record.Token) (t record.Token, err error) {
	text := fmt.Sprintf("swap %s %s %s", old.State, next.State, next.Reason)
	err = s.w.call(strings.TrimSpace(text), func() error { t, err = s.w.store.SwapToken(ctx, old, next); return err })
	return t, err
}

func (s portStore) MarkDone(ctx context.Context, tokens []record.Token) error {
	return s.w.call(fmt.Sprintf("mark %d", len(tokens)), func() error { return s.w.store.MarkDone(ctx, tokens) })
}

// change runs a call to a port of the lab, with faults.
func (w *worker) change(text string, do func(l *lab)) error {
	return w.call(text, func() error {
		w.lab.mu.Lock()
		defer w.lab.mu.Unlock()
		do(w.lab)
		return nil
	})
}

func (w *worker) Trigger(ctx context.Context, keys []record.GroupKey, delay time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text := "trigger " + groupsText(keys)
	if delay > 0 {
		text = "trigger later " + groupsText(keys)
	}
	return w.change(text, func(l *lab) {
		for _, k := range keys {
			l.triggers = append(l.triggers, trigger{k, delay})
		}
	})
}

func (w *worker) Return(_ context.Context, ms []record.Message) error {
	return w.change("return "+ms[0].Identity(), func(l *lab) { l.returned = append(l.returned, ms...) })
}

func (w *worker) DeadLetter(_ context.Context, refused []record.Refused) error {
	text := "dead"
	for _, r := range refused {
		if r.Delivery != nil {
			text += " " + r.Delivery.Identity
		} else {
			text += " " + r.Message.Identity()
		}
		text += " " + string(r.Reason)
	}
	return w.change(text, func(l *lab) { l.dead = append(l.dead, refused...) })
}

func (w *worker) Delay(_ context.Context, delayed []record.Delayed) error {
	text := "delay"
	for _, d := range delayed {
		text += " " + d.Identity()
	}
	return w.change(text, func(l *lab) { l.delayed = append(l.delayed, delayed...) })
}

// A destination accepts deliveries one at a time, and stops a group at its first failure.
type destination struct {
	w    *worker
	name string
}

func (d destination) Send(ctx context.Context, ds []record.Delivery) []error {
	errs := make([]error, len(ds))
	blocked := map[string]error{}
	for i, x := range ds {
		if errs[i] = ctx.Err(); errs[i] != nil {
			continue
		}
		if errs[i] = blocked[x.Group]; errs[i] != nil && x.Number != 0 {
			continue
		}
		errs[i] = d.w.change("send "+d.name+" "+x.Identity, func(l *lab) { l.sent = append(l.sent, arrival{d.name, x}) })
		blocked[x.Group] = errs[i]
	}
	return errs
}

// blobPort keeps blobs in maps of the lab.
type blobPort struct{ w *worker }

func (b blobPort) Check(key string) error {
	if key == "bad" {
		return errors.New("a bad key")
	}
	return nil
}

func (b blobPort) Stage(ctx context.Context, staged string, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.w.change("stage "+staged, func(l *lab) { l.staged[staged] = body })
}

func (b blobPort) Publish(_ context.Context, blob record.Blob) error {
	return b.w.change("publish "+blob.Key, func(l *lab) {
		if body, ok := l.staged[blob.Staged]; ok {
			l.blobs[blob.Key] = body
			delete(l.staged, blob.Staged)
		}
	})
}

func (b blobPort) Discard(_ context.Context, staged []string) error {
	return b.w.change("discard "+strings.Join(staged, " "), func(l *lab) {
		for _, name := range staged {
			delete(l.staged, name)
		}
	})
}

func (b blobPort) Staged(context.Context, time.Time) ([]string, error) {
	var names []string
	err := b.w.change("staged", func(l *lab) { names = slices.Sorted(maps.Keys(l.staged)) })
	return names, err
}
