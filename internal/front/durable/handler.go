package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/follow"
)

// Prefix is the path under which [New] serves.
const Prefix = "/v1/stream/"

// pattern is the path of all routes.
const pattern = Prefix + "{stream}/{group...}"

// Engine lists the methods of the engine that the protocol needs; *dedup.Engine has them.
type Engine interface {
	Stream(name string) (record.Stream, bool)
	Call(ctx context.Context, m record.Message) record.Outcome
	DropGroup(ctx context.Context, key record.GroupKey) error
}

// Logs reads and follows logs; *follow.Logs is one.
type Logs interface {
	Read(ctx context.Context, group record.GroupKey, after log.Offset, limit int) (log.Page, error)
	Follow(group record.GroupKey) follow.Follower
}

// Options configure the handler. Fields without a default are required.
type Options struct {
	Engine Engine
	Logs   Logs
	// Load reads group records.
	Load func(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error)
	// Writable reports whether a stream's handler is one of [Wrap].
	Writable func(stream string) bool
	// Allow returns a problem if the sender of a request may not use a route for a stream. It is
	// called again with the header that ends a stream, or gives it an end, in place of the route.
	// Defaults to allowing all.
	Allow func(r *http.Request, route, stream string) error
	// May is Allow without a problem. A caller that may not read a stream is not told where it
	// ends. Defaults to allowing all.
	May func(r *http.Request, route, stream string) bool
	// Principal returns the authenticated sender of a request: producers of two principals are two,
	// whatever their ids. Defaults to "".
	Principal func(*http.Request) (string, error)
	// Wait is how long a long poll waits. Defaults to 20 s.
	Wait time.Duration
	// Events is how long a stream of events lasts before the reader connects again. Defaults to a
	// minute.
	Events time.Duration
	// MaxFollowing is the largest number of readers that wait for entries at a time. The next one
	// gets 429. Defaults to 10,000.
	MaxFollowing int
	// MaxWriting is the largest number of requests that write at a time, each with its body in
	// memory. The next one gets 429. Defaults to 1,000.
	MaxWriting int
	Now        func() time.Time
	Log        *slog.Logger
}

type server struct {
	Options
	uses      *uses
	following atomic.Int64
	writing   atomic.Int64
}

// New returns the handler.
func New(o Options) http.Handler {
	if o.Allow == nil {
		o.Allow = func(*http.Request, string, string) error { return nil }
	}
	if o.May == nil {
		o.May = func(*http.Request, string, string) bool { return true }
	}
	if o.Principal == nil {
		o.Principal = func(*http.Request) (string, error) { return "", nil }
	}
	o.Wait = cmp.Or(o.Wait, 20*time.Second)
	o.Events = cmp.Or(o.Events, time.Minute)
	o.MaxFollowing = cmp.Or(o.MaxFollowing, 10_000)
	o.MaxWriting = cmp.Or(o.MaxWriting, 1000)
	return &server{Options: o, uses: newUses()}
}

// ServeHTTP answers a request of the protocol.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	err := s.serve(w, r)
	if err == nil {
		return
	}
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		p.Write(w, "")
		return
	}
	var no *refusal
	if !errors.As(err, &no) {
		s.Log.LogAttrs(r.Context(), slog.LevelWarn, "request of a durable stream failed", slog.String("method", r.Method), slog.Any("error", err))
		no = refuse(http.StatusServiceUnavailable, "The service is unavailable. Repeat the request.", "Retry-After", "1")
	}
	for name, value := range no.header {
		h.Set(name, value)
	}
	if no.status >= http.StatusBadRequest {
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.WriteHeader(no.status)
	if no.text != "" && r.Method != http.MethodHead {
		_, _ = io.WriteString(w, no.text+"\n") // if writing fails, the caller is gone
	}
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) error {
	key, err := s.key(r)
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		return s.get(w, r, key)
	case http.MethodHead:
		return s.head(w, r, key)
	case http.MethodOptions:
		w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, PUT, POST, DELETE")
		w.Header().Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match, Stream-Seq, Stream-TTL, Stream-Expires-At, Stream-Closed, Producer-Id, Producer-Epoch, Producer-Seq")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if !s.Writable(key.Stream) {
		return refuse(http.StatusMethodNotAllowed, "This stream is read only here.", "Allow", "GET, HEAD")
	}
	switch r.Method {
	case http.MethodPut:
		return s.put(w, r, key)
	case http.MethodPost:
		return s.post(w, r, key)
	case http.MethodDelete:
		return s.delete(w, r, key)
	}
	return refuse(http.StatusMethodNotAllowed, "", "Allow", "GET, HEAD, PUT, POST, DELETE")
}

