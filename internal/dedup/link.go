package dedup

import (
	"slices"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// effectsOf returns the effects of an attempt at a message. Each names the systems that the
// message came through. Effects of a message of another system do not go to the destinations in
// Config.Unrelayed; they must not take a number there either, because no number may be missing.
func (pl *plan) effectsOf(it *item, a *record.Attempt) []record.Effect {
	effects := a.Effects()
	if len(it.Via) == 0 {
		return effects
	}
	for i := range effects {
		f := &effects[i]
		f.Via = it.Via
		f.To = slices.DeleteFunc(f.To, func(to string) bool { return pl.cfg.Unrelayed[to] })
	}
	return slices.DeleteFunc(effects, func(f record.Effect) bool { return len(f.To) == 0 && f.Blob == nil })
}

// void passes the number of a void message, and remembers it as skipped: if the message comes
// later, it is refused and not dropped as a duplicate. passed is false if this commit is full.
func (pl *plan) void(key string, src record.Source, m *record.Message) (passed bool, err error) {
	if pl.more = !pl.fits((&record.Entry{}).Size()); pl.more {
		return false, nil
	}
	src.Skipped = src.Skipped.Add(m.Sequence, m.Sequence)
	pl.changed = true
	pl.passed(key, src, m)
	pl.next.FoldSkipped(pl.part.stream.Limits)
	return true, pl.appendGap(key, admission.GapEvent{Source: m.Source, Epoch: m.Epoch, First: m.Sequence, Last: m.Sequence})
}
