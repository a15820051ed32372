package process

import (
	"errors"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// runningPause is the time until a message is tried again whose earlier attempt is still running.
const runningPause = time.Second

var errRunning = errors.New("an earlier attempt of the message, or of one of its group, is still running")

// stillRunning is the result of a direct message whose earlier attempt is still running.
func stillRunning() Result {
	return Result{Outcome: record.Outcome{Err: errRunning}, Untried: true, Pause: runningPause}
}

// running holds the messages whose attempts have not ended in this process. An attempt can outlive
// the call that began it: a caller is answered before the attempt ends, and a handler can ignore
// the end of its context. Until it ends, no second attempt of its message begins here.
type running struct {
	mu       sync.Mutex
	messages map[identity]struct{}
}

// An identity names a message.
type identity struct{ principal, stream, name string }

// A claim holds the messages of one call of the engine.
type claim struct {
	running  *running
	messages []record.Message
	busy     map[record.GroupKey]bool // groups with a message that another call runs
}

// claim claims messages for a call of the engine. If another call runs one of them, the call gets no
// message of that group, so that none is processed before it.
func (r *running) claim(messages []record.Message) claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := claim{running: r, messages: messages}
	for i := range messages {
		if _, taken := r.messages[identityOf(&messages[i])]; !taken {
			continue
		}
		if c.busy == nil {
			c.busy = map[record.GroupKey]bool{}
		}
		c.busy[messages[i].GroupKey()] = true
	}
	for i := range messages {
		if c.free(i) {
			r.messages[identityOf(&messages[i])] = struct{}{}
		}
	}
	return c
}

func identityOf(m *record.Message) identity { return identity{m.Principal, m.Stream, m.Identity()} }

// free reports whether message i may be processed.
func (c *claim) free(i int) bool { return c.busy == nil || !c.busy[c.messages[i].GroupKey()] }

// all returns the messages that may be processed.
func (c *claim) all() []record.Message {
	if c.busy == nil {
		return c.messages
	}
	var out []record.Message
	for i := range c.messages {
		if c.free(i) {
			out = append(out, c.messages[i])
		}
	}
	return out
}

// release releases the messages when their attempts have ended.
func (c *claim) release() {
	c.running.mu.Lock()
	defer c.running.mu.Unlock()
	for i := range c.messages {
		if c.free(i) {
			delete(c.running.messages, identityOf(&c.messages[i]))
		}
	}
}
