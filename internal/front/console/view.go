package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
	"github.com/effectively-once/once/internal/record"
)

const (
	// shownGroups is how many waiting groups the first page has, and how many groups a page of a
	// stream.
	shownGroups = 100
	// remoteGroups is how many waiting groups the first page has of a system elsewhere.
	remoteGroups = 20
	// shownLetters is how many dead letters the first page has.
	shownLetters = 5
)

// A stuck is one thing that does not move.
type stuck struct {
	Kind     admin.WaitKind
	Stream   string
	Group    string
	Wait     admin.Wait
	Commands []string
}

// An overview is the first page.
type overview struct {
	Charts   *charts
	Stuck    []stuck
	More     int
	Logs     []string // the command that prints the log of a system elsewhere
	Sessions []heldByNobody
	Dead     int
	Letters  []letterRow
	Queues   []admin.QueueStats
}

// heldByNobody is a session that has entries and no holder.
type heldByNobody struct {
	Stream   string
	Session  client.SessionInfo
	State    string
	Commands []string
}

func (c *console) overview(r *http.Request) (view, error) {
	most := shownGroups
	if c.Remote != nil {
		most = remoteGroups
	}
	o, err := c.System.Overview(r.Context(), most)
	if err != nil {
		return view{}, err
	}
	data := overview{More: o.More, Queues: o.Queues}
	if data.Charts, err = c.rates(r.Context(), ""); err != nil {
		return view{}, err
	}
	for i := range o.Groups {
		g := &o.Groups[i]
		for _, w := range g.Waiting {
			x := stuck{Kind: w.For, Stream: g.Stream, Group: g.Group, Wait: w, Commands: []string{c.onFolder("show", g.Stream+"/"+g.Group)}}
			if w.For == admin.WaitDestination {
				x.Commands = append(x.Commands, c.onFolder("skip", g.Stream+"/"+g.Group, strconv.FormatUint(w.Number, 10)))
			}
			data.Stuck = append(data.Stuck, x)
		}
	}
	if c.Remote != nil {
		data.Logs = []string{c.onFolder("logs")}
	}
	if data.Sessions, err = c.heldByNobody(r); err != nil {
		return view{}, err
	}
	for _, q := range o.Queues {
		if q.DeadLetter {
			data.Dead += q.Depth()
		}
	}
	if data.Dead > 0 && c.Remote == nil {
		if data.Letters, err = c.letterRows(r, admin.DeadLettersOptions{Limit: shownLetters}); err != nil {
			return view{}, err
		}
	}
	return view{Template: "overview", Title: "What does not move", Live: true, Data: &data, Commands: []string{c.onFolder("show"), c.onFolder("show", "--dead-letters")}}, nil
}

// heldByNobody returns the sessions of pools that have entries to process and no holder, or one
// whose lease has expired.
func (c *console) heldByNobody(r *http.Request) ([]heldByNobody, error) {
	var out []heldByNobody
	for _, s := range c.Streams() {
		if s.Partitions == 0 {
			continue
		}
		list, err := c.api.Sessions(r.Context(), s.Name, "")
		if err != nil {
			return nil, err
		}
		for _, x := range list.Sessions {
			held := x.Holder != "" && x.LeaseUntil.After(c.Now())
			if held || x.Retired || x.Lag() == 0 {
				continue
			}
			found := heldByNobody{Stream: s.Name, Session: x, State: plain.SessionState(&x), Commands: []string{c.onServer(r, "sessions", s.Name)}}
			switch {
			case x.Holder != "":
				found.State = "its lease has expired"
			case x.Tries > 0 && x.At > x.Cursor: // stopped at an entry
				found.Commands = append(found.Commands, c.onServer(r, "session", "from", s.Name, x.Name, "--skip-to", strconv.FormatUint(x.At, 10)))
			}
			out = append(out, found)
		}
	}
	return out, nil
}

func (c *console) streams(*http.Request) (view, error) {
	return view{Template: "streams", Title: "Streams", Data: c.Streams(), Commands: []string{c.onFolder("show"), line("check")}}, nil
}

