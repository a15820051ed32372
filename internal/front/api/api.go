package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/front/batch"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/follow"
)

// Engine lists the methods of the engine that the HTTP API calls; *dedup.Engine is one.
type Engine interface {
	Stream(name string) (record.Stream, bool)
	Issue(ctx context.Context, m record.Message) (token record.Token, fresh bool, err error)
	IssueAll(ctx context.Context, messages []record.Message) []admission.Issued
	Call(ctx context.Context, m record.Message) record.Outcome
	Forget(ctx context.Context, m record.Message) error
	Status(ctx context.Context, m record.Message) (admission.State, error)
	IssueEpoch(ctx context.Context, m record.Message, after *uint64) (uint64, error)
	CheckEpochs(ctx context.Context, messages []record.Message) []error
}

// Queue is the ingress queue.
type Queue interface {
	// EnqueueAll puts messages on the queue and returns an error for each. If that is nil, the
	// message is durable, with every token that was issued before the call. After an error the
	// caller gets 503, and the message may be on the queue nevertheless.
	//
	// Messages of one group are put in their order; after one that failed, no later one of its
	// group is. Those of a numbered stream may be put in any order. The messages are not changed
	// afterwards.
	EnqueueAll(ctx context.Context, messages []record.Message) []error
}

// Logs reads the logs of groups and waits for appends to them; *follow.Logs is one.
type Logs interface {
	// Read returns the entries after an offset, as [log.Read] does.
	Read(ctx context.Context, group record.GroupKey, after log.Offset, limit int) (log.Page, error)
	// End returns an empty page at the end of a log.
	End(ctx context.Context, group record.GroupKey) (log.Page, error)
	Follow(group record.GroupKey) follow.Follower
}

// Defaults of [Options].
const (
	DefaultMaxWaiting   = 1000
	DefaultMaxFollowing = 10_000
	DefaultLogWait      = 20 * time.Second
)

// Options configure the handler. Zero fields take the defaults in their comments.
type Options struct {
	Engine Engine // required
	Queue  Queue  // required
	// System is the name of this system. Messages that came through it are refused as loops.
	// Defaults to no name: then no loop is found.
	System string
	// Direct processes messages without the queue, if it can. Defaults to nil: every message goes
	// through the queue.
	Direct Direct
	// Logs reads the logs of groups. Defaults to nil: there are no logs.
	Logs Logs
	// Sessions are the sessions of streams; they need Logs. Defaults to nil: there are no sessions.
	Sessions Sessions
	// Groups lists the groups of a stream. Defaults to nil: there is no such list.
	Groups Groups
	// LogWait is the longest that a reader of a log can wait for entries. Defaults to
	// [DefaultLogWait].
	LogWait time.Duration
	// MaxFollowing is the largest number of readers that wait for entries at a time. The next one
	// gets 429. Defaults to [DefaultMaxFollowing].
	MaxFollowing int
	// Heartbeat is the time without an event after which a stream of events gets a comment line, so
	// that proxies keep the connection. Defaults to 15 s.
	Heartbeat time.Duration
	// SlowestEvents is how long a write of events may take. A reader that does not read for that
	// long is cut off, and resumes where it was. Defaults to 20 s.
	SlowestEvents time.Duration
	// Await returns when a message is done, rejected, deleted or known to have another content, or
	// when the context ends. Defaults to [Poll] with the engine's Status.
	Await func(ctx context.Context, m record.Message) (admission.State, error)
	// Principal returns the authenticated sender of a request; never from a header that a caller
	// could set. It scopes identities. If it returns an error, the answer is 403. Defaults to "":
	// no authentication.
	Principal func(*http.Request) (string, error)
	// Allow returns a problem if the sender of a request may not use a route, as "GET /healthz", for
	// a stream; the stream is empty for a route without one. It is called for each route before
	// anything else, also for streams that do not exist, and again with "Once-End" in place of the
	// route for a message that ends a log. Defaults to allowing all.
	Allow func(r *http.Request, route, stream string) error
	// MaxWaiting is the largest number of callers that wait for handlers at a time: with Prefer:
	// wait, or while their one-time requests run. The next one gets 429, and nothing is stored.
	// Defaults to [DefaultMaxWaiting].
	MaxWaiting int
	// Streams lists the streams that a caller may know of, for the problem that names an unknown
	// one. Defaults to none.
	Streams func(*http.Request) []string
	// Ready returns nil if requests can be served; if not, /healthz answers 503. Defaults to ready.
	Ready func(context.Context) error
	// RequestID names a request in problems and in the log. Defaults to a random UUID.
	RequestID func(*http.Request) string
	// Observe gets an event for each message and each failed request. It must not block. Optional.
	Observe func(record.Event)
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
	// LogKeys writes the keys of messages to the log, beside their hashes.
	LogKeys bool
}

