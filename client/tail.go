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

	"github.com/effectively-once/once/clock"
)

// FromNow is a [TailOptions.After]: read what is appended from now on.
const FromNow = "now"

// An Entry is one entry of the log of a group. Fields that do not apply are zero.
type Entry struct {
	// Group is the group that has the entry; in a session of a pool, the group that the sender
	// named.
	Group string
	// Number counts the entries of a log or a session: 1, 2, 3 … without holes.
	Number uint64
	// Offset is the position after this entry. Store it together with what the entry causes, and
	// continue there: see [TailOptions.After].
	Offset string
	// Kind is "message", "gap" if the numbers From to To of Source were skipped, or "end" for the
	// last entry of a log.
	Kind string
	// ID is the key of the message, or of a redriven dead letter of a pool.
	ID string
	// RedeliveryOf is the ID of the first entry of the message, if this one is that of a dead
	// letter of a pool that was redriven.
	RedeliveryOf string
	// Principal is the sender of the message, if it is the reader.
	Principal string
	Source    string
	Epoch     uint64
	Sequence  uint64
	From, To  uint64
	// Parents are the numbers of the entries that the message answers.
	Parents []uint64
	// ParentsMissing is true if some of Parents were not in the log: the stream's gap policy ended
	// the wait for them.
	ParentsMissing bool
	// Via names the other systems that the message came through, the first one first.
	Via []string
	// Late is true if the sender had not seen all entries that are before this one in time.
	Late bool
	// Time is the hybrid time of the commit. It rises with the number.
	Time        clock.Hybrid
	ContentType string
	Headers     map[string]string
	Body        []byte
}

// TailOptions configure a [Tail]. Zero fields take the defaults in their comments.
type TailOptions struct {
	// After is the offset to continue after, or [FromNow]. Defaults to the first entry that the
	// server has kept.
	After string
	// Max is how many entries a request asks for, and so how many the tail buffers. Defaults to
	// 1,000, at most 10,000; a response has at most about 2 MB.
	Max int
	// Wait is how long the server should wait for an entry if there is none. Defaults to 20
	// seconds, which is also the longest that a server waits.
	Wait time.Duration
	// NoFollow makes Next return [ErrEnd] at the present end of the log. By default it waits for
	// the next entry.
	NoFollow bool
}

func (o TailOptions) withDefaults() TailOptions {
	if o.Max <= 0 {
		o.Max = 1000
	}
	if o.Wait <= 0 {
		o.Wait = 20 * time.Second
	}
	return o
}

// A Tail reads the log of a group in order, from one offset on, and then waits for new entries. It
// survives lost connections, restarts of the server and its temporary errors: it reads again after
// the last entry that it has, so it misses nothing and returns nothing twice. Its methods are for
// one goroutine.
type Tail struct {
	client        *Client
	stream, group string
	options       TailOptions
	offset        string  // after the last entry that Next returned
	next          string  // after the entries in page
	page          []Entry // read, and not returned yet
	ended         bool    // nothing follows the entries in page
}

// An ExpiredError says that entries after the offset of a tail have expired, or that the log has
// begun again. To continue with what is left, start a tail after Next; the entries between are
// lost for this reader.
type ExpiredError struct {
	// First is the number of the first entry that the server has kept; 0 if there is none.
	First uint64
	// Next is the offset before that entry, for [TailOptions.After]; it is empty if there is none.
	Next string
	// Problem is the response.
	Problem *Problem
}

// Error returns the problem, and the first number that is left.
func (e *ExpiredError) Error() string {
	if e.First == 0 {
		return e.Problem.Error()
	}
	return fmt.Sprintf("%s (first entry: %d)", e.Problem.Error(), e.First)
}

// Unwrap returns the problem.
func (e *ExpiredError) Unwrap() error { return e.Problem }

// Tail returns a reader of the log of a group. It does no input or output.
func (c *Client) Tail(stream, group string, o TailOptions) *Tail {
	return &Tail{client: c, stream: stream, group: group, options: o.withDefaults(), offset: o.After, next: o.After}
}

// Offset returns the position after the last entry that Next returned: start another tail there to
// continue. Before the first entry it is [TailOptions.After]; with [FromNow], the end of the log as
// soon as a response has told it.
func (t *Tail) Offset() string { return t.offset }

// Next returns the next entry. If there is none yet, it waits until the context ends. It returns
// [ErrEnd] after the last entry of a log that has ended.
//
// An [*ExpiredError] or another [*Problem] with a type is final: the same call will fail again.
// After an [*UnacknowledgedError] by a context or by [Options.MaxElapsed], call Next again.
func (t *Tail) Next(ctx context.Context) (Entry, error) {
	for len(t.page) == 0 {
		if t.ended {
			return Entry{}, ErrEnd
		}
		began := time.Now() //nolint:forbidigo // only how long the request took
		if err := t.read(ctx); err != nil {
			return Entry{}, fmt.Errorf("read log: %w", err)
		}
		if len(t.page) > 0 || t.ended {
			continue
		}
		t.offset = t.next
		if t.options.NoFollow {
			return Entry{}, ErrEnd
		}
		// A server that is ending does not wait, and neither does one that is asked for the end.
		if err := pause(ctx, t.client.options.MinBackoff-time.Since(began)); err != nil {
			return Entry{}, fmt.Errorf("read log: %w", err)
		}
	}
	e := t.page[0]
	e.Group = t.group
	t.page, t.offset = t.page[1:], e.Offset
	return e, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return &UnacknowledgedError{Err: context.Cause(ctx)}
	case <-timer.C:
		return nil
	}
}

const cborSeq = "application/cbor-seq"

// read reads the next page. CBOR keeps bodies byte for byte.
func (t *Tail) read(ctx context.Context) error {
	if t.stream == "" || t.group == "" {
		return errors.New("stream and group must not be empty")
	}
	query := url.Values{"max": {strconv.Itoa(t.options.Max)}}
	if t.next != "" {
		query.Set("after", t.next)
	}
	wait := t.options.Wait
	if t.options.NoFollow || t.next == FromNow { // a wait that fails would begin again at a later end
		wait = 0
	}
	if seconds := int64((wait + time.Second - 1) / time.Second); seconds > 0 {
		query.Set("wait", strconv.FormatInt(seconds, 10))
	}
	r := request{
		method: http.MethodGet, url: t.client.at("streams", t.stream, "groups", t.group, "log") + "?" + query.Encode(),
		header: http.Header{"Accept": {cborSeq}}, wait: wait,
	}
	got, err := call(ctx, t.client, r, t.readPage)
	var refused *Problem
	if errors.As(err, &refused) && refused.Type == Expired {
		return &ExpiredError{First: refused.First, Next: refused.Next, Problem: refused}
	}
	if err == nil {
		t.page, t.next, t.ended = got.entries, got.next, got.end
	}
	return err
}

// A logPage is a response with entries.
type logPage struct {
	entries []Entry
	next    string
	end     bool
}

// readPage parses a response. If it is not a whole page after the tail's offset, it is a problem.
func (t *Tail) readPage(a answer) (logPage, *Problem) {
	p := logPage{next: a.header.Get("Once-Next"), end: a.header.Get("Once-End") == "true"}
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	if a.status != http.StatusOK || media != cborSeq || p.next == "" {
		return logPage{}, problemOf(a)
	}
	entries, ok := readEntries(a.body)
	for i := range entries {
		ok = ok && entries[i].Number == entries[0].Number+uint64(i)
	}
	if n := len(entries); !ok || n > 0 && entries[n-1].Offset != p.next {
		return logPage{}, problemOf(a)
	}
	p.entries = entries
	return p, nil
}