// totals counts everything, which takes seconds if the store is large. So the page comes without
// counts, and its events bring them. A reader without events asks for them with the field count.
func (c *console) totals(r *http.Request) (view, error) {
	v := view{Template: "totals", Title: "Totals", Commands: []string{c.onFolder("show")}}
	if c.Remote == nil && !wantsEvents(r) && r.FormValue("count") == "" {
		v.Live = true
		return v, nil
	}
	stats, err := c.System.Stats(r.Context())
	v.Data = &stats
	return v, err
}

// A groupList is a page of the groups of a stream.
type groupList struct {
	Stream string
	Charts *charts // on the first page
	Ask    bool    // the groups are only listed if the reader asks for it
	Groups []admin.GroupInfo
	After  string
	Next   string
}

func (c *console) groups(r *http.Request) (view, error) {
	o := admin.GroupsOptions{Stream: r.FormValue("stream"), After: r.FormValue("after"), Limit: shownGroups}
	data := groupList{Stream: o.Stream, After: o.After}
	data.Ask = c.Remote != nil && o.After == "" && r.FormValue("list") == ""
	var err error
	if !data.Ask {
		data.Groups, err = c.System.Groups(r.Context(), o)
	} else if _, known := c.stream(o.Stream); !known {
		err = fmt.Errorf("stream %s: %w", o.Stream, admin.ErrNotFound)
	}
	if err != nil {
		return view{}, err
	}
	if o.After == "" {
		if data.Charts, err = c.rates(r.Context(), o.Stream); err != nil {
			return view{}, err
		}
	}
	if len(data.Groups) == shownGroups {
		data.Next = data.Groups[shownGroups-1].Group
	}
	args := []string{"show", o.Stream}
	if o.After != "" {
		args = append(args, "--after", o.After)
	}
	return view{Template: "groups", Title: "Stream " + o.Stream, Live: true, Data: &data, Commands: []string{c.onFolder(args...)}}, nil
}

// A group is the page of one group.
type group struct {
	admin.GroupInfo
	Log       bool
	ShowState bool
	StateText string
	StateSize int
}

func (c *console) group(r *http.Request) (view, error) {
	stream, name := r.FormValue("stream"), r.FormValue("group")
	g, err := c.System.Group(r.Context(), stream, name)
	if err != nil {
		return view{}, err
	}
	data := group{GroupInfo: g, ShowState: r.FormValue("state") != "", StateSize: len(g.State) + len(g.StateBase64)}
	if data.ShowState {
		data.StateText = body(&admin.Body{JSON: g.State, Base64: g.StateBase64})
	}
	s, known := c.stream(stream)
	data.Log = known && s.LogRetention > 0
	commands := []string{c.onFolder("show", stream+"/"+name)}
	for _, w := range g.Waiting {
		if w.For == admin.WaitDestination {
			commands = append(commands, c.onFolder("skip", stream+"/"+name, strconv.FormatUint(w.Number, 10)))
		}
	}
	if data.Log {
		commands = append(commands, c.onServer(r, "tail", stream+"/"+name))
	}
	return view{Template: "group", Title: "Group " + stream + "/" + name, Live: true, Data: &data, Commands: commands}, nil
}

// stream returns a stream by its name.
func (c *console) stream(name string) (record.Stream, bool) {
	for _, s := range c.Streams() {
		if s.Name == name {
			return s, true
		}
	}
	return record.Stream{}, false
}

// A message is the page of one message.
type message struct {
	admin.MessageInfo
	Steps []step
	Sends []admin.Send
	// Body of its reply, if it was asked for.
	ShowReply bool
	ReplyText string
	Receipt   *client.Receipt // if it was sent just now
}

// A step is a part of a message's life.
type step struct {
	Name  string
	State string // done, now, later or failed
	Text  string
	Waits []admin.Wait
}

func (c *console) message(r *http.Request) (view, error) {
	stream, id := r.FormValue("stream"), r.FormValue("id")
	quick, bounded := c.System.(Quick)
	if !bounded || r.FormValue("all") != "" {
		m, err := c.System.Message(r.Context(), stream, id)
		if err != nil {
			return view{}, err
		}
		v, err := c.messageView(r, m, nil)
		v.Live = v.Live && !bounded // the search read the whole store
		return v, err
	}
	m, err := quick.QuickMessage(r.Context(), stream, id)
	if err != nil {
		return view{}, further(err, link("/message", "stream", stream, "id", id, "all", "1"))
	}
	return c.messageView(r, m, nil)
}

