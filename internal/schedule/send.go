package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// An Engine issues the tokens of ticks; *dedup.Engine is one.
type Engine interface {
	Stream(name string) (record.Stream, bool)
	Issue(ctx context.Context, m record.Message) (token record.Token, fresh bool, err error)
}

// A Queue is the ingress queue.
type Queue interface {
	// EnqueueAll puts messages on the queue and returns an error for each. If that is nil, the
	// message is durable, with every token that was issued before the call. Repeating a message is
	// harmless.
	EnqueueAll(ctx context.Context, messages []record.Message) []error
}

// A Store holds the records. See [record.Store].
type Store interface {
	Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error)
	Commit(ctx context.Context, c record.Commit) error
}

// Config configures schedules. All fields but Ahead and Log are required.
type Config struct {
	Schedules []Schedule
	Store     Store
	Engine    Engine
	Queue     Queue
	// Ahead is how long before its time a tick is put on the queue, which delivers it at its time.
	// Defaults to 0.
	Ahead time.Duration
	Now   func() time.Time
	// NewID makes unique names for writes.
	NewID func() string
	// Log defaults to discarding.
	Log *slog.Logger
}

// Schedules send ticks. They keep nothing in memory between calls, so any number of processes may
// send the same ones at the same time.
type Schedules struct {
	cfg  Config
	each []timed
}

// A timed schedule has its timetable.
type timed struct {
	Schedule
	table Timetable
}

// New returns the schedules, or an error that names the one that is wrong.
func New(cfg Config) (*Schedules, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Schedules{cfg: cfg}
	for _, x := range cfg.Schedules {
		table, err := x.Timetable()
		if err == nil {
			err = x.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("schedule %s: %w", x.Name, err)
		}
		s.each = append(s.each, timed{x, table})
	}
	return s, nil
}

// loads is how many records are loaded in one call.
const loads = 100

// Send sends the ticks that are due, and returns the earliest time at which another one is, or the
// zero time if there is none. If a schedule fails, the others are sent nevertheless; call Send
// again after a pause.
func (s *Schedules) Send(ctx context.Context) (next time.Time, err error) {
	var errs []error
	for from := 0; from < len(s.each); from += loads {
		part := s.each[from:min(from+loads, len(s.each))]
		keys := make([]record.GroupKey, len(part))
		for i := range part {
			keys[i] = key(part[i].Name)
		}
		groups, _, err := s.cfg.Store.Load(ctx, keys, nil)
		if err != nil {
			return time.Time{}, fmt.Errorf("load the records of schedules: %w", err)
		}
		for i := range part {
			due, err := s.send(ctx, &part[i], groups[i])
			if err != nil {
				errs = append(errs, fmt.Errorf("schedule %s: %w", part[i].Name, err))
			} else if !due.IsZero() && (next.IsZero() || due.Before(next)) {
				next = due
			}
		}
	}
	return next, errors.Join(errs...)
}

// rounds is how often the record of a schedule is loaded again because another process wrote it.
const rounds = 16

// send sends the ticks of one schedule, whose record is g, and returns the time of the next one.
func (s *Schedules) send(ctx context.Context, x *timed, g record.Group) (next time.Time, err error) {
	for conflicts := 0; ; {
		if next, err = s.step(ctx, x, &g); err == nil && !next.IsZero() {
			return next, nil
		}
		if errors.Is(err, record.ErrConflict) && conflicts < rounds {
			conflicts++
			var groups []record.Group
			groups, _, err = s.cfg.Store.Load(ctx, []record.GroupKey{g.Key}, nil)
			if err == nil {
				g = groups[0]
			}
		}
		if err != nil {
			return time.Time{}, err
		}
	}
}

// step makes the next write, after which g is the new record. If there is nothing to do, it returns
// the time of the next tick.
func (s *Schedules) step(ctx context.Context, x *timed, g *record.Group) (next time.Time, err error) {
	st, found, err := readState(g)
	if err != nil {
		return time.Time{}, err
	}
	now := s.cfg.Now().UTC()
	switch {
	case st.Begun != nil:
		return time.Time{}, s.complete(ctx, x, g, &st)
	case !found || st.Cron != x.Cron || st.Zone != x.Zone:
		return time.Time{}, s.adopt(ctx, x, g, &st, now)
	}
	tick := x.table.Latest(st.Through, now)
	if tick.IsZero() { // none was missed
		tick = s.following(x, &st, now)
		if due := tick.Add(-s.cfg.Ahead); due.After(now) {
			return due, nil
		}
	}
	return time.Time{}, s.begin(ctx, x, g, &st, tick, now)
}

// steps is by how much a clock that is kept right may be put back.
const steps = time.Minute

// far is a time after which no process waits: the timetable has no further time.
func far(now time.Time) time.Time { return now.AddDate(searchYears, 0, 0) }

