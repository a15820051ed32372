package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/follow"
)

// Header of a page of a log, beside headerEnd.
const headerNext = "Once-Next" // the offset to continue after

// getLog answers with entries of the log of a group.
func (s *server) getLog(w http.ResponseWriter, r *http.Request) error {
	return s.readLog(w, r, r.PathValue("group"))
}

// getDecodedLog answers for a group with slashes in its name.
func (s *server) getDecodedLog(w http.ResponseWriter, r *http.Request) error {
	group, ok := strings.CutSuffix(r.PathValue("path"), "/log")
	if !ok && strings.Contains(r.PathValue("path"), "/sessions/") {
		return unknownCall(s, w, r)
	}
	if !ok {
		return &problem.Problem{Type: problem.UnknownRoute}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return &problem.Problem{Type: problem.MethodNotAllowed, Allow: []string{http.MethodGet, http.MethodHead}}
	}
	return s.readLog(w, r, group)
}

func (s *server) readLog(w http.ResponseWriter, r *http.Request, group string) error {
	q, err := s.logQuery(r, group)
	if err != nil {
		return err
	}
	if q.format == formatEvents {
		return s.sendEvents(w, r, &q)
	}
	page, err := s.nextPage(r.Context(), &q)
	if err != nil {
		return logProblem(err)
	}
	return s.answerPage(w, &q, &page)
}

// logQuery checks who reads what.
func (s *server) logQuery(r *http.Request, group string) (logQuery, error) {
	principal, err := s.caller(r)
	if err != nil {
		return logQuery{}, err
	}
	stream, err := s.stream(r)
	if err != nil {
		return logQuery{}, err
	}
	q, err := readLogQuery(r.Header, r.URL.RawQuery, s.longestLogWait(r.Context()))
	if err != nil {
		return q, err
	}
	q.principal, q.group = principal, record.GroupKey{Stream: stream.Name, Group: group}
	if r.Method == http.MethodHead {
		q.wait = 0
	}
	m := record.Message{Stream: stream.Name, ID: "x", Group: group}
	if group == "" {
		return q, malformedField("group", "must not be empty")
	}
	if err := m.Validate(); err != nil {
		return q, malformedName(err)
	}
	return q, s.logged(stream)
}

// logged returns a problem if a stream keeps no log.
func (s *server) logged(stream record.Stream) error {
	if stream.LogRetention == 0 || s.Logs == nil {
		return problem.New(problem.NoLog, fmt.Sprintf("The stream %s keeps no log. Give it one in the configuration, for example log: {retain: 7d}.", stream.Name))
	}
	return nil
}

// longestLogWait returns how long this request can wait, in whole seconds.
func (s *server) longestLogWait(ctx context.Context) time.Duration {
	longest := s.LogWait
	if deadline, has := ctx.Deadline(); has {
		longest = min(longest, max(0, deadline.Sub(s.Now())-waitMargin))
	}
	return longest.Truncate(time.Second)
}

// nextPage reads the next page. If it is empty, nextPage waits for entries as long as the query
// wants.
func (s *server) nextPage(ctx context.Context, q *logQuery) (log.Page, error) {
	return waited(ctx, s, q.group, q.wait, func() (log.Page, bool, error) {
		p, err := s.readPage(ctx, q)
		return p, len(p.Entries) > 0 || p.End, err
	})
}

// waited reads a page of a group's log or session. If read reports that nothing came, waited reads
// again whenever the group has new entries, until the wait is over.
func waited[P any](ctx context.Context, s *server, g record.GroupKey, wait time.Duration, read func() (p P, some bool, err error)) (P, error) {
	if wait == 0 {
		p, _, err := read()
		return p, err
	}
	f := s.Logs.Follow(g) // before reading, see package follow
	defer f.Close()
	p, some, err := read()
	if err != nil || some {
		return p, err
	}
	leave, err := s.enterLog()
	if err != nil {
		return p, err
	}
	defer leave()
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for err == nil && !some {
		if f.Wait(waiting) != nil {
			return p, nil
		}
		p, some, err = read()
	}
	return p, err
}

// readPage reads once. From then on, a query from the end is one after a fixed offset.
func (s *server) readPage(ctx context.Context, q *logQuery) (log.Page, error) {
	if !q.now {
		return s.Logs.Read(ctx, q.group, q.after, q.max)
	}
	page, err := s.Logs.End(ctx, q.group)
	if err == nil {
		q.now, q.after = false, page.Next
	}
	return page, err
}

// enterLog counts a reader that waits for entries, until leave is called. If there are too many, it
// returns rate-limited.
func (s *server) enterLog() (leave func(), err error) {
	leave = func() { s.following.Add(-1) }
	if s.following.Add(1) > int64(s.MaxFollowing) {
		leave()
		return nil, problem.New(problem.RateLimited, fmt.Sprintf("%d readers wait for entries already. Read again later, or without wait.", s.MaxFollowing))
	}
	return leave, nil
}

// logProblem returns the problem for an error of a log; other errors stay as they are.
func logProblem(err error) error {
	if expired, ok := errors.AsType[*log.ExpiredError](err); ok {
		p := problem.New(problem.Expired, sentence(expired.Error()))
		if (expired.First != log.Offset{}) {
			p.First, p.Next = expired.First.Number+1, expired.First.String()
		}
		return p
	}
	if ahead, ok := errors.AsType[*log.AheadError](err); ok {
		p := problem.New(problem.Ahead, sentence(ahead.Error())+" Was the system restored from an older copy?")
		p.Next = ahead.Last.String()
		return p
	}
	if errors.Is(err, follow.ErrClosed) {
		return problem.New(problem.Unavailable, "The server is ending. Read again after the same offset.")
	}
	return err
}

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
