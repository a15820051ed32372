package pebblestore

import (
	"fmt"

	"github.com/effectively-once/once/internal/dedup"
)

// The conversions between the engine's records and the stored ones copy structs, and share bytes, maps and texts: encoding reads them at once, and
// decoding made them anew.

func toGroup(g *dedup.Group) *groupRecord {
	r := &groupRecord{State: g.State, Last: g.Last, Chained: g.Chained}
	if len(g.Pending) > 0 {
		r.Pending = make([]pendingRecord, len(g.Pending))
		for i := range g.Pending {
			toPending(&r.Pending[i], &g.Pending[i])
		}
	}
	if len(g.Sources) > 0 {
		r.Sources = make(map[string]sourceRecord, len(g.Sources))
		for name, s := range g.Sources {
			r.Sources[name] = toSource(&s)
		}
	}
	return r
}

func (r *groupRecord) group() (dedup.Group, error) {
	g := dedup.Group{State: r.State, Last: r.Last, Chained: r.Chained}
	if len(r.Pending) > 0 {
		g.Pending = make([]dedup.Pending, len(r.Pending))
		for i := range r.Pending {
			if err := r.Pending[i].pending(&g.Pending[i]); err != nil {
				return g, err
			}
		}
	}
	if len(r.Sources) > 0 {
		g.Sources = make(map[string]dedup.Source, len(r.Sources))
		for name, s := range r.Sources {
			g.Sources[name] = s.source()
		}
	}
	return g, nil
}

func toSource(s *dedup.Source) sourceRecord {
	return sourceRecord{
		Epoch: s.Epoch, Next: s.Next, HeldBytes: s.HeldBytes, GapSince: micros(s.GapSince),
		Held: toRanges(s.Held), Skipped: toRanges(s.Skipped),
	}
}

func (r *sourceRecord) source() dedup.Source {
	return dedup.Source{
		Epoch: r.Epoch, Next: r.Next, HeldBytes: r.HeldBytes, GapSince: fromMicros(r.GapSince),
		Held: fromRanges(r.Held), Skipped: fromRanges(r.Skipped),
	}
}

func toRanges(ranges dedup.Ranges) []rangeRecord {
	var out []rangeRecord
	for _, x := range ranges {
		out = append(out, rangeRecord{First: x.First, Last: x.Last})
	}
	return out
}

func fromRanges(ranges []rangeRecord) dedup.Ranges {
	var out dedup.Ranges
	for _, x := range ranges {
		out = append(out, dedup.Range{First: x.First, Last: x.Last})
	}
	return out
}

func toPending(r *pendingRecord, p *dedup.Pending) {
	*r = pendingRecord{
		Number: p.Number, Identity: p.Identity, Principal: p.Principal, Attempt: p.Attempt, Marks: p.Marks, Retention: p.Retention,
		Token: hashBytes((*[32]byte)(&p.Token)), Fingerprint: hashBytes((*[32]byte)(&p.Fingerprint)), Reply: (*replyRecord)(p.Reply),
	}
	if len(p.Effects) > 0 {
		r.Effects = make([]effectRecord, len(p.Effects))
		for i := range p.Effects {
			toEffect(&r.Effects[i], &p.Effects[i])
		}
	}
	for _, s := range p.Sent {
		r.Sent = append(r.Sent, sentRecord{Effect: s.Effect, To: s.To})
	}
}

func (r *pendingRecord) pending(p *dedup.Pending) error {
	*p = dedup.Pending{
		Number: r.Number, Identity: r.Identity, Principal: r.Principal, Attempt: r.Attempt, Marks: r.Marks, Retention: r.Retention,
		Reply: (*dedup.Reply)(r.Reply),
	}
	if len(r.Effects) > 0 {
		p.Effects = make([]dedup.Effect, len(r.Effects))
		for i := range r.Effects {
			p.Effects[i] = r.Effects[i].effect()
		}
	}
	for _, s := range r.Sent {
		p.Sent = append(p.Sent, dedup.Sent{Effect: s.Effect, To: s.To})
	}
	if err := setHash((*[32]byte)(&p.Token), r.Token); err != nil {
		return err
	}
	return setHash((*[32]byte)(&p.Fingerprint), r.Fingerprint)
}