// further returns the failure for a message that was not found where it is quick to look.
func further(err error, all string) error {
	if !errors.Is(err, admin.ErrNotFound) {
		return err
	}
	return &failure{status: http.StatusNotFound, text: err.Error(), all: all}
}

func (c *console) messageView(r *http.Request, m admin.MessageInfo, receipt *client.Receipt) (view, error) {
	data := message{MessageInfo: m, ShowReply: r.FormValue("reply") != "", Receipt: receipt}
	if m.Status == "committed" && m.Group != "" {
		g, err := c.System.Group(r.Context(), m.Stream, m.Group)
		if err != nil && !errors.Is(err, admin.ErrNotFound) {
			return view{}, err
		}
		for _, p := range g.Pending {
			if p.ID == m.ID {
				data.Sends = p.Sends
			}
		}
	}
	if data.ShowReply && m.Reply != nil {
		data.ReplyText = body(&m.Reply.Body)
	}
	data.Steps = life(&m, data.Sends)
	commands := []string{c.onFolder("show", m.Stream, "--id", m.ID)}
	if m.ID == "" {
		commands = []string{c.onFolder("show", "--hash", m.Hash)}
	}
	return view{Template: "message", Title: "Message " + cmp.Or(m.ID, m.Hash), Live: receipt == nil, Data: &data, Commands: commands}, nil
}

// life returns the steps of a message: those that are done, the one at which it is, and those that
// follow.
func life(m *admin.MessageInfo, sends []admin.Send) []step {
	sent := 0
	for _, s := range sends {
		if s.Sent {
			sent++
		}
	}
	effects := step{Name: "effects sent", Text: "to every destination"}
	if len(sends) > 0 {
		effects.Text = strconv.Itoa(sent) + " of " + plain.Plural(len(sends), "delivery")
		if len(sends) != 1 {
			effects.Text = strconv.Itoa(sent) + " of " + strconv.Itoa(len(sends)) + " deliveries"
		}
	}
	steps := []step{
		{Name: "accepted", Text: "its id is issued, or it is on the queue"},
		{Name: "processed", Text: "the handler of its stream runs, if there is one"},
		{Name: "committed", Text: "state, reply and effects, in one write"},
		effects,
		{Name: "done"},
	}
	now := map[string]int{"accepted": 1, "held": 1, "committed": 3, "done": 5, "deleted": 5, "rejected": 1}[m.Status]
	for i := range steps {
		switch {
		case i < now:
			steps[i].State = "done"
		case i == now:
			steps[i].State, steps[i].Waits = "now", m.Waiting
		default:
			steps[i].State = "later"
		}
	}
	switch m.Status {
	case "rejected":
		steps = append(steps[:1], step{Name: "refused: " + m.Reason, State: "failed", Text: m.Detail})
	case "deleted":
		steps = append(steps[:1], step{Name: "deleted", State: "done"})
	case "held":
		steps[1] = step{Name: "held", State: "now", Text: "until the messages before it are processed", Waits: m.Waiting}
	}
	return steps
}

// find is the page on which a message is looked for, by its hash in the log.
func (c *console) find(r *http.Request) (view, error) {
	hash := r.FormValue("hash")
	if hash == "" {
		return view{Template: "find", Title: "Find a message", Data: c.Streams(), Commands: []string{line("show", "STREAM", "--id", "ID"), line("show", "--hash", "HASH")}}, nil
	}
	o := admin.HashOptions{Hash: hash}
	if err := o.Validate(); err != nil {
		return view{}, &failure{status: http.StatusBadRequest, text: err.Error()}
	}
	byHash := c.System.ByHash
	quick, bounded := c.System.(Quick)
	if bounded = bounded && r.FormValue("all") == ""; bounded {
		byHash = quick.QuickByHash
	}
	m, err := byHash(r.Context(), o)
	if bounded && err != nil {
		err = further(err, link("/find", "hash", hash, "all", "1"))
	}
	if err != nil {
		return view{}, err
	}
	v, err := c.messageView(r, m, nil)
	v.Live = false // the search may read the whole store
	return v, err
}