func (o Options) withDefaults() Options {
	if o.Await == nil {
		o.Await = Poll(o.Engine)
	}
	if o.Principal == nil {
		o.Principal = func(*http.Request) (string, error) { return "", nil }
	}
	if o.Allow == nil {
		o.Allow = func(*http.Request, string, string) error { return nil }
	}
	o.MaxWaiting = cmp.Or(o.MaxWaiting, DefaultMaxWaiting)
	o.MaxFollowing = cmp.Or(o.MaxFollowing, DefaultMaxFollowing)
	o.LogWait = cmp.Or(o.LogWait, DefaultLogWait)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	o.SlowestEvents = cmp.Or(o.SlowestEvents, 20*time.Second)
	if o.Streams == nil {
		o.Streams = func(*http.Request) []string { return nil }
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	if o.RequestID == nil {
		o.RequestID = randomID
	}
	if o.Observe == nil {
		o.Observe = func(record.Event) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// server answers; it keeps nothing between requests.
type server struct {
	Options
	decoder   batch.Decoder
	room      *room
	waiting   atomic.Int64 // callers that wait for handlers
	following atomic.Int64 // readers that wait for entries
	buffers   sync.Pool    // of *[]byte, for pages of logs
}

// handler answers a request, or returns why it can't: a *problem.Problem, or an error of a port.
type handler func(s *server, w http.ResponseWriter, r *http.Request) error

type route struct {
	method, path string
	handle       handler
}

const groupLog = "/v1/streams/{stream}/groups/{group}/log"

// routes lists all routes. An id may hold slashes, and is therefore last in its path: a proxy or
// gateway in front of the handler may have decoded them already.
func routes() []route {
	return append([]route{
		{http.MethodPost, "/v1/streams/{stream}/messages", (*server).postMessage},
		{http.MethodPost, "/v1/streams/{stream}/batch", (*server).postBatch},
		{http.MethodGet, "/v1/streams/{stream}/messages/{id...}", (*server).getMessage},
		{http.MethodPut, "/v1/streams/{stream}/requests/{id...}", (*server).putRequest},
		{http.MethodPost, "/v1/streams/{stream}/requests/{id...}", (*server).postRequest},
		{http.MethodDelete, "/v1/streams/{stream}/requests/{id...}", (*server).deleteRequest},
		{http.MethodGet, "/v1/streams/{stream}/requests/{id...}", (*server).getRequest},
		{http.MethodGet, "/v1/streams/{stream}/groups", (*server).getGroups},
		{http.MethodGet, groupLog, (*server).getLog},
		{http.MethodPost, "/v1/streams/{stream}/end", (*server).postEnd},
		{http.MethodPost, "/v1/streams/{stream}/epochs/{id...}", (*server).postEpoch},
		{http.MethodGet, "/healthz", (*server).health},
		{http.MethodGet, "/openapi.json", (*server).openapi},
	}, sessionRoutes()...)
}

// New returns the handler. It panics if a required option is missing, which is a mistake of the
// program.
func New(o Options) http.Handler {
	if o.Engine == nil || o.Queue == nil {
		panic("api: Engine and Queue are required")
	}
	s := &server{Options: o.withDefaults(), room: newRoom()}
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, rt := range routes() {
		mux.Handle(rt.method+" "+rt.path, s.serve(allowed(rt.method+" "+rt.path, rt.handle)))
		methods[rt.path] = append(methods[rt.path], rt.method)
		if rt.method == http.MethodGet {
			methods[rt.path] = append(methods[rt.path], http.MethodHead)
		}
	}
	for path, allowed := range methods {
		mux.Handle(path, s.serve(notAllowed(allowed)))
	}
	mux.Handle("/", s.serve(unknownRoute))
	// Without these the mux would redirect to the paths with a slash at their end.
	mux.Handle("/v1/streams/{stream}/requests", s.serve(unknownRoute))
	mux.Handle("/v1/streams/{stream}/epochs", s.serve(unknownRoute))
	mux.Handle(poolSessions+"/{path...}", s.serve(unknownCall))
	// A gateway may have decoded the slashes in the name of a group.
	mux.Handle("/v1/streams/{stream}/groups/{path...}", s.serve(allowed("GET "+groupLog, (*server).getDecodedLog)))
	return s.clean(mux)
}

// allowed asks Allow before a route is served.
func allowed(route string, handle handler) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request) error {
		if err := s.Allow(r, route, r.PathValue("stream")); err != nil {
			return err
		}
		return handle(s, w, r)
	}
}

func unknownRoute(*server, http.ResponseWriter, *http.Request) error {
	return &problem.Problem{Type: problem.UnknownRoute}
}

func notAllowed(methods []string) handler {
	slices.Sort(methods)
	return func(*server, http.ResponseWriter, *http.Request) error {
		return &problem.Problem{Type: problem.MethodNotAllowed, Allow: methods}
	}
}

// clean refuses paths that the mux would redirect: the redirected path would name another id.
func (s *server) clean(mux *http.ServeMux) http.Handler {
	refuse := s.serve(unknownRoute)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if escaped := r.URL.EscapedPath(); unclean(escaped) {
			refuse.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func unclean(escaped string) bool {
	if !strings.HasPrefix(escaped, "/") {
		return true
	}
	if !strings.Contains(escaped, "//") && !strings.Contains(escaped, "/.") {
		return false
	}
	return path.Clean(escaped) != strings.TrimSuffix(escaped, "/")
}