// following returns the time of the next tick.
func (s *Schedules) following(x *timed, st *state, now time.Time) time.Time {
	if st.Through.After(now.Add(s.cfg.Ahead + steps)) {
		s.cfg.Log.Warn("the clock is behind the last tick of a schedule, which sends nothing until then", "schedule", x.Name, "last", st.Through)
	}
	if next := x.table.Next(st.Through); !next.IsZero() {
		return next
	}
	return far(now)
}

// adopt begins a schedule that has no record or another timetable than before. Times up to now are
// decided by that: the new timetable did not hold then.
func (s *Schedules) adopt(ctx context.Context, x *timed, g *record.Group, st *state, now time.Time) error {
	from := *st
	st.Cron, st.Zone = x.Cron, x.Zone
	if now.After(st.Through) {
		st.Through = now
	}
	if err := s.write(ctx, x, g, st); err != nil {
		return err
	}
	s.cfg.Log.Info("schedule begins", "schedule", x.Name, "cron", x.Cron, "timezone", x.Zone, "before", from.Cron, "next", x.table.Next(st.Through))
	return nil
}

// missedLimit bounds the time that counting missed times takes.
const missedLimit = 100_000

// begin writes a tick into the record before it is sent.
func (s *Schedules) begin(ctx context.Context, x *timed, g *record.Group, st *state, tick, now time.Time) error {
	missed := x.table.Count(st.Through, tick, missedLimit)
	m := x.Message(tick)
	st.Begun = &begun{Tick: tick, Accepted: latest(now, tick), Ahead: tick.After(now), Stream: m.Stream, Group: m.Group, ContentType: m.ContentType, Body: m.Body}
	st.Missed += uint64(missed) //nolint:gosec // not negative
	if err := s.write(ctx, x, g, st); err != nil {
		return err
	}
	if missed > 0 {
		s.cfg.Log.Warn("times of a schedule were missed: only the latest one is sent, late", "schedule", x.Name, "missed", missed, "sent", tick, "late", now.Sub(tick).Truncate(time.Second).String())
	}
	return nil
}

// complete sends the tick that was begun, and then writes that it is on the queue.
func (s *Schedules) complete(ctx context.Context, x *timed, g *record.Group, st *state) error {
	b := st.Begun
	if err := s.put(ctx, b.message(x.Name)); err != nil {
		return fmt.Errorf("send tick %s: %w", x.ID(b.Tick), err)
	}
	st.Begun, st.Last, st.Sent = nil, b.Tick, s.cfg.Now().UTC()
	if b.Tick.After(st.Through) {
		st.Through = b.Tick
	}
	return s.write(ctx, x, g, st)
}

// put puts a tick on the queue, under token admission after its token is issued. If its stream
// would refuse the tick, for example because it is no longer configured, it is put there
// nevertheless: then it becomes a dead letter.
func (s *Schedules) put(ctx context.Context, m record.Message) error {
	if stream, ok := s.cfg.Engine.Stream(m.Stream); ok {
		if stream.Admission == record.ByToken {
			if done, err := s.issue(ctx, m, stream.RetentionOf(&m)); done || err != nil {
				return err
			}
		}
		_ = stream.Place(&m) // an error is found again when it is processed
	}
	return s.cfg.Queue.EnqueueAll(ctx, []record.Message{m})[0]
}

// issue issues the token of a tick, and reports whether the tick is done. It issues none if the
// stream may have forgotten the tick: a new token would let it be processed twice. Under key
// admission the stream refuses such a tick itself.
func (s *Schedules) issue(ctx context.Context, m record.Message, retention time.Duration) (done bool, err error) {
	if !s.cfg.Now().Before(m.Accepted.Add(retention)) {
		return false, nil
	}
	token, _, err := s.cfg.Engine.Issue(ctx, m)
	if err != nil && !refused(err) {
		return false, err
	}
	return err == nil && token.State == record.Done, nil
}

// refused reports whether a stream will never take a message.
func refused(err error) bool {
	return errors.As(err, new(*record.RefusedError)) || errors.As(err, new(*record.InvalidError)) || errors.Is(err, record.ErrNoStream)
}

// write replaces the record g by one with the state st.
func (s *Schedules) write(ctx context.Context, x *timed, g *record.Group, st *state) error {
	data, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	now := s.cfg.Now()
	next := record.Group{Key: g.Key, Incarnation: g.Incarnation, Version: g.Version + 1, State: data, Retention: keep}
	next.Expires = latest(now, x.table.Next(st.Through)).Add(keep)
	if g.Version == 0 {
		next.Incarnation = uint64(max(1, now.UnixMilli()))
	}
	if err := s.cfg.Store.Commit(ctx, record.Commit{Loaded: *g, Next: next, Attempt: s.cfg.NewID()}); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	*g = next
	return nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
