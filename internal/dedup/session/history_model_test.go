package session_test

import (
	"strings"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/testkit/history"
)

// A poolState is the model's state of one pool. Nothing of it says how entries are dealt: any entry
// that no session has may be read next. That none is left out is shown at the end, by "drained".
type poolState struct {
	sessions [historyNames]nameState
	done     string // the entries that retired lives have processed
}

// A nameState is the present life of a name. All is zero before the first open, except closed.
type nameState struct {
	fence        uint64
	life         uint64 // 0 if only the consumer whose answer was lost could know it
	cursor, from uint64
	dealt        string // the entries of the numbers 1, 2, …, as far as anybody has read them
	at, tries    uint64
	open         bool // it is not retired
	held         bool // it is not released
	holder       string
}

// A sessionCall is a call of a method of [session.Sessions], or "drained".
type sessionCall struct {
	do       string
	name     int
	take     session.Take
	holder   string // of an open
	fence    uint64
	from, to uint64 // of a commit
	at, try  uint64 // of a failure
	after    uint64 // of a read
	atCursor bool   // a read after the cursor
	entries  int    // how many there are, in "drained"
}

// A sessionAnswer is the result of a call: one of the kinds of errors, or "" for success.
type sessionAnswer struct {
	err     string
	fence   uint64 // of an open
	life    uint64 // of an open
	cursor  uint64 // of an open, a moved commit or a read
	at      uint64 // of an open
	tries   uint64 // of an open or a failure
	entries string // of a read
}

// The errors of answers. A lost call may have been applied, or may be applied later, or never.
const (
	lost    = "lost"
	fenced  = "fenced"
	retired = "retired"
	heldBy  = "held"
	moved   = "moved"
	invalid = "invalid"
)

func sessionModel() *history.Model { return history.Of(poolState{}, stepSession) }

// stepSession is the contract of the sessions of a pool. See package session.
//
// A read is one step, although it reads the pool and the session and then writes the pool: the pool
// is loaded before the session, and its write fails if the pool has changed since. So the entries
// are dealt as if at the moment at which the session was loaded.
func stepSession(p poolState, in sessionCall, out sessionAnswer) (poolState, bool) {
	if in.do == "drained" {
		return p, len(p.processed()) == in.entries
	}
	s := p.sessions[in.name]
	right := false
	switch {
	case in.do == "open":
		right = s.take(in, out)
	case s.fence != in.fence:
		return p, out.err == fenced || out.err == lost
	case in.do == "retire":
		if right = out.err == "" || out.err == lost; s.open {
			p.done += s.dealt[:s.cursor]
			s = nameState{fence: s.fence}
		}
	case !s.open:
		return p, out.err == retired || out.err == lost
	case in.do == "read":
		right = s.read(&p, in, out)
	case in.do == "commit":
		right = s.commit(in, out)
	case in.do == "fail":
		right = s.fail(in, out)
	case in.do == "release":
		s.held, right = false, out.err == "" || out.err == lost
	}
	p.sessions[in.name] = s
	return p, right
}

// take is an open. A lost one may have raised the fence, but nobody knows the fence it has.
func (s *nameState) take(in sessionCall, out sessionAnswer) bool {
	if s.held && (in.take == session.TakeFree || in.take == session.TakeMine && in.holder != s.holder) {
		return out.err == heldBy || out.err == lost
	}
	if out.err == lost {
		out = sessionAnswer{fence: s.fence + 1, life: s.life, cursor: s.cursor, at: s.at, tries: s.tries}
		if !s.open {
			out.life = 0
		}
	} else if !s.open && out.life != out.fence {
		return false
	}
	if out.err != "" || out.fence <= s.fence || s.open && s.life != 0 && out.life != s.life {
		return false
	}
	s.fence, s.life, s.open, s.held, s.holder = out.fence, out.life, true, true, in.holder
	return out.cursor == s.cursor && out.at == s.at && out.tries == s.tries
}

func (s *nameState) read(p *poolState, in sessionCall, out sessionAnswer) bool {
	after := in.after
	if in.atCursor {
		after = s.cursor
	}
	if out.err != "" || out.cursor != after || after > uint64(len(s.dealt)) {
		return false
	}
	known := s.dealt[after:]
	more, old := strings.CutPrefix(out.entries, known)
	if !old {
		return strings.HasPrefix(known, out.entries)
	}
	taken := p.taken()
	for i, x := range more {
		if strings.ContainsRune(taken+more[:i], x) {
			return false
		}
	}
	s.dealt += more
	return true
}

func (s *nameState) commit(in sessionCall, out sessionAnswer) bool {
	switch {
	case s.cursor == in.to && (s.from == in.from || in.from == in.to):
		return out.err == "" || out.err == lost
	case s.cursor != in.from:
		return out.err == moved && out.cursor == s.cursor || out.err == lost
	}
	s.from, s.cursor, s.held = in.from, in.to, true
	return in.to <= uint64(len(s.dealt)) && (out.err == "" || out.err == lost)
}

func (s *nameState) fail(in sessionCall, out sessionAnswer) bool {
	tries := s.tries
	if s.at != in.at {
		tries = 0
	}
	switch {
	case in.at <= s.cursor:
		return out.err == moved && out.cursor == s.cursor || out.err == lost
	case in.try > tries+1:
		return out.err == invalid || out.err == lost
	case in.try > tries:
		s.at, s.tries, s.held = in.at, in.try, true
		tries = in.try
	}
	return out.err == "" && out.tries == tries || out.err == lost
}

// taken returns the entries that can't be dealt: those of sessions, and those that are processed.
func (p *poolState) taken() string {
	out := p.done
	for i := range p.sessions {
		out += p.sessions[i].dealt
	}
	return out
}

// processed returns the entries that sessions have processed in any life.
func (p *poolState) processed() string {
	out := p.done
	for i := range p.sessions {
		out += p.sessions[i].dealt[:p.sessions[i].cursor]
	}
	return out
}
