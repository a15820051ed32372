package console

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
	"github.com/effectively-once/once/internal/dedup/log"
)

// shownEntries is how many entries of a log a page has.
const shownEntries = 50

// A logPage is a page of the log of a group.
type logPage struct {
	Stream, Group string
	Entries       []client.Entry // the newest first
	// Follow is true for the page that has the last entries, and those that follow.
	Follow bool
	Ended  bool
	// Earlier and Later are offsets, empty if there is no such page. Expired says that entries
	// before those of the page are gone.
	Earlier, Later string
	Expired        bool
	// Waiting says for what the group waits, on the page that has the last entries.
	Waiting []admin.Wait
}

// log shows entries of a log: those after an offset, or the last ones.
func (c *console) log(r *http.Request) (view, error) {
	p := logPage{Stream: r.FormValue("stream"), Group: r.FormValue("group")}
	after := r.FormValue("after")
	p.Follow = after == ""
	begin, err := log.ParseOffset(after)
	if p.Follow && err == nil {
		begin, err = c.lastEntries(r, &p)
	}
	if err != nil {
		return view{}, invalid(err)
	}
	if err := c.readLog(r, &p, begin); err != nil {
		return view{}, invalid(err)
	}
	args := []string{"tail", p.Stream + "/" + p.Group}
	if p.Follow {
		g, err := c.System.Group(r.Context(), p.Stream, p.Group)
		if err != nil && !errors.Is(err, admin.ErrNotFound) {
			return view{}, err
		}
		p.Waiting = g.Waiting
	} else {
		args = append(args, "--after", after)
	}
	return view{Template: "log", Title: "Log of " + p.Stream + "/" + p.Group, Live: true, Data: &p, Commands: []string{c.onServer(r, args...)}}, nil
}

// invalid returns the failure for an offset or a name that can't be one.
func invalid(err error) error {
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		return problem
	}
	if _, ok := errors.AsType[*client.UnacknowledgedError](err); ok {
		return err
	}
	return &failure{status: http.StatusBadRequest, text: err.Error()}
}

// lastEntries returns the offset before the last entries of a log.
func (c *console) lastEntries(r *http.Request, p *logPage) (log.Offset, error) {
	tail := c.api.Tail(p.Stream, p.Group, client.TailOptions{After: client.FromNow, NoFollow: true})
	if _, err := tail.Next(r.Context()); !errors.Is(err, client.ErrEnd) {
		return log.Offset{}, err
	}
	end, err := log.ParseOffset(tail.Offset())
	return back(end), err
}

// back returns an offset a page earlier.
func back(o log.Offset) log.Offset {
	if o.Number <= shownEntries {
		return log.Offset{}
	}
	o.Number -= shownEntries
	return o
}

// readLog reads a page of entries. If entries after the offset have expired, it begins with the
// first one that is kept.
func (c *console) readLog(r *http.Request, p *logPage, begin log.Offset) error {
	after := ""
	if begin != (log.Offset{}) {
		after = begin.String()
	}
	tail := c.api.Tail(p.Stream, p.Group, client.TailOptions{After: after, Max: shownEntries, NoFollow: true})
	for len(p.Entries) < shownEntries {
		e, err := tail.Next(r.Context())
		if expired, ok := errors.AsType[*client.ExpiredError](err); ok && expired.Next != "" && !p.Expired {
			p.Expired = true
			tail = c.api.Tail(p.Stream, p.Group, client.TailOptions{After: expired.Next, Max: shownEntries, NoFollow: true})
			continue
		}
		if errors.Is(err, client.ErrEnd) {
			break
		}
		if err != nil {
			return err
		}
		p.Entries = append(p.Entries, e)
		p.Ended = e.Kind == "end"
	}
	if n := len(p.Entries); n > 0 {
		first, err := log.ParseOffset(p.Entries[0].Offset)
		if err != nil {
			return err
		}
		if first.Number--; first.Number > 0 && !p.Expired {
			p.Earlier = earlier(first)
		}
		if n == shownEntries && !p.Follow {
			p.Later = p.Entries[n-1].Offset
		}
	}
	slices.Reverse(p.Entries)
	return nil
}

// earlier returns the offset of the page before an offset. The first page begins at number 0, which
// is the offset before the first entry.
func earlier(o log.Offset) string {
	o.Number -= min(o.Number, shownEntries)
	return o.String()
}

// A sessionList is the page of the sessions of a stream or of a group.
type sessionList struct {
	Stream, Group string
	Rows          []sessionRow
	Pool          *client.PoolInfo
	Streams       []string // those that have pools, if none was named
}

// A sessionRow is one session.
type sessionRow struct {
	client.SessionInfo
	Text string // its state
}

func (c *console) sessions(r *http.Request) (view, error) {
	data := sessionList{Stream: r.FormValue("stream"), Group: r.FormValue("group")}
	if data.Stream == "" {
		for _, s := range c.Streams() {
			if s.Partitions > 0 {
				data.Streams = append(data.Streams, s.Name)
			}
		}
		return view{Template: "sessions", Title: "Sessions", Data: &data, Commands: []string{c.onServer(r, "sessions", "STREAM")}}, nil
	}
	list, err := c.api.Sessions(r.Context(), data.Stream, data.Group)
	if err != nil {
		return view{}, err
	}
	data.Pool = list.Pool
	for i := range list.Sessions {
		data.Rows = append(data.Rows, sessionRow{list.Sessions[i], plain.SessionState(&list.Sessions[i])})
	}
	args := []string{"sessions", data.Stream}
	if data.Group != "" {
		args = append(args, "--group", data.Group)
	}
	return view{Template: "sessions", Title: "Sessions of " + data.Stream, Live: true, Data: &data, Commands: []string{c.onServer(r, args...)}}, nil
}

// numberOf reads a field of a form that has a number. An empty one is 0.
func numberOf(r *http.Request, field string) (uint64, error) {
	text := r.PostForm.Get(field)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &failure{status: http.StatusBadRequest, text: "The field " + field + " must be a whole number."}
	}
	return n, nil
}
