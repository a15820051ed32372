package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// StreamTailOptions configure a [StreamTail]. Zero fields take the defaults in their comments.
type StreamTailOptions struct {
	// After has the offsets of groups to continue after, see [StreamTail.Offsets]. The other groups
	// are read from the first entry that the server has kept.
	After map[string]string
	// FromNow reads only what is appended from now on to the groups that are not in After.
	FromNow bool
	// Max is how many entries a request asks for. Defaults to 1,000, at most 10,000.
	Max int
	// Wait is how long the server should wait for an entry if there is none. Defaults to 20
	// seconds, which is also the longest that a server waits.
	Wait time.Duration
	// NoFollow makes Next return [ErrEnd] when all groups are read to their present ends.
	NoFollow bool
	// OnWait is called when all entries have been returned, before Next waits for more. Defaults to
	// nothing.
	OnWait func()
}

// A StreamTail reads the logs of all groups of a stream, also of those that are new. The entries of
// one group are in their order, without holes or repetitions. Between groups there is no order: a
// tail reads one group to its end, and then the next. Only the embedded server can list the groups
// of a stream. Its methods are for one goroutine.
type StreamTail struct {
	client  *Client
	stream  string
	options StreamTailOptions
	after   map[string]string // after the last entry that Next returned of each group
	changes string            // the mark to ask for changes after
	listed  bool              // all groups up to changes were listed
	aside   map[string]bool   // groups that are not read: see AheadError
	again   bool              // they were listed once
	idle    int               // waits in vain since then
	pending []logEnd          // groups with entries to read
	tail    *Tail             // of the first of them, if it has begun
}

// A logEnd is a group and the offset of its last entry.
type logEnd struct{ Group, Last string }

// TailStream returns a reader of the logs of all groups of a stream. It does no input or output.
func (c *Client) TailStream(stream string, o StreamTailOptions) *StreamTail {
	after := maps.Clone(o.After)
	if after == nil {
		after = map[string]string{}
	}
	o.Wait = cmp.Or(max(o.Wait, 0), 20*time.Second)
	return &StreamTail{client: c, stream: stream, options: o, after: after, aside: map[string]bool{}}
}

// An AheadError says that the log of a group ends before the offset of a tail: the server was
// restored from an older copy, and has lost entries that the tail has returned. Their numbers will
// be used again for other entries, so the tail sets the group aside. Compare what you did with the
// log, and then call [StreamTail.Resume].
type AheadError struct {
	Group string
	// Next is the present end of the log, for [StreamTail.Resume].
	Next string
	// Problem is the response.
	Problem *Problem
}

// Error returns the group and the problem.
func (e *AheadError) Error() string {
	return fmt.Sprintf("group %s is set aside: %v", e.Group, e.Problem)
}

// Unwrap returns the problem.
func (e *AheadError) Unwrap() error { return e.Problem }

// Resume ends that a group is set aside: it is read again, after an offset.
func (t *StreamTail) Resume(group, after string) {
	if t.aside[group] {
		delete(t.aside, group)
		t.after[group], t.listed = after, false // the list says where its log ends
	}
}

// Offsets returns the position in each group after the entries that Next returned. Start another
// tail with it as [StreamTailOptions.After] to continue.
func (t *StreamTail) Offsets() map[string]string { return maps.Clone(t.after) }

// Next returns the next entry, with its group. If there is none yet, it waits until the context
// ends.
//
// After an error that has an [*ExpiredError], the next call continues in that group with the first
// entry that the server has kept. After an [*AheadError], it continues with the other groups.
// Another [*Problem] with a type is final. After an [*UnacknowledgedError], call Next again.
func (t *StreamTail) Next(ctx context.Context) (Entry, error) {
	for {
		switch {
		case len(t.pending) > 0:
			e, err := t.read(ctx)
			if err == nil || !errors.Is(err, ErrEnd) {
				return e, err
			}
		case t.listed && t.options.NoFollow:
			return Entry{}, ErrEnd
		default:
			if err := t.find(ctx); err != nil {
				return Entry{}, fmt.Errorf("list groups: %w", err)
			}
		}
	}
}

