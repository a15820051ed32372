package pipeline

import (
	"reflect"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/destination/retry"
)

// before returns the sender of the replaced pipeline to a destination, or nil if there is none.
func (p *Pipeline) before(name string) *retry.Sender {
	if p.cfg.Before == nil {
		return nil
	}
	return p.cfg.Before.patient[name]
}

// kept returns the sender of the replaced pipeline to a destination that has not changed, or nil. A
// destination that is a stream is always opened again, because its settings are part of the sender.
func (p *Pipeline) kept(name string, d config.Destination) *retry.Sender {
	s := p.before(name)
	if s == nil || d.Kind() == config.KindStream || !reflect.DeepEqual(d, p.cfg.Before.cfg.Config.Destinations[name]) {
		return nil
	}
	return s
}

// TakeOver directs the destinations that changed to where this pipeline's configuration says, also
// for calls of the pipeline that it replaces. It can't fail.
func (p *Pipeline) TakeOver() {
	for _, replace := range p.replacing {
		replace()
	}
	p.closeReplaced()
	p.replacing, p.cfg.Before = nil, nil
}
