package explore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// readGroup is the group whose log is read.
const readGroup = "g"

// pageSize is the largest number of entries of a page.
const pageSize = 10

// committed is an entry that was committed.
type committed struct {
	Incarnation, Number uint64
	Body                string
	Expires             time.Time
}

// reader is the progress of the reader: the offset where it continues, and how many of the
// committed entries are behind it, read or expired.
type reader struct {
	Offset string
	Behind int
}

// readPage is the answer of one read.
type readPage struct {
	from    log.Offset
	next    log.Offset
	numbers []uint64
	bodies  []string
	// expired says that the answer is an error with the offset where the reader can continue.
	expired bool
}

// appended returns the entries that a commit appends to the log that is read.
func (w *world) appended(c record.Commit) (out []committed) {
	if w.scenario.Budget.Reads == 0 || c.Next.Key.Group != readGroup {
		return nil
	}
	for _, chunk := range c.Append {
		entries, _ := log.Split(chunk, 0) // world.logged returns the error
		for _, e := range entries {
			var x entry
			_ = cbor.Unmarshal(e.AppendCBOR(nil, chunk.Incarnation, ""), &x)
			out = append(out, committed{chunk.Incarnation, e.Number, string(x.Body), chunk.Expires})
		}
	}
	return out
}

// reading returns the input of the reader: the group and its offset.
func (w *world) reading(p *pastPart) []string { return []string{readGroup, p.reader.Offset} }

// follow reads one page.
func (w *world) follow(ctx context.Context, a *host, r *run) *end {
	from, err := log.ParseOffset(r.items[1])
	if err != nil {
		panic(fmt.Sprintf("explore: %v", err)) // written by continued
	}
	out := &readPage{from: from}
	page, err := log.Read(ctx, storePort{a}, record.GroupKey{Stream: stream, Group: r.items[0]}, from, pageSize)
	if expired, ok := errors.AsType[*log.ExpiredError](err); ok {
		out.next, out.expired = expired.First, true
		return &end{read: out}
	}
	if err != nil {
		return &end{}
	}
	out.next = page.Next
	for _, e := range page.Entries {
		var x entry
		if err := cbor.Unmarshal(e.AppendCBOR(nil, page.Next.Incarnation, ""), &x); err != nil {
			panic(fmt.Sprintf("explore: %v", err)) // encoded by the line before
		}
		out.numbers, out.bodies = append(out.numbers, e.Number), append(out.bodies, string(x.Body))
	}
	return &end{read: out}
}

// continued moves the reader behind a page. It returns an error if the page does not continue where
// the reader was: it may miss expired entries only, and only if it is told so or had no offset.
func (w *world) continued(p *pastPart, page *readPage, now time.Time) (*pastPart, error) {
	begin := p.behind(page.next) - len(page.numbers)
	if page.next == (log.Offset{}) { // the log is empty, or gone
		begin = p.reader.Behind
	}
	switch missed := p.log[min(p.reader.Behind, max(begin, 0)):max(begin, 0)]; {
	case begin < p.reader.Behind:
		return nil, fmt.Errorf("entries %d up to %s are read twice", page.numbers, page.next)
	case len(missed) > 0 && !page.expired && page.from != log.Offset{}:
		return nil, fmt.Errorf("entry %d is missing, and the reader is not told: it continues at %s", missed[0].Number, page.next)
	case len(missed) > 0 && missed[len(missed)-1].Expires.After(now):
		return nil, fmt.Errorf("entry %d has not expired, and the reader can't get it", missed[len(missed)-1].Number)
	}
	for i, number := range page.numbers {
		e := p.log[begin+i]
		if e.Number != number || e.Body != page.bodies[i] || e.Incarnation != page.next.Incarnation {
			return nil, fmt.Errorf("entry %d is %q to the reader, where %d, %q was committed", number, page.bodies[i], e.Number, e.Body)
		}
	}
	c := *p
	c.reader = reader{Offset: page.next.String(), Behind: begin + len(page.numbers)}
	if page.next == (log.Offset{}) {
		c.reader.Offset = ""
	}
	return w.pastOf(c), nil
}

// behind returns how many committed entries are at an offset or before it.
func (p *pastPart) behind(o log.Offset) (n int) {
	for _, e := range p.log {
		if e.Incarnation < o.Incarnation || e.Incarnation == o.Incarnation && e.Number <= o.Number {
			n++
		}
	}
	return n
}

// readToTheEnd lets the reader read the rest of the log. It returns an error if it does not get
// there.
func (w *world) readToTheEnd(s *state) error {
	if w.scenario.Budget.Reads == 0 {
		return nil
	}
	past := s.past
	for range len(past.log) + 2 {
		r, err := w.answerAlone(s, follows, w.reading(past))
		if err != nil || r.read == nil {
			return fmt.Errorf("the rest of the log can't be read: %w", err)
		}
		if past, err = w.continued(past, r.read, s.now); err != nil {
			return fmt.Errorf("the rest of the log: %w", err)
		}
	}
	if rest := past.log[past.reader.Behind:]; len(rest) > 0 && rest[len(rest)-1].Expires.After(s.now) {
		return fmt.Errorf("the reader stops before entry %d", rest[0].Number)
	}
	return nil
}

// answerAlone runs one worker that changes nothing to its end, without any fault.
func (w *world) answerAlone(s *state, k kind, items []string) (*end, error) {
	r := w.begin(k, "last "+k.String(), items, s.view)
	for r.end == nil {
		o := r.call.do(s.view)
		if o.wrong != nil {
			return nil, o.wrong
		}
		r = w.after(r, o.answer)
	}
	return r.end, nil
}
