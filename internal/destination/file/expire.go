package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

// walkFactor times the limit of an Expire is how many marks it looks at.
const walkFactor = 20

// Expire deletes up to limit marks that have expired, and tells how many it deleted. It looks at a part of the marks, some times as
// many as it may delete, and the next call goes on from there: with millions of marks, of which few have expired, one call takes no
// longer. Marks read as absent once they have expired, deleted or not. Corrupt ones stay, and are logged.
func (s *Sender) Expire(ctx context.Context, limit int) (int, error) {
	r := &request{done: make(chan struct{})}
	err := s.collect(ctx, r, limit)
	if err == nil && len(r.expired) > 0 {
		if err = s.submit(r); err == nil {
			<-r.done
			err = r.forgot
		}
	}
	if err != nil {
		return 0, fmt.Errorf("expire marks of %s: %w", s.path, err)
	}
	return r.deleted, nil
}

// collect looks for up to limit marks that have expired.
func (s *Sender) collect(ctx context.Context, r *request, limit int) error {
	s.mu.Lock()
	lower := s.cursor
	s.mu.Unlock()
	if lower == nil {
		lower = s.marks.prefix(marksFrom)
	}
	bounds := &pebble.IterOptions{LowerBound: lower, UpperBound: s.marks.prefix(marksTo)}
	it, err := s.db.NewIterWithContext(ctx, bounds)
	if err != nil {
		return err
	}
	defer it.Close()
	now := s.options.Now()
	var next []byte
	looked, corrupt := 0, 0
	for valid := it.First(); valid; valid = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if looked++; looked > walkFactor*limit || len(r.expired) == limit {
			next = bytes.Clone(it.Key())
			break
		}
		_, expires, err := parseMark(it.Key(), it.Value())
		if err != nil { // it says that something was written, and must not be forgotten
			corrupt++
			continue
		}
		if expires.After(now) {
			continue
		}
		r.expired = append(r.expired, bytes.Clone(it.Key()))
	}
	if corrupt > 0 {
		s.options.Log.Error("corrupt marks of a file passed over", slog.String("path", s.path), slog.Int("marks", corrupt))
	}
	s.mu.Lock()
	s.cursor = next
	s.mu.Unlock()
	return it.Error()
}

// forget deletes the marks that an Expire found, unless they have been written again since. Only the writer may: between its look at
// a mark and the record of its round nobody else may change one.
func (s *Sender) forget(p *plan, r *request) error {
	if len(r.expired) > 0 {
		p.depends = append(p.depends, &r.forgot)
	}
	for _, key := range r.expired {
		if _, written := p.written[string(key)]; written {
			continue
		}
		live, err := s.marks.covers(&mark{key: string(key)}, s.options.Now())
		if errors.Is(err, record.ErrCorrupt) { // since it was found; the deliveries of this round must not wait for it
			continue
		}
		if err == nil && !live {
			err = p.batch.Delete(key, nil)
		}
		if err != nil {
			return err
		}
		if !live {
			r.deleted++
		}
	}
	return nil
}
