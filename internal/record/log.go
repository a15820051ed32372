package record

import (
	"errors"
	"log/slog"
)

// The attributes of log lines. Every line about a message, a group or an effect takes them from
// here, so that lines can be joined.
//
//	stream, group, hash   what the line is about; group and hash are hashes
//	number, destination   an effect; its hash is that of the message that made it
//	group_key, key        the group and the identity themselves, only on request
//	effect                the identity of an effect, only on request
//	try, error, stack     a failed try; stack only of a panic
//	pause, next           how long until the next try, or when it is

// The texts of lines about messages, effects and the end of a system. The command line shows them
// in another form on a terminal.
const (
	LogSettled       = "message settled"
	LogRetried       = "message to be retried"
	LogRefused       = "message refused"
	LogEffectRetried = "effect to be sent again"
	LogUndeliverable = "effect undeliverable: it becomes a dead letter"
	LogDraining      = "draining"
	LogStopped       = "stopped"
)

// Hash returns the short form of the message's identity for logs: the first 12 hexadecimal digits
// of the SHA-256 over stream, principal and identity. It can be computed from a key, but the key
// can't be computed from it.
func (m *Message) Hash() string { return NewTokenKey(m.Principal, m.Stream, m.Identity()).Short() }

// LogAttrs returns what every log line about the message has: its stream and the hashes of its
// group and identity, and, if keys is true, the group and the identity themselves.
func (m *Message) LogAttrs(keys bool) []slog.Attr {
	group := m.GroupKey()
	attrs := append(group.LogAttrs(keys), slog.String("hash", m.Hash()))
	if keys {
		attrs = append(attrs, slog.String("key", m.Identity()))
	}
	return attrs
}

// LogAttrs returns what every log line about the group has: its stream and the hash of its name,
// and, if keys is true, the name itself.
func (k GroupKey) LogAttrs(keys bool) []slog.Attr {
	stream := k.Stream
	if len(stream) > MaxStreamName { // of an invalid message
		stream = printable(stream, MaxStreamName)
	}
	attrs := []slog.Attr{slog.String("stream", stream), slog.String("group", k.String())}
	if keys {
		attrs = append(attrs, slog.String("group_key", k.Group))
	}
	return attrs
}

// LogAttrs returns what every log line about the delivery has: its stream, the hash of its group,
// its number there, and the hash of the message that made it; and, if keys is true, the group and
// the identity of the effect themselves.
func (d *Delivery) LogAttrs(keys bool) []slog.Attr {
	attrs := GroupKey{d.Stream, d.Group}.LogAttrs(keys)
	if d.Group == "" { // of a message without a group record
		attrs = []slog.Attr{slog.String("stream", d.Stream)}
	}
	if d.Number > 0 {
		attrs = append(attrs, slog.Uint64("number", d.Number))
	}
	if d.Hash != "" {
		attrs = append(attrs, slog.String("hash", d.Hash))
	}
	if keys {
		attrs = append(attrs, slog.String("effect", d.Identity))
	}
	return attrs
}

// FailureAttrs returns what every log line about a failed try has: the number of the try, the
// error, and the stack if the handler panicked. A try of 0 is left out.
func FailureAttrs(try int, err error) []slog.Attr {
	var attrs []slog.Attr
	if try > 0 {
		attrs = append(attrs, slog.Int("try", try))
	}
	attrs = append(attrs, slog.Any("error", err))
	if failed, ok := errors.AsType[*HandlerError](err); ok && len(failed.Stack) > 0 {
		attrs = append(attrs, slog.String("stack", string(failed.Stack)))
	}
	return attrs
}
