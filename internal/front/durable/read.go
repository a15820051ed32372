package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// A reading is a request that reads.
type reading struct {
	key     record.GroupKey
	state   *state
	after   log.Offset
	now     bool // from the end of the log
	cursor  string
	initial uint64 // incarnation
}

// A part is the result of one read.
type part struct {
	values   [][]byte
	next     log.Offset
	upToDate bool
	closed   bool // nothing will follow
}

func (s *server) get(w http.ResponseWriter, r *http.Request, key record.GroupKey) error {
	g, st, err := s.exists(r.Context(), key)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	q := &reading{key: key, state: st, cursor: query.Get("cursor"), initial: g.Incarnation}
	if err := q.offset(query, g); err != nil {
		return err
	}
	if err := s.used(r.Context(), key, st); err != nil {
		return err
	}
	switch live := query.Get("live"); {
	case live == "":
		return s.catchUp(w, r, q)
	case !query.Has("offset"):
		return refuse(http.StatusBadRequest, "A live read needs an offset.")
	case live == "long-poll":
		return s.longPoll(w, r, q)
	case live == "sse":
		return s.events(w, r, q)
	}
	return refuse(http.StatusBadRequest, "live has to be long-poll or sse.")
}

// offset reads the offset. The beginning is before the first entry that is kept.
func (q *reading) offset(query url.Values, g *record.Group) error {
	text, values := query.Get("offset"), query["offset"]
	switch {
	case len(values) > 1 || len(values) == 1 && text == "":
		return refuse(http.StatusBadRequest, "offset has to be there once, and must not be empty.")
	case text == "now":
		q.now, q.after = true, log.Offset{Incarnation: g.Incarnation, Number: tail(g.Log)}
		return nil
	case text == "" || text == "-1":
		return nil
	}
	var err error
	if q.after, err = log.ParseOffset(text); err != nil {
		return refuse(http.StatusBadRequest, "offset has to be one that the stream returned, -1 or now.")
	}
	return nil
}

// used notes that a stream with a TTL is read. The group record gets the time now and then, so that
// it survives a restart.
func (s *server) used(ctx context.Context, key record.GroupKey, st *state) error {
	if st.TTL == 0 {
		return nil
	}
	now, ttl := s.Now(), time.Duration(st.TTL)*time.Second
	s.uses.note(key, now, ttl)
	if now.Sub(st.Used) < ttl/2 || !s.Writable(key.Stream) {
		return nil
	}
	err := s.write(ctx, key, &operation{touch: true})
	if _, no := errors.AsType[*refusal](err); no { // it is closed or gone
		return nil
	}
	return err
}

// read returns the entries after the offset.
func (s *server) read(ctx context.Context, q *reading) (part, error) {
	page, err := s.Logs.Read(ctx, q.key, q.after, 1000)
	if expired, ok := errors.AsType[*log.ExpiredError](err); ok {
		if (expired.First == log.Offset{}) {
			return part{}, refuse(http.StatusNotFound, "There is no such stream.")
		}
		return part{}, refuse(http.StatusGone, "Entries after this offset have expired.")
	}
	if _, ok := errors.AsType[*log.AheadError](err); ok {
		return part{}, refuse(http.StatusBadRequest, "The offset is after the end of the stream.")
	}
	if err != nil {
		return part{}, fmt.Errorf("read stream: %w", err)
	}
	p := part{next: page.Next, upToDate: page.Next.Number >= tail(page.Log)}
	if p.next.Incarnation == 0 {
		p.next.Incarnation = q.initial
	}
	p.next.Number = min(p.next.Number, tail(page.Log))
	p.closed = page.Log.Ended && p.upToDate
	for i := range page.Entries {
		if err := p.add(&page.Entries[i], q.state); err != nil {
			return part{}, err
		}
	}
	return p, nil
}

