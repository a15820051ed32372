package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/effectively-once/once/e2e/chaos"
)

// chaosStreams are the streams of ten consecutive messages. They cover every admission, with and
// without groups.
var chaosStreams = []string{"keyed", "keyed", "keyed", "keyed", "loose", "issued", "issued", "numbered", "numbered", "numbered"}

// chaosBlock is the number of messages in a block. Within a block they are mixed; later blocks
// repeat some of them.
const chaosBlock = 5000

// A hurled message is one that clients send repeatedly, by HTTP or SQS.
type hurled struct {
	sent
	stream   string
	httpOnly bool        // without a group, or with a body that SQS refuses
	known    atomic.Bool // acknowledged by HTTP: from now on other content is key reuse
}

// A parcel is sent by one client together: one message by HTTP, or up to ten of a stream by SQS.
type parcel struct {
	sqs      bool
	reuse    bool
	stream   string
	messages []*hurled
}

// A chaosLoad makes blocks of messages.
type chaosLoad struct {
	random   *rand.Rand
	messages int // total
	groups   int
	sources  int

	made    int
	next    []uint64 // by source
	earlier []*hurled
}

func newChaosLoad(random *rand.Rand, messages int) *chaosLoad {
	sources := min(max(messages/200, 3), 200)
	return &chaosLoad{random: random, messages: messages, groups: min(max(messages/50, 3), 2000), sources: sources, next: make([]uint64, sources)}
}

// block makes n new messages, and the parcels that carry them: each message once, some twice at
// nearly the same time, some of the last block again, some with other content.
func (l *chaosLoad) block(n int) ([]*hurled, []parcel) {
	fresh := make([]*hurled, n)
	var places []placedCopy
	for i := range fresh {
		m := l.message()
		fresh[i] = m
		at := float64(i) + l.random.Float64()*float64(n)/10 // reordered
		places = append(places, placedCopy{at: at, m: m})
		if l.random.Float64() < 0.35 {
			places = append(places, placedCopy{at: at + l.random.Float64()*16, m: m})
		}
	}
	for _, m := range l.earlier {
		switch x := l.random.Float64(); {
		case x < 0.15:
			places = append(places, placedCopy{at: l.random.Float64() * float64(n), m: m})
		case x < 0.17 && m.source == "":
			places = append(places, placedCopy{at: l.random.Float64() * float64(n), m: m, reuse: true})
		}
	}
	l.earlier = fresh
	return fresh, l.pack(places)
}

// late returns a last block without new messages.
func (l *chaosLoad) late() []parcel {
	_, parcels := l.block(0)
	return parcels
}

// A placedCopy is one offer of a message and its position in a block.
type placedCopy struct {
	at    float64
	m     *hurled
	reuse bool
}

// pack puts offers into parcels in the order of their positions.
func (l *chaosLoad) pack(places []placedCopy) []parcel {
	slices.SortFunc(places, func(a, b placedCopy) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	var out []parcel
	waiting := map[string][]*hurled{}
	for _, p := range places {
		if p.reuse || p.m.httpOnly || l.random.IntN(2) == 0 {
			out = append(out, parcel{sqs: p.reuse && !p.m.httpOnly && l.random.IntN(2) == 0, reuse: p.reuse, stream: p.m.stream, messages: []*hurled{p.m}})
			continue
		}
		list := append(waiting[p.m.stream], p.m)
		if len(list) > l.random.IntN(10) {
			out = append(out, parcel{sqs: true, stream: p.m.stream, messages: list})
			list = nil
		}
		waiting[p.m.stream] = list
	}
	for _, stream := range slices.Sorted(maps.Keys(waiting)) {
		if list := waiting[stream]; len(list) > 0 {
			out = append(out, parcel{sqs: true, stream: stream, messages: list})
		}
	}
	return out
}

// message makes the next message.
func (l *chaosLoad) message() *hurled {
	i := l.made
	l.made++
	m := &hurled{stream: chaosStreams[l.random.IntN(len(chaosStreams))]}
	m.contentType, m.body = generateBody(l.random, i)
	var b bytes.Buffer
	if m.contentType == "application/json" && json.Compact(&b, m.body) == nil {
		m.body = b.Bytes()
	}
	if m.stream == "numbered" {
		source := l.random.IntN(l.sources)
		l.next[source]++
		m.source, m.sequence = fmt.Sprintf("s-%03d", source), l.next[source]
		m.group = m.source
	} else {
		m.id = fmt.Sprintf("m-%07d", i)
		if l.random.IntN(10) > 0 {
			m.group = fmt.Sprintf("g-%04d", l.random.IntN(l.groups))
		}
	}
	m.httpOnly = m.group == "" || !utf8.Valid(m.body)
	return m
}

// offer returns the entry for a message in the evidence.
func (m *hurled) offer() chaos.Offer {
	return chaos.Offer{
		Stream: m.stream, ID: m.identity(), Group: m.group, Source: m.source, Sequence: m.sequence, ContentType: m.contentType, SHA256: chaos.Digest(m.contentType, m.body),
	}
}

// other returns other content under the same identity.
func (m *hurled) other() sent {
	s := m.sent
	s.contentType, s.body = "text/plain", append([]byte("not "), fmt.Sprintf("what %s was", m.identity())...)
	return s
}
