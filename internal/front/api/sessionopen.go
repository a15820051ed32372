package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// Bounds of the lease of a session.
const (
	minLease = 100 * time.Millisecond
	maxLease = 24 * time.Hour
)

// An opening is the body of a call that opens a session.
type opening struct {
	Holder string       `json:"holder"`
	Take   session.Take `json:"take"`
	Lease  string       `json:"lease"`
}

// An openedSession is the answer to it.
type openedSession struct {
	Fence      uint64          `json:"fence"`
	Life       uint64          `json:"life"`
	Cursor     uint64          `json:"cursor"`
	Dead       []numberRange   `json:"dead"`
	First      uint64          `json:"first"`
	Last       uint64          `json:"last"`
	Ended      bool            `json:"ended"`
	Tries      uint64          `json:"tries"`
	At         uint64          `json:"at,omitempty"`
	LeaseUntil time.Time       `json:"lease_until"`
	State      json.RawMessage `json:"state,omitempty"`
}

// openSession takes a session for a holder.
func (s *server) openSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	var body opening
	if err := readDocument(w, r, &body); err != nil {
		return err
	}
	o := session.Opening{Holder: body.Holder, Take: body.Take}
	if err := session.CheckName("holder", o.Holder); err != nil {
		return malformedName(err)
	}
	if o.Take != "" && o.Take != session.TakeFree && o.Take != session.TakeMine && o.Take != session.TakeNow {
		return malformedField("take", "must be free, mine or now")
	}
	if body.Lease != "" {
		lease, err := time.ParseDuration(body.Lease)
		if err != nil || lease < minLease || lease > maxLease {
			return malformedField("lease", fmt.Sprintf("must be a duration between %s and %s, such as 30s", minLease, maxLease))
		}
		o.Lease = lease
	}
	x, err := s.Sessions.Open(r.Context(), id, o)
	if err != nil {
		return sessionProblem(err)
	}
	return writeJSON(w, http.StatusOK, openedSession{
		Fence: x.Fence, Life: x.Life, Cursor: x.Cursor, Dead: numbers(x.Dead), First: x.First, Last: x.Last, Ended: x.Ended, Tries: x.Tries, At: x.At,
		LeaseUntil: x.LeaseUntil, State: x.State,
	})
}

// A numberRange is a range of numbers of a session.
type numberRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

func numbers(ranges record.Ranges) []numberRange {
	out := make([]numberRange, len(ranges))
	for i, r := range ranges {
		out[i] = numberRange{r.First, r.Last}
	}
	return out
}
