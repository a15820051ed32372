package memstore

import (
	"bytes"
	"maps"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// The functions of this file copy records deeply, so that a caller may change its arguments and
// results.

func cloneGroup(g record.Group) record.Group {
	g = cloneFields(g)
	g.Pending = slices.Clone(g.Pending)
	for i, p := range g.Pending {
		g.Pending[i] = clonePending(p)
	}
	return g
}

// cloneFields copies everything but the pending entries.
func cloneFields(g record.Group) record.Group {
	g.State = bytes.Clone(g.State)
	g.Sources = maps.Clone(g.Sources)
	for key, s := range g.Sources {
		s.Held, s.Skipped = slices.Clone(s.Held), slices.Clone(s.Skipped)
		g.Sources[key] = s
	}
	g.Chained = maps.Clone(g.Chained)
	g.Timers = maps.Clone(g.Timers)
	return g
}

func clonePending(p record.Pending) record.Pending {
	p.Effects = slices.Clone(p.Effects)
	for i, e := range p.Effects {
		p.Effects[i] = cloneEffect(e)
	}
	p.Sent = slices.Clone(p.Sent)
	p.Reply = cloneReply(p.Reply)
	return p
}

func cloneEffect(e record.Effect) record.Effect {
	e.To = slices.Clone(e.To)
	e.Headers = maps.Clone(e.Headers)
	e.Body = bytes.Clone(e.Body)
	e.Chain = maps.Clone(e.Chain)
	e.DependsOn = maps.Clone(e.DependsOn)
	e.Via = slices.Clone(e.Via)
	if e.Blob != nil {
		blob := *e.Blob
		e.Blob = &blob
	}
	return e
}

func cloneReply(r *record.Reply) *record.Reply {
	if r == nil {
		return nil
	}
	c := *r
	c.Body = bytes.Clone(r.Body)
	c.Header = maps.Clone(r.Header)
	for name, values := range c.Header {
		c.Header[name] = slices.Clone(values)
	}
	return &c
}

func cloneToken(t record.Token) record.Token {
	t.Reply = cloneReply(t.Reply)
	if t.Request != nil {
		m := cloneMessage(*t.Request)
		t.Request = &m
	}
	return t
}

func cloneHeld(h record.Held) record.Held {
	h.Message = cloneMessage(h.Message)
	return h
}

func cloneMessage(m record.Message) record.Message {
	m.DependsOn = maps.Clone(m.DependsOn)
	m.Parents = slices.Clone(m.Parents)
	m.Via = slices.Clone(m.Via)
	m.Headers = maps.Clone(m.Headers)
	m.Body = bytes.Clone(m.Body)
	return m
}
