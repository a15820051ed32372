package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// This test runs the real Send through every order of the steps of servers beside each other, and
// every failure of each step, in small scenarios. The next call of a server depends only on the
// answers to its calls. So a server is a list of answers: Send is run again from the beginning with
// those answers, and stopped at its next call. A state is visited once, however it is reached.
//
// At each call: it works; it fails before it was applied, or after; it is reported as failed and is
// applied later; the server dies before or after it. Besides: another server sends, a message is
// processed, or delivered once more, and time passes, also the retention of the stream.
//
// No tick may be processed twice. At the end, when nothing fails any more, each tick that was
// begun, and the latest one, is processed or a dead letter.

// A scenario bounds a search.
type scenario struct {
	admission record.Admission
	times     []string // at which servers work
	servers   int      // how often Send is called
	faults    int
	copies    int // further deliveries of messages that stay on the queue
	// prompt says that time passes only while no server works: the assumption of token admission.
	prompt bool
	// begun says that the schedule has begun before the first of the times.
	begun bool
}

const forgotten = 30 * time.Minute // the retention of the stream

var everyHour = Schedule{Name: "h", Cron: "0 * * * *", Stream: "reports"}

// A universe is a state.
type universe struct {
	now     int // index in the times
	group   record.Group
	tokens  map[string]issuedToken
	queue   []record.Message
	late    []call // applied at any later time, or never
	runs    map[string]int
	dead    map[string]bool
	servers []server
	left    scenario
	// before is the state from which step led here.
	before *universe
	step   func() string
}

type issuedToken struct {
	state record.TokenState
	until time.Time
}

// A server is a call of Send that was not finished.
type server struct {
	start  time.Time
	script []reply
	asked  *call // the next call; nil if Send has returned
}

type call struct {
	name    string
	commit  record.Commit
	message record.Message
}

func (c *call) String() string {
	switch c.name {
	case "commit":
		return fmt.Sprintf("commit v%d %s", c.commit.Next.Version, c.commit.Next.State)
	case "issue", "enqueue":
		return c.name + " " + c.message.ID
	}
	return c.name
}

type reply struct {
	call  string
	group record.Group
	token record.Token
	err   error
	now   time.Time
	text  string
}

// host has the ports of a server that is run again.
type host struct {
	server *server
	stream record.Stream
	at     int
	now    time.Time
	asked  *call
}

func (h *host) ask(c call) reply {
	if h.at == len(h.server.script) {
		h.asked = &c
		panic(h)
	}
	r := h.server.script[h.at]
	if r.call != c.name {
		panic("Send made another call after the same answers")
	}
	h.at++
	h.now = r.now
	return r
}

func (h *host) Load(_ context.Context, keys []record.GroupKey, _ []record.TokenKey) ([]record.Group, []record.Token, error) {
	r := h.ask(call{name: "load"})
	if r.group.Key = keys[0]; r.err != nil {
		return nil, nil, r.err
	}
	return []record.Group{r.group}, nil, nil
}

func (h *host) Commit(_ context.Context, c record.Commit) error {
	return h.ask(call{name: "commit", commit: c}).err
}

func (h *host) Stream(string) (record.Stream, bool) { return h.stream, true }

func (h *host) Issue(_ context.Context, m record.Message) (record.Token, bool, error) {
	r := h.ask(call{name: "issue", message: m})
	return r.token, true, r.err
}

func (h *host) EnqueueAll(_ context.Context, messages []record.Message) []error {
	return []error{h.ask(call{name: "enqueue", message: messages[0]}).err}
}

var hourly = sync.OnceValue(func() []timed {
	table, err := everyHour.Timetable()
	if err != nil {
		panic(err)
	}
	return []timed{{everyHour, table}}
})

// next runs a server until its next call, or returns nil if Send has returned.
func (u *universe) next(s *server) (asked *call) {
	h := &host{server: s, now: s.start, stream: record.Stream{Name: "reports", Admission: u.left.admission, Retention: forgotten}}
	defer func() {
		if r := recover(); r != nil && r != any(h) {
			panic(r)
		}
		asked = h.asked
	}()
	x := Schedules{each: hourly(), cfg: Config{Store: h, Engine: h, Queue: h, Now: func() time.Time { return h.now }, NewID: func() string { return "" }, Log: slog.New(slog.DiscardHandler)}}
	_, _ = x.Send(context.Background()) // the next server repeats what failed
	return nil
}

func (u *universe) time() time.Time { return at(u.left.times[u.now]) }

// after returns a copy that a step leads to.
func (u *universe) after(step string, args ...any) *universe {
	n := *u
	n.tokens, n.runs, n.dead = maps.Clone(u.tokens), maps.Clone(u.runs), maps.Clone(u.dead)
	n.queue, n.late, n.servers = slices.Clone(u.queue), slices.Clone(u.late), slices.Clone(u.servers)
	for i := range n.servers {
		n.servers[i].script = slices.Clip(n.servers[i].script)
	}
	n.before, n.step = u, func() string { return fmt.Sprintf(step, args...) }
	return &n
}

