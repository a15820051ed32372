package handler

import (
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

// MaxAfter is the longest delay of an effect or a timer.
const MaxAfter = record.MaxDelay

// An Effect is one of three: a message to the destination To, a message to the handled group itself
// when the timer Timer is due, or the end of the timer Cancel.
type Effect struct {
	To string
	// Group at the destination; empty means the group that sends.
	Group string
	// After is how long after the run of the handler the effect is sent, or the timer is due.
	After  time.Duration
	Timer  string
	Cancel string
	Content
}

// effectMembers are the members of an effect.
func effectMembers() []string {
	return append([]string{"to", "group", "after", "timer", "cancel"}, contentMembers()...)
}

// effect reads one effect.
func (o object) effect() (e Effect, err error) {
	kinds := 0
	for _, f := range []struct {
		name string
		to   *string
	}{{"to", &e.To}, {"timer", &e.Timer}, {"cancel", &e.Cancel}} {
		if !o.has(f.name) {
			continue
		}
		kinds++
		if *f.to, err = o.name(f.name); err != nil {
			return e, err
		}
	}
	switch {
	case kinds != 1:
		return e, wrong(o.path, "must have exactly one of to, timer and cancel")
	case e.Cancel != "" && len(o.members) > 1:
		return e, wrong(o.path, "with cancel must have no other member")
	case e.To == "" && o.has("group"):
		return e, wrong(o.value("group").path, "is only for an effect with to: a timer is for the handled group")
	case e.Timer != "" && !o.has("after"):
		return e, wrong(o.path, "with timer must have after: when is it due?")
	}
	if o.has("group") {
		if e.Group, err = o.name("group"); err != nil {
			return e, err
		}
	}
	if e.After, err = o.after(); err != nil {
		return e, err
	}
	e.Content, err = o.content(record.MaxBody)
	return e, err
}

// name reads a member that names something: a destination, a group or a timer.
func (o object) name(member string) (string, error) {
	v := o.value(member)
	text, err := v.text()
	if err != nil {
		return "", err
	}
	m := record.Message{Stream: "x", ID: text}
	if m.Validate() != nil {
		return "", wrong(v.path, "must be 1 to %d bytes, without control characters", record.MaxName)
	}
	return text, nil
}

// after reads the member "after", 0 if it is missing.
func (o object) after() (time.Duration, error) {
	if !o.has("after") {
		return 0, nil
	}
	v := o.value("after")
	text, err := v.text()
	if err != nil {
		return 0, wrong(v.path, `must be a duration such as "30s", "15m" or "7d"`)
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		return 0, wrong(v.path, `must be a duration such as "30s", "15m" or "7d"`)
	}
	if d.Std() > MaxAfter {
		return 0, wrong(v.path, "must be at most %s", config.Duration(MaxAfter))
	}
	return d.Std(), nil
}

// effects reads the member "effects".
func (o object) effects() ([]Effect, error) {
	items, err := o.list("effects")
	if err != nil || len(items) == 0 {
		return nil, err
	}
	out := make([]Effect, len(items))
	for i, v := range items {
		o, err := v.object(effectMembers()...)
		if err != nil {
			return nil, err
		}
		if out[i], err = o.effect(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
