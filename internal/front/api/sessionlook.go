package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/problem"
)

// A describedSession is a session as people and checks see it.
type describedSession struct {
	Name       string          `json:"name"`
	Fence      uint64          `json:"fence"`
	Life       uint64          `json:"life"`
	Holder     string          `json:"holder,omitempty"`
	LeaseUntil *time.Time      `json:"lease_until,omitempty"`
	Cursor     uint64          `json:"cursor"`
	Last       uint64          `json:"last"`
	Dead       []numberRange   `json:"dead"`
	Tries      uint64          `json:"tries"`
	At         uint64          `json:"at,omitempty"`
	Takeovers  uint64          `json:"takeovers"`
	Retired    bool            `json:"retired"`
	Returned   bool            `json:"returned"`
	Ended      bool            `json:"ended"`
	State      json.RawMessage `json:"state,omitempty"`
}

func newDescribedSession(name string, d *session.Description) describedSession {
	x := describedSession{
		Name: name, Fence: d.Fence, Life: d.Life, Holder: d.Holder, Cursor: d.Cursor, Last: d.Cursor, Dead: numbers(d.Dead), Tries: d.Tries, At: d.At, Takeovers: d.Takeovers,
		Retired: d.Closed, Returned: d.Returned, Ended: d.Ended, State: d.State,
	}
	if !d.LeaseUntil.IsZero() {
		x.LeaseUntil = &d.LeaseUntil
	}
	for _, p := range d.Parts {
		x.Last = max(x.Last, p.Number+p.Count-1)
	}
	return x
}

// describeSession answers with a session.
func (s *server) describeSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	d, err := s.Sessions.Describe(r.Context(), id)
	if err != nil {
		return sessionProblem(err)
	}
	if d.Fence == 0 {
		return &problem.Problem{Type: problem.UnknownSession}
	}
	return writeJSON(w, http.StatusOK, newDescribedSession(id.Name, &d))
}