// read returns the next entry of the first group that has some, or ErrEnd if that is done.
func (t *StreamTail) read(ctx context.Context) (Entry, error) {
	at := t.pending[0]
	if t.tail == nil {
		t.tail = t.client.Tail(t.stream, at.Group, TailOptions{After: t.after[at.Group], Max: t.options.Max, NoFollow: true})
	}
	e, err := t.tail.Next(ctx)
	var expired *ExpiredError
	var refused *Problem
	switch {
	case err == nil:
		t.after[at.Group] = e.Offset
		// Entries that are appended later are a change: a busy group does not keep the others from
		// being read.
		if e.Offset >= at.Last && len(t.tail.page) == 0 {
			t.pending, t.tail = t.pending[1:], nil
		}
		return e, nil
	case errors.Is(err, ErrEnd):
		t.after[at.Group] = t.tail.Offset()
		t.pending, t.tail = t.pending[1:], nil
		return Entry{}, ErrEnd
	case errors.As(err, &expired):
		t.after[at.Group], t.tail = expired.Next, nil
	case errors.As(err, &refused) && refused.Type == Ahead:
		t.aside[at.Group] = true
		t.pending, t.tail = t.pending[1:], nil
		return Entry{}, &AheadError{Group: at.Group, Next: refused.Next, Problem: refused}
	}
	return Entry{}, fmt.Errorf("group %s: %w", at.Group, err)
}

// idleWaits is after how many waits in vain all groups are listed again, in case a commit was
// applied whose result the server does not know.
const idleWaits = 3

// find looks for groups with entries to read: in the list of all groups at first, and then in the
// changes.
func (t *StreamTail) find(ctx context.Context) error {
	if !t.listed {
		return t.list(ctx)
	}
	if t.options.OnWait != nil {
		t.options.OnWait()
	}
	began := time.Now() //nolint:forbidigo // only how long the request took
	page, err := t.ask(ctx, url.Values{"changes": {t.changes}, "wait": {strconv.FormatInt(int64((t.options.Wait+time.Second-1)/time.Second), 10)}}, t.options.Wait)
	var refused *Problem
	if errors.As(err, &refused) && refused.Type == Expired {
		t.listed = false
		return nil
	}
	if err != nil {
		return err
	}
	t.changes = page.Changes
	if t.add(page.Groups); len(t.pending) > 0 {
		return nil
	}
	if t.idle++; t.idle >= idleWaits {
		t.listed = false
	}
	return pause(ctx, t.client.options.MinBackoff-time.Since(began))
}

// list lists all groups. Changes since the beginning of the list follow it.
func (t *StreamTail) list(ctx context.Context) error {
	var all []logEnd
	changes := ""
	for after := ""; ; {
		query := url.Values{"max": {"1000"}}
		if after != "" {
			query.Set("after", after)
		}
		page, err := t.ask(ctx, query, 0)
		if err != nil {
			return err
		}
		changes, all = cmp.Or(changes, page.Changes), append(all, page.Groups...)
		if after = page.Next; after == "" {
			break
		}
	}
	for _, g := range all {
		if _, known := t.after[g.Group]; t.options.FromNow && !t.again && !known {
			t.after[g.Group] = g.Last
		}
	}
	t.add(all)
	t.changes, t.listed, t.again, t.idle = changes, true, true, 0
	return nil
}

// add adds the groups that have entries after those that were read.
func (t *StreamTail) add(groups []logEnd) {
	for _, g := range groups {
		if t.after[g.Group] != g.Last && !t.aside[g.Group] {
			t.pending = append(t.pending, g)
		}
	}
}

// A groupPage is a part of a list of groups.
type groupPage struct {
	Groups        []logEnd
	Next, Changes string
}

func (t *StreamTail) ask(ctx context.Context, query url.Values, wait time.Duration) (groupPage, error) {
	if t.stream == "" {
		return groupPage{}, errors.New("stream must not be empty")
	}
	r := request{method: http.MethodGet, url: t.client.at("streams", t.stream, "groups") + "?" + query.Encode(), wait: wait}
	return call(ctx, t.client, r, func(a answer) (p groupPage, refused *Problem) {
		if a.status != http.StatusOK || json.Unmarshal(a.body, &p) != nil || p.Changes == "" {
			return groupPage{}, problemOf(a)
		}
		return p, nil
	})
}