// trace returns the steps that led to a state.
func (u *universe) trace() string {
	var steps []string
	for ; u.before != nil; u = u.before {
		steps = append(steps, u.step())
	}
	slices.Reverse(steps)
	return strings.Join(steps, "\n")
}

func (u *universe) token(id string) issuedToken {
	if t := u.tokens[id]; u.time().Before(t.until) {
		return t
	}
	return issuedToken{}
}

var errFault = errors.New("fault")

// apply does the work of a call.
func (u *universe) apply(c *call) (r reply) {
	switch c.name {
	case "load":
		r.group = u.group
	case "commit":
		if u.group.Version != c.commit.Loaded.Version {
			r.err = record.ErrConflict
			break
		}
		u.group = c.commit.Next
	case "issue":
		t := u.token(c.message.ID)
		if t.state == record.Absent {
			t = issuedToken{record.Issued, u.time().Add(record.IssuedRetention)}
			u.tokens[c.message.ID] = t
		}
		r.token.State = t.state
	case "enqueue":
		u.queue = append(u.queue, c.message)
	}
	return r
}

// process processes a message as the engine does.
func (u *universe) process(m *record.Message) {
	t := u.token(m.ID)
	switch {
	case t.state == record.Done:
	case t.state == record.Absent && u.left.admission == record.ByToken,
		t.state == record.Absent && !u.time().Before(m.Accepted.Add(forgotten)):
		u.dead[m.ID] = true
	default:
		u.runs[m.ID]++
		u.tokens[m.ID] = issuedToken{record.Done, u.time().Add(forgotten)}
	}
}

// hour returns the tick that an id belongs to, even if the id is not made of the nominal time.
func hour(id string) time.Time {
	_, text, _ := strings.Cut(id, "/")
	return at(text).Truncate(time.Hour)
}

// wrong returns the violation of a state, or "".
func (u *universe) wrong() string {
	runs := map[time.Time]int{}
	for id, n := range u.runs {
		if runs[hour(id)] += n; runs[hour(id)] > 1 {
			return "the tick of " + hour(id).Format(time.RFC3339) + " is processed twice"
		}
	}
	return ""
}

// key returns a text that is the same for equal states only.
func (u *universe) key() string {
	b := make([]byte, 0, 512)
	text := func(s string) { b = append(append(b, s...), '|') }
	number := func(n int) { b = append(strconv.AppendInt(b, int64(n), 10), '|') }
	number(u.now)
	number(int(u.group.Version))
	text(string(u.group.State))
	for _, n := range []int{u.left.servers, u.left.faults, u.left.copies, len(u.queue), len(u.late), len(u.servers)} {
		number(n)
	}
	for _, id := range slices.Sorted(maps.Keys(u.tokens)) {
		text(id)
		number(int(u.tokens[id].state))
		number(int(u.tokens[id].until.Unix()))
	}
	for _, id := range slices.Sorted(maps.Keys(u.runs)) {
		text(id)
		number(u.runs[id])
	}
	for _, id := range slices.Sorted(maps.Keys(u.dead)) {
		text("dead " + id)
	}
	for i := range u.queue {
		text(u.queue[i].ID)
		number(int(u.queue[i].Accepted.Unix()))
	}
	for i := range u.late {
		text(u.late[i].String())
	}
	for i := range u.servers {
		number(int(u.servers[i].start.Unix()))
		for _, r := range u.servers[i].script {
			text(r.text)
		}
		text("end")
	}
	return string(b)
}

// steps returns the states that can follow.
func (u *universe) steps() (out []*universe) {
	if u.now+1 < len(u.left.times) && (!u.left.prompt || len(u.servers) == 0) {
		n := u.after("time passes: %s", u.left.times[u.now+1])
		n.now++
		out = append(out, n)
	}
	if u.left.servers > 0 && len(u.servers) < 2 {
		n := u.after("a server sends")
		n.left.servers--
		n.servers = append(n.servers, server{start: u.time()})
		n.servers[len(n.servers)-1].asked = n.next(&n.servers[len(n.servers)-1])
		out = append(out, n)
	}
	for i := range u.queue {
		n := u.after("process %s", u.queue[i].ID)
		n.process(&n.queue[i])
		if n.left.copies > 0 {
			again := n.after("which stays on the queue")
			again.left.copies--
			out = append(out, again)
		}
		n.queue = slices.Delete(n.queue, i, i+1)
		out = append(out, n)
	}
	for i := range u.late {
		n := u.after("applied late: %v", &u.late[i])
		n.apply(&u.late[i])
		n.late = slices.Delete(n.late, i, i+1)
		out = append(out, n)
	}
	for i := range u.servers {
		out = append(out, u.stepsOf(i)...)
	}
	return out
}

