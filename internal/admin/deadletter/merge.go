package deadletter

import (
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// A Merged lists dead letters, one for each identity, though the queue keeps several of one.
type Merged struct {
	// Limit is how many identities are listed. Content is that of [Letter.InfoWithContent].
	Limit, Content int
	// List is the result.
	List []admin.DeadLetter

	places map[string]int
}

// Add adds a letter. It returns false if the list is full, and has no letter of this identity.
func (m *Merged) Add(l *Letter) bool {
	key := l.Queue + "\x00" + wire.LetterIdentity(&l.Refused)
	if i, there := m.places[key]; there {
		m.List[i] = merge(m.List[i], l.InfoWithContent(m.Content))
		return true
	}
	if len(m.List) >= m.Limit {
		return false
	}
	if m.places == nil {
		m.places = map[string]int{}
	}
	if key != l.Queue+"\x00" {
		m.places[key] = len(m.List)
	}
	m.List = append(m.List, l.InfoWithContent(m.Content))
	return true
}

// merge describes two letters of one identity by the newer one, or by the one that can be processed
// if only one can.
func merge(a, b admin.DeadLetter) admin.DeadLetter {
	never := func(d *admin.DeadLetter) bool { return wire.Unprocessable(record.Reason(d.Reason)) }
	shown, other := b, a
	if never(&b) && !never(&a) || never(&b) == never(&a) && b.Sent.Before(a.Sent) {
		shown, other = a, b
	}
	first := shown.Sent
	for _, d := range []*admin.DeadLetter{&a, &b} {
		if d.First != nil && d.First.Before(first) {
			first = *d.First
		}
		if d.Sent.Before(first) {
			first = d.Sent
		}
		if d.Sent.After(shown.Sent) {
			shown.Sent = d.Sent
		}
	}
	shown.First, shown.Count = &first, max(1, a.Count)+max(1, b.Count)
	shown.Copies = append(append(append([]string{}, shown.Copies...), other.Copies...), other.MessageID)
	return shown
}
