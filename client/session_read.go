package client

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An ahead is a page that is read in the background.
type ahead struct {
	after uint64
	done  chan struct{}
	page  sessionPage
	err   error
}

// Continue sets the number after which Next reads. If the cursor of the server is another one, the
// server's is moved to it, except if all numbers in between are dead letters. It is for a consumer
// with a store of its own: call it once after the open, with the number from that store. It returns
// the errors of Commit.
func (s *Session) Continue(ctx context.Context, number uint64) error {
	s.at, s.ended = number, false
	if number == s.cursor || number < s.cursor && covers(s.opened.Dead, number, s.cursor) {
		return nil
	}
	return s.Commit(ctx, number, CommitOptions{})
}

// ErrEnd says that a session or a log has ended: nothing will follow. It is not io.EOF, which an
// error of the network may wrap.
var ErrEnd = errors.New("there is nothing more to read")

// Next returns the entries after the last ones that Next returned. If there are none yet, it waits
// until the context ends. After the end of the session it returns [ErrEnd]. While the caller works,
// the next entries are read in the background.
//
// It returns a [*Problem] of type [Fenced], [Retired], [Expired], [Restored] or [Ahead]; these are
// final. After an [*UnacknowledgedError], call Next again.
func (s *Session) Next(ctx context.Context) (Batch, error) {
	ctx, cancel := s.bind(ctx)
	defer cancel()
	for {
		if err := s.lost(); err != nil {
			return Batch{}, err
		}
		if s.ended {
			return Batch{}, ErrEnd
		}
		began := time.Now() //nolint:forbidigo // only how long the request took
		page, err := s.take(ctx)
		if expired, ok := errors.AsType[*ExpiredError](err); ok && expired.First > s.at+1 && covers(s.opened.Dead, s.at, expired.First-1) {
			return s.pass(expired.First - 1), nil
		}
		if err != nil {
			s.lose(err)
			return Batch{}, fmt.Errorf("read session: %w", err)
		}
		s.ended = page.end
		if n := len(page.entries); n > 0 {
			b := s.batch(page)
			s.at = b.To
			if !s.ended {
				s.prefetch()
			}
			return b, nil
		}
		if s.ended {
			continue
		}
		if err := pause(ctx, s.client.options.MinBackoff-time.Since(began)); err != nil {
			return Batch{}, fmt.Errorf("read session: %w", err)
		}
	}
}

// pass returns a batch without entries, for numbers that are dead letters and have expired.
func (s *Session) pass(to uint64) Batch {
	b := Batch{From: s.at, To: to, State: s.state, Fence: s.opened.Fence, prefix: s.opened.identity()}
	s.at = to
	return b
}

// batch returns the batch of a page.
func (s *Session) batch(page sessionPage) Batch {
	b := Batch{
		From: s.at, To: page.entries[len(page.entries)-1].Number, End: page.end, Entries: page.entries,
		State: s.state, Fence: s.opened.Fence, prefix: s.opened.identity(),
	}
	if n := len(b.Entries) - 1; b.Entries[n].Kind == "end" {
		b.Entries = b.Entries[:n]
	}
	if len(s.opened.Dead) > 0 {
		b.Entries = s.living(b.Entries)
	}
	return b
}

// living returns the entries that are no dead letters.
func (s *Session) living(list []Entry) []Entry {
	out := list[:0]
	for i := range list {
		if _, dead := find(s.opened.Dead, list[i].Number); !dead {
			out = append(out, list[i])
		}
	}
	return out
}

// take returns the page after s.at: the one that was read ahead if it has entries, otherwise it
// reads and waits.
func (s *Session) take(ctx context.Context) (sessionPage, error) {
	if a := s.ahead; a != nil {
		s.ahead = nil
		select {
		case <-a.done:
		case <-ctx.Done():
			s.ahead = a
			return sessionPage{}, &UnacknowledgedError{Err: context.Cause(ctx)}
		}
		if a.after == s.at && a.err == nil && (len(a.page.entries) > 0 || a.page.end) {
			return a.page, nil
		}
	}
	return s.read(ctx, s.at, s.options.Wait)
}

// prefetch begins to read the entries after s.at. It does not wait for entries: the pool may deal
// more only after the present ones are committed.
func (s *Session) prefetch() {
	a := &ahead{after: s.at, done: make(chan struct{})}
	s.ahead = a
	s.workers.Go(func() {
		defer close(a.done)
		a.page, a.err = s.read(s.ctx, a.after, 0)
	})
}

// A sessionPage is a response with entries.
type sessionPage struct {
	entries []Entry
	end     bool
}

func (s *Session) read(ctx context.Context, after uint64, wait time.Duration) (sessionPage, error) {
	query := url.Values{
		"fence": {strconv.FormatUint(s.opened.Fence, 10)}, "after": {strconv.FormatUint(after, 10)}, "max": {strconv.Itoa(s.options.Max)},
	}
	if seconds := int64((wait + time.Second - 1) / time.Second); seconds > 0 {
		query.Set("wait", strconv.FormatInt(seconds, 10))
	}
	r := request{
		method: http.MethodGet, url: s.client.at(s.options.path("entries")...) + "?" + query.Encode(),
		header: http.Header{"Accept": {cborSeq}}, wait: wait,
	}
	began := time.Now() //nolint:forbidigo // only how long ago the server has answered
	page, err := call(ctx, s.client, r, func(a answer) (sessionPage, *Problem) { return readSessionPage(a, after) })
	if err == nil && wait == 0 {
		s.confirmed.Store(began.UnixNano())
	}
	var refused *Problem
	if errors.As(err, &refused) && refused.Type == Expired {
		return page, &ExpiredError{First: refused.First, Next: refused.Next, Problem: refused}
	}
	return page, err
}

// follows reports whether no number is missing between two entries. The numbers of a group's log
// jump by more than a page has entries where the system was restored from an older copy.
func follows(before, number uint64) bool {
	return number == before+1 || number > before && number-before > 1<<16
}

// readSessionPage parses a response. If it is not a whole page after a number, it is a problem.
func readSessionPage(a answer, after uint64) (p sessionPage, refused *Problem) {
	p.end = a.header.Get("Once-End") == "true"
	if a.status == http.StatusNoContent {
		return p, nil
	}
	if media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); a.status != http.StatusOK || media != cborSeq {
		return sessionPage{}, problemOf(a)
	}
	entries, ok := readEntries(a.body)
	at := after
	for i := range entries {
		ok = ok && follows(at, entries[i].Number)
		at = entries[i].Number
	}
	if !ok {
		return sessionPage{}, problemOf(a)
	}
	p.entries = entries
	return p, nil
}
