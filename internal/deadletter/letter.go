package deadletter

import (
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// A Letter is a dead letter as it was received.
type Letter struct {
	queue.Delivery
	// Queue is the name of the dead-letter queue.
	Queue string
	// Refused is as much as can be read of it; the reason is always set.
	Refused record.Refused
	// Err says why it can't be read; [wire.ErrTrigger] is a trigger, which can be put back all the same.
	Err error
}

// Read reads what was received from a dead-letter queue. What a letter says of its principal and of when it was accepted is believed of trusted senders; see
// [wire.Defaults].
func Read(queueName string, d queue.Delivery, trusted []string) Letter {
	l := Letter{Delivery: d, Queue: queueName}
	l.Refused, l.Err = wire.FromDeadLetter(wire.Event("", []queue.Delivery{d}).Records[0], wire.Defaults{Trusted: trusted})
	return l
}

// Reason is why it was refused.
func (l *Letter) Reason() string { return string(l.Refused.Reason) }

// Info is the letter as people and scripts see it.
func (l *Letter) Info() admin.DeadLetter {
	out := admin.DeadLetter{Queue: l.Queue, Reason: l.Reason(), Detail: l.Refused.Detail, Sent: l.Sent}
	if l.Err != nil && out.Detail == "" {
		out.Detail = l.Err.Error()
	}
	m := l.Refused.Message
	out.Stream, out.ID, out.Group, out.Source, out.Epoch, out.Sequence = m.Stream, m.ID, m.Group, m.Source, m.Epoch, m.Sequence
	if d := l.Refused.Delivery; d != nil {
		out.Stream, out.ID, out.Group, out.Destination = d.Stream, d.Identity, d.Group, l.Refused.To
	}
	return out
}
