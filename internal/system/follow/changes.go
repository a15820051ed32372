package follow

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// keptChanges is how many changes a hub remembers.
const keptChanges = 8192

// A Mark is a position in the changes of a hub. The marks of another hub, such as that of the
// process before, are not valid.
type Mark struct{ hub, number uint64 }

// String returns the text that ParseMark parses.
func (m Mark) String() string { return fmt.Sprintf("%016x-%d", m.hub, m.number) }

// ParseMark parses the text of a mark, and reports whether it is one.
func ParseMark(text string) (Mark, bool) {
	a, b, _ := strings.Cut(text, "-")
	hub, err1 := strconv.ParseUint(a, 16, 64)
	number, err2 := strconv.ParseUint(b, 10, 64)
	m := Mark{hub, number}
	return m, err1 == nil && err2 == nil && m.String() == text
}

// A change is an append to the log of a group.
type change struct {
	number uint64
	key    record.GroupKey
}

// changes are the last appends to logs, in their order. They are a ring: the change with a number
// is at that number modulo the length.
type changes struct {
	hub  uint64 // 0 until it is needed
	last uint64 // the number of the last change
	ring []change
}

// id returns a number that other hubs do not have.
func (c *changes) id() uint64 {
	for c.hub == 0 {
		c.hub = rand.Uint64() //nolint:gosec // nobody gains from guessing it
	}
	return c.hub
}

// add notes an append.
func (c *changes) add(key record.GroupKey) {
	c.last++
	if len(c.ring) < keptChanges {
		c.ring = append(c.ring, change{c.last, key})
		return
	}
	c.ring[(c.last-1)%keptChanges] = change{c.last, key}
}

// after returns the changes after a number, or false if they are not all remembered.
func (c *changes) after(number uint64) ([]change, bool) {
	if number > c.last || c.last-number > uint64(len(c.ring)) {
		return nil, false
	}
	var out []change
	for n := number; n < c.last; n++ {
		out = append(out, c.ring[n%keptChanges])
	}
	return out, true
}

// Mark returns the position after all appends so far.
func (h *Hub) Mark() Mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Mark{h.changes.id(), h.changes.last}
}

// Changed returns up to limit groups of a stream to whose logs something was appended after a mark,
// each once, and the mark to continue at. It returns false if the hub does not know: then list all
// groups. A commit whose result is unknown is not among the changes.
func (h *Hub) Changed(stream string, after Mark, limit int) (groups []string, next Mark, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.changes.after(after.number)
	if !ok || after.hub != h.changes.id() {
		return nil, Mark{}, false
	}
	next = Mark{after.hub, h.changes.last}
	seen := map[string]bool{}
	for _, x := range found {
		if x.key.Stream != stream || seen[x.key.Group] {
			continue
		}
		if len(groups) == limit {
			next.number = x.number - 1
			break
		}
		seen[x.key.Group] = true
		groups = append(groups, x.key.Group)
	}
	return groups, next, true
}

// FollowStream returns a follower of all groups of a stream.
func (h *Hub) FollowStream(stream string) Follower { return h.Follow(record.GroupKey{Stream: stream}) }
