package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// objects are staged blobs.
type objects struct {
	record.Blobs
	staged []string
	before time.Time // the argument of the last call
}

func (o *objects) Staged(_ context.Context, before time.Time) ([]string, error) {
	o.before = before
	return slices.Clone(o.staged), nil
}

func (o *objects) Discard(_ context.Context, staged []string) error {
	o.staged = slices.DeleteFunc(o.staged, func(name string) bool { return slices.Contains(staged, name) })
	return nil
}

// listed returns groups one by one; groups without a version are corrupt.
type listed struct {
	record.Lister
	groups []record.Group
}

func (l listed) Groups(_ context.Context, _ string, after record.GroupKey, _ int) (page []record.Group, err error) {
	for _, g := range l.groups {
		switch {
		case g.Key.Group <= after.Group:
		case g.Version == 0:
			err = fmt.Errorf("group %s: %w", g.Key, record.ErrCorrupt)
		default:
			return []record.Group{g}, err
		}
	}
	return nil, err
}

func key(group string) record.GroupKey { return record.GroupKey{Stream: "s", Group: group} }

// staged returns the name of the blob that an attempt for a group has staged.
func staged(group, attempt string) string {
	a := &record.Attempt{ID: attempt, Group: key(group)}
	a.Blob("k", nil)
	for name := range a.Staged() {
		return name
	}
	return ""
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func publisher(o *objects) *outbox.Publisher {
	return outbox.New(outbox.Config{Blobs: o, Now: func() time.Time { return noon }})
}

func TestSweepBlobsSkipsCorruptGroupsAndKeepsTheirBlobs(t *testing.T) {
	won, lost, kept, gone := staged("a", "won"), staged("c", "lost"), staged("b", "kept"), staged("d", "gone")
	healthy := func(group string, blobs ...string) record.Group {
		g := record.Group{Key: key(group), Version: 1}
		for _, name := range blobs {
			g.Pending = append(g.Pending, record.Pending{Effects: []record.Effect{{Blob: &record.Blob{Staged: name}}}})
		}
		return g
	}
	corrupt := record.Group{Key: key("b")}
	for _, c := range []struct {
		name   string
		groups []record.Group
		left   []string
		err    error
	}{
		{"all can be read", []record.Group{healthy("a", won), healthy("b", kept), healthy("c")}, []string{won, kept}, nil},
		{"one can't, in the middle", []record.Group{healthy("a", won), corrupt, healthy("c")}, []string{won, kept, gone, "old.1.0"}, record.ErrCorrupt},
		{"one can't, at the end", []record.Group{healthy("a", won), corrupt}, []string{won, lost, kept, gone, "old.1.0"}, record.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &objects{staged: []string{won, lost, kept, gone, "old.1.0"}}
			n, err := publisher(o).SweepBlobs(t.Context(), listed{groups: c.groups}, noon)
			if !slices.Equal(o.staged, c.left) || n != 5-len(c.left) || !errors.Is(err, c.err) {
				t.Errorf("deleted %d, left %q: %v", n, o.staged, err)
			}
		})
	}
	t.Run("one can't, and no blob is in doubt", func(t *testing.T) {
		o := &objects{staged: []string{won, lost}}
		n, err := publisher(o).SweepBlobs(t.Context(), listed{groups: []record.Group{healthy("a", won), corrupt, healthy("c")}}, noon)
		if n != 1 || err != nil || !slices.Equal(o.staged, []string{won}) {
			t.Errorf("deleted %d, left %q: %v", n, o.staged, err)
		}
	})
}

func TestSweepBlobsKeepsBlobsThatAnAttemptMayStillCommit(t *testing.T) {
	hour := noon.Add(-3 * outbox.StagedTime)
	for asked, want := range map[time.Time]time.Time{noon: hour, hour.Add(1): hour, hour.Add(-time.Minute): hour.Add(-time.Minute)} {
		o := &objects{}
		if _, err := publisher(o).SweepBlobs(t.Context(), listed{}, asked); err != nil || !o.before.Equal(want) {
			t.Errorf("asked for what is older than %s, it swept what is older than %s: %v", asked, o.before, err)
		}
	}
}
