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

// walkFactor times the limit of an Expire is how many marks it reads.
const walkFactor = 20

// Expire deletes up to limit expired marks, and returns how many it deleted. It reads a part of the
// marks, some times as many as it may delete, and the next call continues there: so a call is fast
// even if there are millions of marks and few have expired. Expired marks read as absent, whether
// deleted or not. Corrupt ones stay, and are logged.
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

// collect looks for up to limit expired marks.
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
		if err != nil { // it is proof of a written line, and must be kept
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

// forget deletes the marks that an Expire found, unless they have been written again since. Only
// the writer may do so: no other goroutine may change a mark between the writer's read of it and
// the record of its round.
func (s *Sender) forget(p *plan, r *request) error {
	if len(r.expired) > 0 {
		p.depends = append(p.depends, &r.forgot)
	}
	for _, key := range r.expired {
		if _, written := p.written[string(key)]; written {
			continue
		}
		live, err := s.marks.covers(&mark{key: key}, s.options.Now())
		// damaged since it was found; the deliveries of this round must not fail because of it
		if errors.Is(err, record.ErrCorrupt) {
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
