package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/problem"
)

// A describedSession is a session as people and checks see it.
type describedSession struct {
	Name       string          `json:"name"`
	Fence      uint64          `json:"fence"`
	Life       uint64          `json:"life"`
	Holder     string          `json:"holder,omitempty"`
	LastHolder string          `json:"last_holder,omitempty"`
	LeaseUntil *time.Time      `json:"lease_until,omitempty"`
	Cursor     uint64          `json:"cursor"`
	Last       uint64          `json:"last"`
	Dead       []numberRange   `json:"dead"`
	Tries      uint64          `json:"tries"`
	At         uint64          `json:"at,omitempty"`
	Detail     string          `json:"detail,omitempty"`
	Takeovers  uint64          `json:"takeovers"`
	Retired    bool            `json:"retired"`
	Returned   bool            `json:"returned"`
	Restored   bool            `json:"restored"`
	Ended      bool            `json:"ended"`
	State      json.RawMessage `json:"state,omitempty"`
}

func newDescribedSession(name string, d *session.Description) describedSession {
	x := describedSession{
		Name: name, Fence: d.Fence, Life: d.Life, Holder: d.Holder, LastHolder: d.LastHolder, Cursor: d.Cursor, Last: d.Cursor, Dead: numbers(d.Dead), Tries: d.Tries, At: d.At, Detail: d.Detail, Takeovers: d.Takeovers,
		Retired: d.Closed, Returned: d.Returned, Restored: d.Restored, Ended: d.Ended, State: d.State,
	}
	if !d.LeaseUntil.IsZero() {
		x.LeaseUntil = &d.LeaseUntil
	}
	for _, p := range d.Parts {
		x.Last = max(x.Last, p.Number+p.Count-1)
	}
	return x
}

// describeSession answers with a session.
func (s *server) describeSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	d, err := s.Sessions.Describe(r.Context(), id)
	if err != nil {
		return sessionProblem(err)
	}
	if d.Fence == 0 {
		return &problem.Problem{Type: problem.UnknownSession}
	}
	return writeJSON(w, http.StatusOK, newDescribedSession(id.Name, &d))
}

// A sessionList is the answer to a caller who asks for all sessions.
type sessionList struct {
	Sessions []describedSession `json:"sessions"`
	Next     string             `json:"next,omitempty"`
	Pool     *describedPool     `json:"pool,omitempty"`
}

type describedPool struct {
	Partitions []describedPartition `json:"partitions"`
	Waiting    uint64               `json:"waiting"`
	Returned   uint64               `json:"returned"`
	Unread     uint64               `json:"unread"`
	Ended      bool                 `json:"ended"`
}

type describedPartition struct {
	Last  uint64 `json:"last"`
	Dealt uint64 `json:"dealt"`
	Ended bool   `json:"ended"`
	Owner string `json:"owner,omitempty"`
}

// maxSessions is how many sessions one answer has.
const maxSessions = 1000

// listSessions answers with the sessions of a pool or of a log, and with the pool.
func (s *server) listSessions(w http.ResponseWriter, r *http.Request) error {
	id, err := s.readable(r)
	if err != nil {
		return err
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem.New(problem.MalformedRequest, "The query can't be read.")
	}
	limit := defaultEntries
	for name, list := range values {
		switch {
		case len(list) != 1:
			return malformed(name, "must be in the query once")
		case name == "max":
			n, err := strconv.ParseUint(list[0], 10, 31)
			if err != nil || n == 0 {
				return malformed(name, "must be a decimal number of at least 1")
			}
			limit = int(min(n, maxSessions))
		case name != "after":
			return problem.New(problem.MalformedRequest, "The query has a parameter other than after and max.")
		}
	}
	found, err := s.Sessions.List(r.Context(), id.Stream, id.Group, values.Get("after"), limit)
	if err != nil {
		return sessionProblem(err)
	}
	out := sessionList{Sessions: make([]describedSession, len(found.Sessions)), Next: found.Next}
	for i := range found.Sessions {
		x := &found.Sessions[i]
		out.Sessions[i] = newDescribedSession(x.ID.Name, &x.Description)
	}
	if id.Group == "" {
		p, err := s.Sessions.DescribePool(r.Context(), id.Stream)
		if err != nil {
			return sessionProblem(err)
		}
		out.Pool = newDescribedPool(&p)
	}
	return writeJSON(w, http.StatusOK, out)
}

func newDescribedPool(p *session.PoolDescription) *describedPool {
	out := &describedPool{Partitions: make([]describedPartition, len(p.Partitions)), Waiting: p.Waiting(), Returned: p.Returned, Unread: p.Unread, Ended: p.Ended}
	for i, x := range p.Partitions {
		out.Partitions[i] = describedPartition(x)
	}
	return out
}