// key returns the group that the path names. A group may have slashes.
func (s *server) key(r *http.Request) (record.GroupKey, error) {
	stream, group, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Prefix), "/")
	if err := s.Allow(r, r.Method+" "+pattern, stream); err != nil {
		return record.GroupKey{}, err
	}
	for _, header := range ending(r) {
		if err := s.Allow(r, header, stream); err != nil {
			return record.GroupKey{}, err
		}
	}
	known, ok := s.Engine.Stream(stream)
	m := record.Message{Stream: stream, ID: "x", Group: group}
	if group == "" || !ok || known.LogRetention == 0 || known.Partitions > 0 || m.Validate() != nil {
		return record.GroupKey{}, refuse(http.StatusNotFound, "There is no such stream with a log.")
	}
	return record.GroupKey{Stream: stream, Group: group}, nil
}

// ending returns the headers by which a request ends a stream, or says when it will.
func ending(r *http.Request) (headers []string) {
	if r.Method != http.MethodPut && r.Method != http.MethodPost {
		return nil
	}
	if closed(r.Header) {
		headers = append(headers, "Stream-Closed")
	}
	for _, name := range []string{"Stream-TTL", "Stream-Expires-At"} {
		if len(r.Header.Values(name)) > 0 {
			headers = append(headers, name)
		}
	}
	return headers
}

// load returns the record and the state of a stream. The record is nil if there is no such stream.
func (s *server) load(ctx context.Context, key record.GroupKey) (*record.Group, *state, error) {
	groups, _, err := s.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("load stream: %w", err)
	}
	g := &groups[0]
	st, exists, _ := parseState(g.State, g.Log) // the log of a handler's group can be read
	if g.Version == 0 || !exists || st.expired(s.uses.last(key), s.Now()) {
		return nil, &st, nil
	}
	return g, &st, nil
}

// exists is load, with an error if there is no such stream.
func (s *server) exists(ctx context.Context, key record.GroupKey) (*record.Group, *state, error) {
	g, st, err := s.load(ctx, key)
	if err == nil && g == nil {
		err = refuse(http.StatusNotFound, "There is no such stream.")
	}
	return g, st, err
}

// tail returns the number of the last entry that has content: the end of a log has no place.
func tail(l record.Log) uint64 {
	if l.Ended {
		return l.Last - 1
	}
	return l.Last
}

func closed(h http.Header) bool { return strings.EqualFold(h.Get("Stream-Closed"), "true") }

func (s *server) put(w http.ResponseWriter, r *http.Request, key record.GroupKey) error {
	o := &operation{create: true, typ: r.Header.Get("Content-Type"), closes: closed(r.Header)}
	if r.Header.Get("Stream-Forked-From") != "" {
		return refuse(http.StatusBadRequest, "Streams can't be forked here.")
	}
	o.typ = cmp.Or(o.typ, "application/octet-stream")
	if err := o.lifetime(r.Header); err != nil {
		return err
	}
	leave, err := s.content(w, r, o)
	if err != nil {
		return err
	}
	defer leave()
	err = s.write(r.Context(), key, o)
	no, again := errors.AsType[*refusal](err)
	if again = again && no.status == http.StatusOK; err != nil && !again {
		return err
	}
	g, st, err := s.exists(r.Context(), key)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", st.Type)
	s.place(h, r, g, o, tail(g.Log), !again)
	status := http.StatusOK
	if !again {
		h.Set("Location", location(r))
		status = http.StatusCreated
	}
	w.WriteHeader(status)
	return nil
}

// location returns the URL of a request. The conformance tests don't accept a path alone.
func location(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + r.URL.EscapedPath()
}

// lifetime reads the headers about the time of a stream.
func (o *operation) lifetime(h http.Header) error {
	ttl, expiry := h.Get("Stream-TTL"), h.Get("Stream-Expires-At")
	if len(h.Values("Stream-TTL")) > 0 {
		n, err := strconv.ParseUint(ttl, 10, 31)
		if err != nil || strconv.FormatUint(n, 10) != ttl || expiry != "" {
			return refuse(http.StatusBadRequest, "Stream-TTL has to be a whole number of seconds, without Stream-Expires-At.")
		}
		o.ttl = int64(n)
	}
	if expiry != "" {
		at, err := time.Parse(time.RFC3339, expiry)
		if err != nil {
			return refuse(http.StatusBadRequest, "Stream-Expires-At has to be a time of RFC 3339.")
		}
		o.expires, o.expiry = &at, expiry
	}
	return nil
}

