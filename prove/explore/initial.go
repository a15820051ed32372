package explore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// initial returns the view at the start.
func (w *world) initial() (view, error) {
	store := memstore.New(func() time.Time { return start() })
	for i, name := range w.scenario.Issued {
		a, err := w.arrival(name)
		if err != nil {
			return view{}, err
		}
		token := record.Token{
			Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint(), Stream: stream, Group: a.GroupName(), Owner: fmt.Sprintf("desk-%d", i),
			Expires: start().Add(record.IssuedRetention),
		}
		if _, err := store.SwapToken(context.Background(), record.Token{Key: token.Key}, token); err != nil {
			return view{}, err
		}
	}
	applied, err := w.leave(store)
	if err != nil {
		return view{}, err
	}
	v := view{store: w.storeOf(store), sends: w.sendsOf(nil), blobs: w.blobsOf(map[string]stagedBlob{}, map[string]string{}), past: w.pastOf(pastPart{applied: applied}), backup: w.backupOf(backupPart{}), now: start()}
	v.queues = w.change(&queuesPart{taken: map[string]uint64{}}, func(q *queuesPart) {
		q.messages, q.requests, q.guarded = slices.Clone(w.scenario.Arrive), slices.Clone(w.scenario.Ask), slices.Clone(w.scenario.Guard)
	})
	return v, nil
}

// leave commits the messages that were processed before the start, and returns what was applied. Of
// those that are done, only the token or the kept entry is left.
func (w *world) leave(store *memstore.Store) (applied []string, err error) {
	for i, name := range slices.Concat(w.scenario.Left, w.scenario.Kept, w.scenario.Done) {
		a, err := w.arrival(name)
		if err != nil {
			return nil, err
		}
		groups, _, err := store.Load(context.Background(), []record.GroupKey{a.GroupKey()}, nil)
		if err != nil {
			return nil, err
		}
		attempt := &record.Attempt{ID: fmt.Sprintf("older-%d", i)}
		mark := name + " by " + attempt.ID
		if w.scenario.Stream.Reply {
			attempt.Reply(record.Reply{Status: 200, Body: []byte(mark)})
		}
		entry := a.NewEntry(attempt, nil, record.Stream{Retention: w.remembered()})
		applied = append(applied, mark)
		if slices.Contains(w.scenario.Done, name) {
			if err := store.MarkDone(context.Background(), []record.Token{entry.DoneToken(a.GroupKey(), start())}); err != nil {
				return nil, err
			}
			continue
		}
		if slices.Contains(w.scenario.Kept, name) {
			entry = entry.Keep(start())
		}
		next := groups[0].Clone()
		next.Succeed(&groups[0], start(), record.DefaultGroupRetention)
		next.Last++
		entry.Number = next.Last
		next.Pending = append(next.Pending, entry)
		next.State = append(slices.Clone(next.State), mark+"\n"...)
		if err := store.Commit(context.Background(), record.Commit{Loaded: groups[0], Next: next}); err != nil {
			return nil, err
		}
	}
	return applied, nil
}
