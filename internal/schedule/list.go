package schedule

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// State says what a schedule does.
type State string

// The states of a schedule.
const (
	StateNew     State = "new"     // no server has seen it yet
	StateChanged State = "changed" // no server has seen its present times yet
	StateWaiting State = "waiting" // for its next time
	StateDue     State = "due"     // a time has passed, and its tick is not sent
	StateSending State = "sending" // a tick was begun, and it is not known to be on the queue
	StateBehind  State = "behind"  // the clock is behind the last tick; nothing is sent until then
)

// Info describes a schedule. The field names are a contract.
type Info struct {
	Schedule string `json:"schedule"`
	Cron     string `json:"cron"`
	Timezone string `json:"timezone"`
	Stream   string `json:"stream"`
	Group    string `json:"group"`
	State    State  `json:"state"`
	// Next is the time of the next tick, and of the latest missed one if State is due. It is nil if
	// there is none in the next years.
	Next *time.Time `json:"next,omitempty"`
	// Last is the time of the last tick that was put on the queue, Sent is when that was, and ID is
	// that of the message. They are empty if there is none.
	Last *time.Time `json:"last,omitempty"`
	Sent *time.Time `json:"sent,omitempty"`
	ID   string     `json:"id,omitempty"`
	// Missed counts the times that were skipped because nothing ran when they passed.
	Missed uint64 `json:"missed"`
}

// A Loader reads records. See [record.Store].
type Loader interface {
	Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error)
}

// List describes schedules at a time, in their order. It only reads.
func List(ctx context.Context, store Loader, list []Schedule, now time.Time) ([]Info, error) {
	out := make([]Info, 0, len(list))
	for from := 0; from < len(list); from += loads {
		part := list[from:min(from+loads, len(list))]
		keys := make([]record.GroupKey, len(part))
		for i := range part {
			keys[i] = key(part[i].Name)
		}
		groups, _, err := store.Load(ctx, keys, nil)
		if err != nil {
			return nil, fmt.Errorf("load the records of schedules: %w", err)
		}
		for i := range part {
			info, err := describe(&part[i], &groups[i], now)
			if err != nil {
				return nil, err
			}
			out = append(out, info)
		}
	}
	return out, nil
}

func describe(x *Schedule, g *record.Group, now time.Time) (Info, error) {
	table, err := x.Timetable()
	if err != nil {
		return Info{}, fmt.Errorf("schedule %s: %w", x.Name, err)
	}
	st, found, err := readState(g)
	if err != nil {
		return Info{}, err
	}
	info := Info{
		Schedule: x.Name, Cron: x.Cron, Timezone: cmp.Or(x.Zone, "UTC"), Stream: x.Stream, Group: cmp.Or(x.Group, x.Name),
		Next: given(table.Next(latest(now, st.Through))), Last: given(st.Last), Sent: given(st.Sent), Missed: st.Missed,
	}
	if info.Last != nil {
		info.ID = x.ID(st.Last)
	}
	due := table.Latest(st.Through, now)
	switch {
	case !found:
		info.State = StateNew
	case st.Begun != nil:
		info.State, info.Next = StateSending, given(st.Begun.Tick)
	case st.Cron != x.Cron || st.Zone != x.Zone:
		info.State = StateChanged
	case st.Through.After(now.Add(behind)):
		info.State = StateBehind
	case !due.IsZero():
		info.State, info.Next = StateDue, &due
	default:
		info.State = StateWaiting
	}
	return info, nil
}

// behind is longer than any system puts ticks on a queue before their time.
const behind = 20 * time.Minute

func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