// stepsOf returns the states that can follow the next call of a server.
func (u *universe) stepsOf(i int) (out []*universe) {
	c := u.servers[i].asked
	if c == nil {
		n := u.after("server %d has finished", i)
		n.servers = slices.Delete(n.servers, i, i+1)
		return []*universe{n}
	}
	answer := func(n *universe, r reply) {
		r.call, r.now = c.name, n.time()
		r.text = fmt.Sprint(r.call, r.group.Version, string(r.group.State), r.token.State, r.err, r.now.Unix())
		n.servers[i].script = append(n.servers[i].script, r)
		n.servers[i].asked = n.next(&n.servers[i])
		out = append(out, n)
	}
	works := u.after("server %d: %v", i, c)
	answer(works, works.apply(c))
	if u.left.faults == 0 {
		return out
	}
	for _, how := range []string{"fails", "fails after it", "dies", "dies after it", "late"} {
		n := u.after("server %d: %v: %s", i, c, how)
		n.left.faults--
		if strings.HasSuffix(how, "after it") {
			n.apply(c)
		}
		switch {
		case strings.HasPrefix(how, "dies"):
			n.servers = slices.Delete(n.servers, i, i+1)
			out = append(out, n)
		case how == "late" && c.name == "load":
		case how == "late":
			n.late = append(n.late, *c)
			fallthrough
		default:
			answer(n, reply{err: errFault})
		}
	}
	return out
}

// finish lets one more server send, processes all, and returns the violation, or "".
func (u *universe) finish() string {
	n := u.after("without faults:")
	n.servers, n.late, n.now = []server{{start: at(u.left.times[len(u.left.times)-1])}}, nil, len(u.left.times)-1
	for {
		c := n.next(&n.servers[0])
		if c == nil {
			break
		}
		r := n.apply(c)
		r.call, r.now = c.name, n.time()
		n.servers[0].script = append(n.servers[0].script, r)
	}
	for i := range n.queue {
		n.process(&n.queue[i])
	}
	if wrong := n.wrong(); wrong != "" {
		return wrong
	}
	st, _, err := readState(&n.group)
	if err != nil || st.Begun != nil {
		return fmt.Sprintf("the record is not complete: %+v, %v", st, err)
	}
	if st.Last.IsZero() { // the schedule has begun after the last tick
		return ""
	}
	for id := range n.runs {
		if hour(id).Equal(st.Last) {
			return ""
		}
	}
	for id := range n.dead {
		if hour(id).Equal(st.Last) {
			return ""
		}
	}
	return "the tick of " + st.Last.Format(time.RFC3339) + " is recorded, and neither processed nor a dead letter"
}

// explored visits all states and returns their number, or the shortest trace to a violation.
func explored(s scenario) (states int, trace, wrong string) {
	first := &universe{group: record.Group{Key: key("h")}, tokens: map[string]issuedToken{}, runs: map[string]int{}, dead: map[string]bool{}, left: s}
	if s.begun {
		data := []byte(`{"cron":"0 * * * *","through":"2026-11-27T00:30:00Z"}`)
		first.group = record.Group{Key: key("h"), Version: 1, Incarnation: 1, State: data}
	}
	seen := map[string]bool{first.key(): true}
	for level := []*universe{first}; len(level) > 0; {
		var following []*universe
		for _, u := range level {
			states++
			if wrong := u.wrong(); wrong != "" {
				return states, u.trace(), wrong
			}
			if len(u.servers) == 0 {
				if wrong := u.finish(); wrong != "" {
					return states, u.trace() + "\nwithout faults", wrong
				}
			}
			for _, n := range u.steps() {
				if k := n.key(); !seen[k] {
					seen[k] = true
					following = append(following, n)
				}
			}
		}
		level = following
	}
	return states, "", ""
}

func TestNoOrderOfStepsAndFailuresDoublesOrLosesATick(t *testing.T) {
	t.Parallel()
	before, tick, soon, later, after := "2026-11-27T00:30:00Z", "2026-11-27T01:00:00Z", "2026-11-27T01:10:00Z", "2026-11-27T01:40:00Z", "2026-11-27T03:00:00Z"
	times := []string{tick, soon, later}
	if testing.Short() {
		times = []string{tick, later}
	}
	for name, s := range map[string]scenario{
		"key":             {admission: record.ByKey, times: times, servers: 2, begun: true},
		"key, two faults": {admission: record.ByKey, times: []string{tick, later}, servers: 2, faults: 2, begun: true},
		"key, copies":     {admission: record.ByKey, times: []string{tick, later}, servers: 2, copies: 1, begun: true},
		"key, missed":     {admission: record.ByKey, times: []string{after}, servers: 2, faults: 1, begun: true},
		"first start":     {admission: record.ByKey, times: []string{before, tick}, servers: 2, faults: 1},
		"token":           {admission: record.ByToken, times: []string{tick, later}, servers: 2, faults: 1, prompt: true, begun: true},
	} {
		t.Run(name, func(t *testing.T) {
			states, trace, wrong := explored(s)
			if wrong != "" {
				t.Errorf("%s:\n%s", wrong, trace)
			}
			t.Logf("%d states", states)
		})
	}
}