func toEffect(r *effectRecord, e *dedup.Effect) {
	*r = effectRecord{
		To: e.To, Group: e.Group, ID: e.ID, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence,
		ContentType: e.ContentType, Headers: e.Headers, Body: e.Body, Chain: e.Chain,
	}
	if e.Blob != nil {
		r.Blob = &blobRecord{Key: e.Blob.Key, Staged: e.Blob.Staged}
	}
}

func (r *effectRecord) effect() dedup.Effect {
	e := dedup.Effect{
		To: r.To, Group: r.Group, ID: r.ID, Source: r.Source, Epoch: r.Epoch, Sequence: r.Sequence,
		ContentType: r.ContentType, Headers: r.Headers, Body: r.Body, Chain: r.Chain,
	}
	if r.Blob != nil {
		e.Blob = &dedup.Blob{Key: r.Blob.Key, Staged: r.Blob.Staged}
	}
	return e
}

func toHeld(h *dedup.Held) *heldRecord {
	return &heldRecord{Message: *toMessage(&h.Message), At: micros(h.At)}
}

func (r *heldRecord) held() dedup.Held {
	return dedup.Held{Message: r.Message.message(), At: fromMicros(r.At)}
}

func toMessage(m *dedup.Message) *messageRecord {
	return &messageRecord{
		Principal: m.Principal, Stream: m.Stream, ID: m.ID, Group: m.Group, Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence,
		DependsOn: m.DependsOn, ContentType: m.ContentType, Headers: m.Headers, Body: m.Body, Route: m.Route,
		Accepted: micros(m.Accepted), Retention: m.Retention,
	}
}

func (r *messageRecord) message() dedup.Message {
	return dedup.Message{
		Principal: r.Principal, Stream: r.Stream, ID: r.ID, Group: r.Group, Source: r.Source, Epoch: r.Epoch, Sequence: r.Sequence,
		DependsOn: r.DependsOn, ContentType: r.ContentType, Headers: r.Headers, Body: r.Body, Route: r.Route,
		Accepted: fromMicros(r.Accepted), Retention: r.Retention,
	}
}

func toToken(t *dedup.Token) *tokenRecord {
	r := &tokenRecord{
		State: uint8(t.State), Fingerprint: hashBytes((*[32]byte)(&t.Fingerprint)), Stream: t.Stream, Group: t.Group,
		Owner: t.Owner, Epoch: t.Epoch, Lease: micros(t.Lease), Reply: (*replyRecord)(t.Reply), Reason: t.Reason,
	}
	if t.Request != nil {
		r.Request = toMessage(t.Request)
	}
	return r
}

func (r *tokenRecord) token() (dedup.Token, error) {
	t := dedup.Token{
		State: dedup.TokenState(r.State), Stream: r.Stream, Group: r.Group,
		Owner: r.Owner, Epoch: r.Epoch, Lease: fromMicros(r.Lease), Reply: (*dedup.Reply)(r.Reply), Reason: r.Reason,
	}
	if r.Request != nil {
		m := r.Request.message()
		t.Request = &m
	}
	if t.State == dedup.Absent || t.State > dedup.Done {
		return t, fmt.Errorf("%w: a token with state %d", dedup.ErrCorrupt, r.State)
	}
	return t, setHash((*[32]byte)(&t.Fingerprint), r.Fingerprint)
}

// hashBytes leaves out a hash of zeros.
func hashBytes(hash *[32]byte) []byte {
	if *hash == [32]byte{} {
		return nil
	}
	return hash[:]
}

func setHash(hash *[32]byte, stored []byte) error {
	if len(stored) != 0 && len(stored) != len(hash) {
		return fmt.Errorf("%w: a hash of %d bytes", dedup.ErrCorrupt, len(stored))
	}
	copy(hash[:], stored)
	return nil
}
