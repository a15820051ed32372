package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// Sessions are the sessions of streams; *session.Sessions is one.
type Sessions interface {
	Ends
	Open(ctx context.Context, id session.ID, o session.Opening) (session.Opened, error)
	Read(ctx context.Context, id session.ID, r session.Reading) (session.Page, error)
	Commit(ctx context.Context, id session.ID, c session.Commit) error
	Fail(ctx context.Context, id session.ID, f session.Failure) (session.Failed, error)
	Release(ctx context.Context, id session.ID, fence uint64) error
	Renew(ctx context.Context, id session.ID, fence uint64) (time.Time, error)
	Retire(ctx context.Context, id session.ID, r session.Retirement) error
	Describe(ctx context.Context, id session.ID) (session.Description, error)
	List(ctx context.Context, stream, group, after string, limit int) (session.Listing, error)
	DescribePool(ctx context.Context, stream string) (session.PoolDescription, error)
}

// A sessionCall is a call of a session whose name, group and stream are checked.
type sessionCall func(s *server, w http.ResponseWriter, r *http.Request, id session.ID) error

// sessionCalls are the calls below the path of a session, by name.
func sessionCalls() map[string]struct {
	method string
	call   sessionCall
} {
	type entry = struct {
		method string
		call   sessionCall
	}
	return map[string]entry{
		"entries": {http.MethodGet, (*server).sessionEntries},
		"commit":  {http.MethodPost, (*server).commitSession},
		"fail":    {http.MethodPost, (*server).failSession},
		"release": {http.MethodPost, (*server).releaseSession},
		"renew":   {http.MethodPost, (*server).renewSession},
		"retire":  {http.MethodPost, (*server).retireSession},
	}
}

// The paths of sessions: of the pool of a stream, and of the log of a group.
const (
	poolSessions  = "/v1/streams/{stream}/sessions"
	groupSessions = "/v1/streams/{stream}/groups/{group}/sessions"
)

// sessionRoutes lists the routes of sessions.
func sessionRoutes() []route {
	var out []route
	for _, path := range []string{poolSessions, groupSessions} {
		out = append(out,
			route{http.MethodGet, path, (*server).listSessions},
			route{http.MethodPost, path + "/{name}", onSession((*server).openSession)},
			route{http.MethodGet, path + "/{name}", onSession((*server).describeSession)},
		)
		for name, c := range sessionCalls() {
			out = append(out, route{c.method, path + "/{name}/" + name, onSession(c.call)})
		}
	}
	return out
}

// unknownCall answers a path below the sessions of a pool or a group that is none of their routes.
func unknownCall(*server, http.ResponseWriter, *http.Request) error {
	return problem.New(problem.UnknownRoute, "A session has the calls POST …/sessions/NAME, which opens it; GET …/sessions/NAME and …/NAME/entries; and POST …/NAME/commit, fail, release, renew and retire. In NAME, and in a group before it, write a slash as %2F.")
}

// onSession returns a handler that checks who calls, and which session.
func onSession(call sessionCall) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request) error {
		id, err := s.session(r)
		if err != nil {
			return err
		}
		return call(s, w, r, id)
	}
}

// session returns the session that the path names.
func (s *server) session(r *http.Request) (session.ID, error) {
	id, err := s.readable(r)
	if id.Name = r.PathValue("name"); err == nil {
		err = malformedName(session.CheckName("session", id.Name))
	}
	return id, err
}

// readable returns the pool or log that the path names, as a session without a name.
func (s *server) readable(r *http.Request) (session.ID, error) {
	if _, err := s.caller(r); err != nil {
		return session.ID{}, err
	}
	stream, err := s.stream(r)
	if err != nil {
		return session.ID{}, err
	}
	id := session.ID{Stream: stream.Name, Group: r.PathValue("group")}
	if s.Sessions == nil {
		return id, &problem.Problem{Type: problem.UnknownRoute}
	}
	if id.Group != "" {
		m := record.Message{Stream: stream.Name, ID: "x", Group: id.Group}
		if err := m.Validate(); err != nil {
			return id, malformedName(err)
		}
		if m.Placed() {
			return id, malformedField("group", "must be UTF-8 text without control characters")
		}
		return id, s.logged(stream)
	}
	if stream.Partitions == 0 {
		return id, problem.New(problem.NoPool, fmt.Sprintf("The stream %s has no pool. Give it one in the configuration, for example pool: {}; or read the log of one group, at %s/groups/GROUP/sessions/NAME.", stream.Name, "/v1/streams/"+stream.Name))
	}
	return id, nil
}

// malformedName returns the problem for a name that can't be one.
func malformedName(err error) error {
	if wrong, ok := errors.AsType[*record.InvalidError](err); ok {
		return malformedField(wrong.Field, wrong.Rule)
	}
	return err
}