// add adds the content of an entry. A value that is no JSON is a string in a stream of JSON values.
func (p *part) add(e *log.Encoded, st *state) error {
	var x struct {
		Kind string `cbor:"kind"`
		Body []byte `cbor:"body"`
	}
	if err := cbor.Unmarshal(e.AppendCBOR(nil, p.next.Incarnation, ""), &x); err != nil {
		return fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	if x.Kind != string(record.EntryMessage) {
		return nil
	}
	if isJSON(st.Type) && !json.Valid(x.Body) {
		text, err := json.Marshal(string(x.Body))
		if err != nil {
			return fmt.Errorf("encode entry: %w", err)
		}
		x.Body = text
	}
	p.values = append(p.values, x.Body)
	return nil
}

// content returns the values as the body of an answer.
func (p *part) content(st *state) []byte {
	var b []byte
	if !isJSON(st.Type) {
		for _, v := range p.values {
			b = append(b, v...)
		}
		return b
	}
	b = append(b, '[')
	for i, v := range p.values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return append(b, ']')
}

// position sets the headers about the place of a part.
func (p *part) position(h http.Header) {
	h.Set("Stream-Next-Offset", p.next.String())
	if p.upToDate {
		h.Set("Stream-Up-To-Date", "true")
	}
	if p.closed {
		h.Set("Stream-Closed", "true")
	}
}

func (s *server) catchUp(w http.ResponseWriter, r *http.Request, q *reading) error {
	p, err := s.read(r.Context(), q)
	if err != nil {
		return err
	}
	h := w.Header()
	p.position(h)
	h.Set("Content-Type", q.state.Type)
	if q.now {
		h.Set("Cache-Control", "no-store")
	} else if s.cached(w, r, q, &p) {
		return nil
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(p.content(q.state))
	return nil
}

// cached sets the headers for caches, and answers if the caller has the part.
func (s *server) cached(w http.ResponseWriter, r *http.Request, q *reading, p *part) bool {
	tag := `"` + strconv.FormatUint(p.next.Incarnation, 10) + ":" + strconv.FormatUint(q.after.Number, 10) + ":" + strconv.FormatUint(p.next.Number, 10)
	if p.closed {
		tag += ":c"
	}
	tag += `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, max-age=60, stale-while-revalidate=300")
	if r.Header.Get("If-None-Match") != tag {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// await reads the next part, and waits for it if there is none.
func (s *server) await(ctx context.Context, q *reading, wait time.Duration) (part, error) {
	f := s.Logs.Follow(q.key) // before reading, see package follow
	defer f.Close()
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		p, err := s.read(ctx, q)
		if err != nil || len(p.values) > 0 || p.closed {
			return p, err
		}
		if f.Wait(waiting) != nil {
			return p, nil
		}
	}
}

func (s *server) longPoll(w http.ResponseWriter, r *http.Request, q *reading) error {
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	p, err := s.await(r.Context(), q, s.Wait)
	if err != nil {
		return err
	}
	h := w.Header()
	p.position(h)
	if !p.closed {
		h.Set("Stream-Cursor", cursorAfter(q.cursor, s.Now()))
	}
	if len(p.values) == 0 {
		h.Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	h.Set("Content-Type", q.state.Type)
	if s.cached(w, r, q, &p) {
		return nil
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(p.content(q.state))
	return nil
}

// cursorEvery is how long the cursor of the protocol stays the same.
const cursorEvery = 20 * time.Second

// cursorAfter returns the cursor of an answer: the number of the present interval, and later than
// that of the request, so that no cache answers it with the same answer for ever.
func cursorAfter(last string, now time.Time) string {
	epoch := time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)
	n := int64(now.Sub(epoch) / cursorEvery)
	if before, err := strconv.ParseInt(last, 10, 64); err == nil && before >= n {
		n = before + 1 + rand.Int64N(180) //nolint:gosec // an hour at most; no secret
	}
	return strconv.FormatInt(n, 10)
}
