package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/system/follow"
)

// Groups lists the groups of streams that have logs; *follow.Groups is one.
type Groups interface {
	List(ctx context.Context, stream, after string, limit int) (follow.GroupPage, error)
	Ends(ctx context.Context, stream string, names []string) ([]follow.GroupEnd, error)
	Changed(stream string, after follow.Mark, limit int) (groups []string, next follow.Mark, ok bool)
	FollowStream(stream string) follow.Follower
}

const maxGroups = 1000 // in an answer

// A groupsQuery is which groups a caller asks for.
type groupsQuery struct {
	stream  string
	after   string
	changes follow.Mark
	changed bool // only those that changed after the mark
	max     int
	wait    time.Duration
}

// A groupList is the answer.
type groupList struct {
	Groups  []groupEnd `json:"groups"`
	Next    string     `json:"next,omitempty"`
	Changes string     `json:"changes"`
}

type groupEnd struct {
	Group string `json:"group"`
	Last  string `json:"last"`
	End   bool   `json:"end"`
}

// getGroups answers with the groups of a stream that have a log, or with those whose logs changed.
func (s *server) getGroups(w http.ResponseWriter, r *http.Request) error {
	q, err := s.groupsQuery(r)
	if err != nil {
		return err
	}
	var page follow.GroupPage
	if q.changed {
		page, err = s.changedGroups(r.Context(), &q)
	} else {
		page, err = s.Groups.List(r.Context(), q.stream, q.after, q.max)
	}
	if err != nil {
		return err
	}
	answer := groupList{Groups: make([]groupEnd, len(page.Groups)), Next: page.Next, Changes: page.Mark.String()}
	for i, g := range page.Groups {
		answer.Groups[i] = groupEnd{g.Group, g.Last.String(), g.Ended}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	h := w.Header()
	h["Cache-Control"], h["X-Content-Type-Options"], h["Content-Type"] = []string{"no-store"}, []string{"nosniff"}, []string{formatJSON}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(body, '\n')) // if it fails, the caller is gone
	return nil
}

// groupsQuery checks who asks for which groups.
func (s *server) groupsQuery(r *http.Request) (q groupsQuery, err error) {
	if _, err := s.caller(r); err != nil {
		return q, err
	}
	stream, err := s.stream(r)
	if err != nil {
		return q, err
	}
	if err := s.logged(stream); err != nil {
		return q, err
	}
	if s.Groups == nil {
		return q, problem.New(problem.UnknownRoute, "This server does not list groups, because it would read the whole table for that. Read the logs of groups that you know.")
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, problem.New(problem.MalformedRequest, "The query can't be read.")
	}
	q = groupsQuery{stream: stream.Name, max: defaultEntries}
	for name, list := range values {
		if len(list) != 1 {
			return q, malformed(name, "must be in the query once")
		}
		if err := q.set(name, list[0]); err != nil {
			return q, err
		}
	}
	if q.changed && q.after != "" || !q.changed && q.wait > 0 {
		return q, problem.New(problem.MalformedRequest, "The parameter after is for a list, wait for changes.")
	}
	q.max, q.wait = min(q.max, maxGroups), min(q.wait, s.longestLogWait(r.Context()))
	if r.Method == http.MethodHead {
		q.wait = 0
	}
	return q, nil
}

func (q *groupsQuery) set(name, value string) error {
	switch name {
	case "after":
		q.after = value
	case "changes":
		if q.changes, q.changed = follow.ParseMark(value); !q.changed {
			return malformed(name, "must be one that a list of groups returned")
		}
	case "max":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil || n == 0 {
			return malformed(name, "must be a decimal number of at least 1")
		}
		q.max = int(n)
	case "wait":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return malformed(name, "must be a number of seconds")
		}
		q.wait = time.Duration(n) * time.Second
	default:
		return problem.New(problem.MalformedRequest, "The query has a parameter other than after, changes, max and wait.")
	}
	return nil
}

// changedGroups returns the groups whose logs changed, as soon as there are some or the wait is
// over.
func (s *server) changedGroups(ctx context.Context, q *groupsQuery) (page follow.GroupPage, err error) {
	f := s.Groups.FollowStream(q.stream) // before reading, see package follow
	defer f.Close()
	names, next, ok := s.Groups.Changed(q.stream, q.changes, q.max)
	if ok && len(names) == 0 && q.wait > 0 {
		leave, err := s.enterLog()
		if err != nil {
			return page, err
		}
		defer leave()
		waiting, cancel := context.WithTimeout(ctx, q.wait)
		defer cancel()
		for ok && len(names) == 0 && f.Wait(waiting) == nil {
			names, next, ok = s.Groups.Changed(q.stream, next, q.max)
		}
	}
	if !ok {
		return page, problem.New(problem.Expired, "The server does not know the changes after this mark any more. List all groups again.")
	}
	page.Mark = next
	if len(names) > 0 {
		page.Groups, err = s.Groups.Ends(ctx, q.stream, names)
	}
	return page, err
}