// place sets the headers about the end of a stream after a write. A caller that may not read the
// stream gets only what its own write has done.
func (s *server) place(h http.Header, r *http.Request, g *record.Group, o *operation, last uint64, wrote bool) {
	reads := s.May(r, http.MethodGet+" "+pattern, g.Key.Stream)
	if reads || wrote {
		h.Set("Stream-Next-Offset", log.Offset{Incarnation: g.Incarnation, Number: last}.String())
	}
	if g.Log.Ended && (reads || o.closes) {
		h.Set("Stream-Closed", "true")
	}
}

func (s *server) post(w http.ResponseWriter, r *http.Request, key record.GroupKey) error {
	o := &operation{typ: r.Header.Get("Content-Type"), seq: r.Header.Get("Stream-Seq"), closes: closed(r.Header)}
	if err := o.numbers(r.Header); err != nil {
		return err
	}
	leave, err := s.content(w, r, o)
	if err != nil {
		return err
	}
	defer leave()
	if !o.closes && len(o.body) == 0 {
		if _, _, err := s.exists(r.Context(), key); err != nil {
			return err
		}
		return refuse(http.StatusBadRequest, "An empty body appends nothing.")
	}
	if len(o.body) > 0 && o.typ == "" {
		return refuse(http.StatusBadRequest, "Content-Type is missing.")
	}
	if _, _, err := s.exists(r.Context(), key); err != nil { // a stream that has expired since its last read
		return err
	}
	err = s.write(r.Context(), key, o)
	var no *refusal
	if err != nil && !errors.As(err, &no) {
		return err
	}
	g, _, err := s.exists(r.Context(), key)
	if err != nil {
		return err
	}
	h := w.Header()
	if no == nil {
		s.place(h, r, g, o, o.last, true)
	} else {
		s.place(h, r, g, o, tail(g.Log), false)
	}
	if no != nil {
		return no
	}
	status := http.StatusNoContent
	if o.producer != "" {
		h.Set("Producer-Epoch", strconv.FormatUint(o.number.Epoch, 10))
		h.Set("Producer-Seq", strconv.FormatUint(o.number.Seq, 10))
		if len(o.body) > 0 {
			status = http.StatusOK
		}
	}
	w.WriteHeader(status)
	return nil
}

// numbers reads the headers of a producer.
func (o *operation) numbers(h http.Header) error {
	id, epoch, seq := h.Values("Producer-Id"), h.Get("Producer-Epoch"), h.Get("Producer-Seq")
	if len(id) == 0 && epoch == "" && seq == "" {
		return nil
	}
	wrong := refuse(http.StatusBadRequest, "Producer-Id, Producer-Epoch and Producer-Seq come together: a name and two whole numbers.")
	if len(id) != 1 || id[0] == "" {
		return wrong
	}
	o.producer = id[0]
	for _, n := range []struct {
		text string
		to   *uint64
	}{{epoch, &o.number.Epoch}, {seq, &o.number.Seq}} {
		value, err := strconv.ParseUint(n.text, 10, 53)
		if err != nil || strings.HasPrefix(n.text, "+") {
			return wrong
		}
		*n.to = value
	}
	return nil
}

func (s *server) delete(w http.ResponseWriter, r *http.Request, key record.GroupKey) error {
	if _, _, err := s.exists(r.Context(), key); err != nil {
		return err
	}
	if err := s.Engine.DropGroup(context.WithoutCancel(r.Context()), key); err != nil {
		return err
	}
	s.uses.forget(key)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) head(w http.ResponseWriter, r *http.Request, key record.GroupKey) error {
	g, st, err := s.exists(r.Context(), key)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", st.Type)
	h.Set("Cache-Control", "no-store")
	h.Set("Stream-Next-Offset", log.Offset{Incarnation: g.Incarnation, Number: tail(g.Log)}.String())
	if g.Log.Ended {
		h.Set("Stream-Closed", "true")
	}
	if st.TTL > 0 {
		h.Set("Stream-TTL", strconv.FormatInt(st.TTL, 10))
	}
	if st.ExpiresAt != "" {
		h.Set("Stream-Expires-At", st.ExpiresAt)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
